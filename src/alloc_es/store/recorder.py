"""What a store keeps a log with: the recorders of its tables, and the factory of its parts."""

import json
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from eventsourcing.persistence import (
    ApplicationRecorder,
    InfrastructureFactory,
    Notification,
    StoredEvent,
)

from alloc_es.store.session import Desk, Watch

LogName = Literal["decisions", "runs"]
"""One of the two logs of a store."""

LOGS: Mapping[LogName, str] = {"decisions": "decision_events", "runs": "run_events"}
"""Log → its table."""

UNLIMITED = 2**63 - 1
"""The largest integer of both databases: no version, position or limit is above it."""

LOWEST = -UNLIMITED - 1
"""The smallest one. Positions begin at 1, but for what other hands have written."""


class RunGroup(NamedTuple):
    """Runs to be recorded together, and what they were routed by.

    `streams` are the names of the runs' streams, ascending, so that two groups with the
    same runs never wait for each other in a circle; `states` are their stored bytes as
    text, with `codec.POSITION` where the store is to write the position of the decision
    log. `fences` are the streams of the decisions, each with the digest of the decision that
    must still be its newest. The generation would not do: a store that was restored to an
    earlier state may have come to the same generation by another decision.
    """

    streams: Sequence[str]
    states: Sequence[str]
    fences: Mapping[str, str]


Reroute = Callable[[Sequence[StoredEvent]], RunGroup]
"""Called under the fence with the newest decisions of a group that had become stale."""


class Stored(NamedTuple):
    """A row of a log, in the order of its columns."""

    position: int
    stream: str
    version: int
    topic: str
    state: bytes


class Archive(NamedTuple):
    """What a store knows of an archive of runs, which holds those up to `last_position`.

    It begins behind the archive before it. `digest` is the SHA-256 of its manifest.
    """

    name: str
    last_position: int
    runs: int
    digest: str


class LogRecorder(ApplicationRecorder):
    """What an adapter's recorder does beyond the library's.

    `select_events` and the selections here return `Notification`s: events with positions.
    """

    @abstractmethod
    def select_batch(self, after: int, up_to: int, limit: int) -> Sequence[Stored]:
        """Events behind a position, up to another one, in their order."""

    @abstractmethod
    def select_command(self, originator_id: str, command_id: str) -> Sequence[StoredEvent]:
        """The event of a stream that a command made: one, or none."""

    @abstractmethod
    def select_heads(self, prefix: str) -> Sequence[StoredEvent]:
        """The newest event of each stream whose name begins with `prefix`, by stream name."""

    @abstractmethod
    def select_newest(self, originator_ids: Sequence[str]) -> Sequence[StoredEvent]:
        """The newest event of each of these streams that has one, in any order."""

    @abstractmethod
    def archived_to(self) -> int:
        """The last position of runs that were moved out of their log, 0 where none were."""

    @abstractmethod
    def select_archives(self) -> Sequence[Archive]:
        """The archives that runs were moved to, in the order of their positions."""

    @abstractmethod
    def select_archived(self, originator_ids: Sequence[str]) -> Mapping[str, int]:
        """The positions that the archived ones of these streams of runs had."""

    @abstractmethod
    def insert_runs(self, group: RunGroup, reroute: Reroute) -> int:
        """Record a group of runs behind the fence; return the position it was verified at.

        One transaction: take the fence, which decisions on the same streams wait for; look
        whether each decision is still the newest, and if one is not, ask `reroute` for the
        group that takes its place, which may be empty; insert. Raises the library's
        `IntegrityError`, and records nothing, when a run is known already.
        """


class SqlRecorder(LogRecorder):
    """The selections that the databases' recorders share; a subclass sets the statements."""

    _select_ascending: Any
    _select_descending: Any
    _select_command: Any
    _select_heads: Any
    _select_newest: Any
    _select_batch: Any
    _archived_to: Any
    _select_archives: Any
    _select_archived: Any

    @abstractmethod
    def _rows(self, statement: Any, *parameters: object) -> Sequence[Any]:
        """The rows that a statement selects, by the names of their columns."""

    def select_events(
        self,
        originator_id: Any,
        *,
        gt: int | None = None,
        lte: int | None = None,
        desc: bool = False,
        limit: int | None = None,
    ) -> Sequence[StoredEvent]:
        """Events of one stream, with their positions."""
        return self._select(
            self._select_descending if desc else self._select_ascending,
            originator_id,
            gt or 0,
            UNLIMITED if lte is None else lte,
            UNLIMITED if limit is None else limit,
        )

    def select_command(self, originator_id: str, command_id: str) -> Sequence[StoredEvent]:
        """The event of a stream that a command made."""
        return self._select(self._select_command, originator_id, command_id)

    def select_heads(self, prefix: str) -> Sequence[StoredEvent]:
        """The newest event of each stream whose name begins with `prefix`."""
        return self._select(self._select_heads, prefix)

    def select_newest(self, originator_ids: Sequence[str]) -> Sequence[StoredEvent]:
        """The newest event of each of these streams that has one."""
        return self._select(self._select_newest, json.dumps(originator_ids))

    def archived_to(self) -> int:
        """The last position of runs that were moved out of their log."""
        (row,) = self._rows(self._archived_to)
        return int(row["last_position"])

    def select_archives(self) -> Sequence[Archive]:
        """The archives that runs were moved to."""
        rows = self._rows(self._select_archives)
        return [Archive(*(row[name] for name in Archive._fields)) for row in rows]

    def select_archived(self, originator_ids: Sequence[str]) -> Mapping[str, int]:
        """The positions that the archived ones of these streams of runs had."""
        rows = self._rows(self._select_archived, json.dumps(originator_ids))
        return {row["originator_id"]: row["position"] for row in rows}

    def _select(self, statement: Any, *parameters: object) -> list[Notification]:
        return [notification(row) for row in self._rows(statement, *parameters)]


def notification(row: Any) -> Notification:
    """The event of a row, by the names of its columns."""
    return Notification(
        id=row["notification_id"],
        originator_id=row["originator_id"],
        originator_version=row["originator_version"],
        topic=row["topic"],
        state=stored_bytes(row["state"]),
    )


def stored_bytes(state: Any) -> bytes:
    """The bytes of a row.

    SQLite takes values of any type into any column. One that other hands have put there, and
    that is none of bytes, is given as JSON, a text in quotes: so no reader, of whatever was
    made of it, takes it for an event.
    """
    return state if type(state) is bytes else json.dumps(state, ensure_ascii=False).encode()


class StoreFactory(InfrastructureFactory[Any]):
    """What an adapter's factory does beyond the library's; `where` names the store."""

    where: str

    @abstractmethod
    def prepare(self, *, migrate: bool) -> None:
        """Check the schema version; bring an empty or older store up to date if asked to."""

    @abstractmethod
    def log_recorder(self, table: str) -> LogRecorder:
        """A recorder of one of the store's two logs."""

    @abstractmethod
    def desk(self) -> Desk:
        """Sessions on the tables beside the logs."""

    @abstractmethod
    def watch(self) -> Watch:
        """Word of what is appended from now on."""
