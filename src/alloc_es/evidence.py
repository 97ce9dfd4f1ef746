"""What an auditor holds: an open store, or the files that were exported from one."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Protocol, Self

from alloc_es.app import Allocations
from alloc_es.codec import digest
from alloc_es.errors import UnreadableEvent
from alloc_es.events import DecisionEvent, E, Recorded, RunSpawned
from alloc_es.identity import RunId, TenantId, WorkflowKey, run_stream
from alloc_es.store import EventLog
from alloc_es.store.log import parts_up_to
from alloc_es.store.recorder import LOWEST, UNLIMITED, LogName, Stored


class Unreadable(NamedTuple):
    """A row of a log that is no event of ours, where it lies, and the SHA-256 of its bytes."""

    position: int
    error: UnreadableEvent
    digest: str


class Evidence(Protocol):
    """The two logs as they lie in a store, or in an export of one; a context manager.

    Both logs are read *in commit order*. `where` names it for people, without secrets.
    """

    where: str

    def ends(self) -> Mapping[LogName, int]:
        """The last position of each log, 0 for an empty one.

        The runs' is looked up before the decisions', so that no run up to it was verified
        behind the decisions' end.
        """

    def decisions(self) -> Iterator[Recorded[DecisionEvent] | Unreadable]:
        """The whole decision log."""

    def runs(
        self, after: int = 0, up_to: int = UNLIMITED
    ) -> Iterator[Recorded[RunSpawned] | Unreadable]:
        """The run log behind a position, up to another one."""

    def stored(self, log: LogName, after: int = 0, up_to: int = UNLIMITED) -> Iterator[Stored]:
        """The rows of a log as they are stored, whatever can be read of them."""

    def parts(self) -> Sequence[tuple[int, int]]:
        """The run log in parts `(after, up_to]`, in order, with borders at multiples of `BLOCK`.

        Parts can be read side by side, each by evidence that was opened for it.
        """

    def history(self, key: WorkflowKey) -> list[Recorded[DecisionEvent]]:
        """The decisions on one workflow, oldest first; none where it is not known."""

    def run(self, tenant_id: TenantId, run_id: RunId) -> Recorded[RunSpawned] | None:
        """The run of an id, or None."""

    def close(self) -> None:
        """Give back what it reads from; closing twice is allowed."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def open_evidence(
    where: str | Path | Allocations, *, archives: Sequence[Path] = (), check: bool = True
) -> Evidence:
    """Evidence of a store's URL, the path of an export, or a connection, which stays open.

    With `archives` the runs that are archived in these directories are read from there. An
    export is read once and compared with its own digests, unless `check` is False. Raises what
    `connect` raises, and `ExportDamaged` for a path that holds no export, or one that is not
    as it was written.
    """
    if isinstance(where, Allocations):
        return StoreEvidence(where, owned=False)
    # What reads exports is also what reads archives, which `connect` may be given.
    from alloc_es.connecting import connect
    from alloc_es.exchange import open_export

    if is_url(where):
        return StoreEvidence(connect(str(where), migrate=False, archives=archives))
    return open_export(Path(where), check=check)


def is_url(where: str | Path) -> bool:
    """Whether it names a store, and not a path."""
    scheme, colon, _ = str(where).partition(":")
    return bool(colon) and scheme in ("memory", "sqlite", "postgresql", "postgres")


class StoreEvidence(Evidence):
    """The logs of an open store, with whatever archives are attached to it."""

    def __init__(self, allocations: Allocations, *, owned: bool = True) -> None:
        self.allocations = allocations
        self.where = allocations.store
        self._owned = owned

    def ends(self) -> Mapping[LogName, int]:
        """The last position of each log; the runs' is looked up first."""
        runs = self.allocations.position("runs")
        return {"runs": runs, "decisions": self.allocations.position()}

    def decisions(self) -> Iterator[Recorded[DecisionEvent] | Unreadable]:
        """The whole decision log."""
        return _rows(self.allocations, self.allocations._store.decisions, LOWEST, UNLIMITED)

    def runs(
        self, after: int = 0, up_to: int = UNLIMITED
    ) -> Iterator[Recorded[RunSpawned] | Unreadable]:
        """The run log behind a position, up to another one."""
        return _rows(self.allocations, self.allocations._store.runs, after, up_to)

    def stored(self, log: LogName, after: int = 0, up_to: int = UNLIMITED) -> Iterator[Stored]:
        """The rows of a log as they are stored, whatever can be read of them."""
        rows = self.allocations._store.log(log)
        while page := self.allocations._insist(partial(rows.stored, after, up_to=up_to)):
            yield from page
            after = page[-1].position

    def parts(self) -> Sequence[tuple[int, int]]:
        """Parts of 50,000 positions up to the log's end; the first begins below all positions."""
        parts = parts_up_to(self.allocations.position("runs"))
        return [(after or LOWEST, up_to) for after, up_to in parts]

    def history(self, key: WorkflowKey) -> list[Recorded[DecisionEvent]]:
        """The decisions on one workflow, oldest first."""
        log = self.allocations._store.decisions
        return self.allocations._insist(lambda: log.stream(key.stream))

    def run(self, tenant_id: TenantId, run_id: RunId) -> Recorded[RunSpawned] | None:
        """The run of an id, by one indexed look-up."""
        log = self.allocations._store.runs
        return self.allocations._insist(lambda: log.newest(run_stream(tenant_id, run_id)))

    def close(self) -> None:
        """Close the store, unless it was open before."""
        if self._owned:
            self.allocations.close()


def _rows(
    allocations: Allocations, log: EventLog[E], after: int, up_to: int
) -> Iterator[Recorded[E] | Unreadable]:
    """The rows of a log; those behind one that can't be read, too."""
    while True:
        batch = allocations._insist(partial(log.batch, after, up_to=up_to))
        yield from batch.events
        if batch.failure is not None and batch.failed_at is not None:
            after = batch.failed_at
            stored = partial(log.stored, after - 1, up_to=after, limit=1)
            for row in allocations._insist(stored):
                yield Unreadable(after, batch.failure, digest(row.state))
        elif not batch.events:
            return
        else:
            after = batch.read_to
