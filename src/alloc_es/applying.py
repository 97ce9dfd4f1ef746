"""Applying events to a build: a batch, its rows and its checkpoint in one transaction."""

import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, cast

from alloc_es.building import Books, Build
from alloc_es.errors import StoreUnavailable, UnreadableEvent
from alloc_es.events import Recorded
from alloc_es.identity import WorkflowKey
from alloc_es.projection import Projection
from alloc_es.reader_errors import ProjectionStopped
from alloc_es.store import Store
from alloc_es.store.log import PAGE, Batch
from alloc_es.store.recorder import UNLIMITED, LogName
from alloc_es.store.session import BadRow, Row, Session
from alloc_es.tables import Table, listed
from alloc_es.wording import shown

_LATEST: Mapping[LogName, int] = {}


class Overtaken(Exception):
    """Somebody else has moved the checkpoint, or the build; nothing of ours was done."""


class Unapplied(Exception):
    """A batch could not be applied inside of a transaction of somebody else."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where the reads and the writes of a batch are done.

    By themselves, so that the rows are prepared while nobody waits for them, or inside of
    a transaction that has the build to itself.
    """

    reading: Callable[[], AbstractContextManager[Session]]
    writing: Callable[[], AbstractContextManager[Session]]

    @classmethod
    def inside(cls, session: Session) -> "Place":
        """In a transaction that is open."""

        @contextmanager
        def same() -> Iterator[Session]:
            yield session

        return cls(same, same)


@dataclass(frozen=True, slots=True)
class _Ahead:
    """A batch that is read before it is asked for; a log never changes what it has."""

    asked: tuple[LogName, int, int, int]
    batch: Future[Batch[Any]]


class Applier:
    """Applies the events of a store to the builds of one projection."""

    def __init__(self, store: Store, projection: Projection, books: Books) -> None:
        self._log = store.log
        self._projection = projection
        self._books = books
        self._reader: ThreadPoolExecutor | None = None
        self._ahead: _Ahead | None = None
        self._purged: tuple[tuple[int, int] | None, frozenset[str]] = (None, frozenset())
        # What a crash of the server undoes, rows and checkpoint together, is applied again.
        self._place = Place(store.desk.reading, lambda: store.desk.writing(durable=False))

    def ends(self) -> dict[LogName, int]:
        """The last positions of the logs that the projection follows."""
        return {log: self._log(log).end() for log in self._projection.logs}

    def step(
        self,
        build: Build,
        *,
        up_to: Mapping[LogName, int] = _LATEST,
        place: Place | None = None,
        limit: int = PAGE,
    ) -> Build | None:
        """Apply the next batch; return the build as it is then, None at the end of its logs.

        Raises `Overtaken`, and `ProjectionStopped` at an event that can't be handled.
        """
        try:
            moved = self._step(build, up_to, place or self._place, limit)
        except BaseException:
            self.close()
            raise
        if moved is None:
            self.close()
        return moved

    def close(self) -> None:
        """End the thread that reads ahead, if there is one; a later step makes another."""
        reader, self._reader, self._ahead = self._reader, None, None
        if reader is not None:
            reader.shutdown(cancel_futures=True)

    def _step(
        self, build: Build, up_to: Mapping[LogName, int], place: Place, limit: int
    ) -> Build | None:
        for log in self._projection.logs:
            last = up_to.get(log, UNLIMITED)
            batch = self._next(log, build.positions[log], last, limit)
            if batch.events:
                return self._apply(build, log, batch.events, place)
            if batch.failure is not None:
                assert batch.failed_at is not None
                what = f"event {batch.failure.version} of {batch.failure.stream}"
                raise self._stopped(build, log, batch.failed_at, what, batch.failure, place)
        return None

    def _next(self, log: LogName, after: int, up_to: int, limit: int) -> Batch[Any]:
        """The next batch; while it is applied, the one behind it is read."""
        ahead, self._ahead = self._ahead, None
        read = self._log(log).batch
        batch: Batch[Any] | None = None
        if ahead is not None and ahead.asked == (log, after, up_to, limit):
            batch = ahead.batch.result()
        # One that is empty may be so no more: what came since was hinted at before this step.
        if batch is None or not (batch.events or batch.failure):
            batch = read(after, up_to=up_to, limit=limit)
        if len(batch.events) == limit:
            self._read_ahead(log, batch.read_to, up_to, limit)
        return batch

    def _read_ahead(self, log: LogName, after: int, up_to: int, limit: int) -> None:
        self._reader = self._reader or ThreadPoolExecutor(1, "alloc-es reads ahead")
        # At the end of the interpreter no thread is begun any more.
        with suppress(RuntimeError):
            batch = self._reader.submit(self._log(log).batch, after, up_to=up_to, limit=limit)
            self._ahead = _Ahead((log, after, up_to, limit), batch)

    def _apply(
        self, build: Build, log: LogName, events: Sequence[Recorded[Any]], place: Place
    ) -> Build:
        while True:
            try:
                return self._commit(build, log, events, place)
            except (Overtaken, StoreUnavailable):
                raise
            except Exception as error:
                if len(events) == 1 or place is not self._place:
                    first = events[0].event
                    what = f"event {first.originator_version} of {first.originator_id}"
                    met = self._stopped(build, log, events[0].position, what, error, place)
                    raise met from error
            # So the one that can't be handled is found, and those before it are applied.
            events = events[: len(events) // 2]

    def _commit(
        self, build: Build, log: LogName, events: Sequence[Recorded[Any]], place: Place
    ) -> Build:
        changes = Changes(self._projection, build, place.reading)
        if wanted := _of_tenants(events, build.tenant_id, self._left_out(build, place)):
            self._ask(wanted, changes)
        reached = events[-1].position
        with place.writing() as session:
            if not self._books.advance(session, build, log, reached):
                raise Overtaken(build.name)
            changes.make(session)
        return replace(build, positions={**build.positions, log: reached}, failure=None)

    def _ask(self, events: Sequence[Recorded[Any]], changes: "Changes") -> None:
        try:
            # It is somebody else's, so it may be anything.
            answer = cast(Callable[..., object], self._projection.apply)(events, changes)
        except StoreUnavailable as error:
            if error is changes.outage:
                raise
            # Another store's than ours: then it is as any other error.
            raise RuntimeError(f"apply met {error}") from error
        if answer is not None:
            raise TypeError(f"apply answered with {shown(answer)}; it must be a plain function")

    def _left_out(self, build: Build, place: Place) -> frozenset[str]:
        """The tenants to leave out; who changes them changes the revision of the build."""
        known, tenants = self._purged
        if known != (build.build, build.revision):
            with place.reading() as session:
                tenants = self._books.purged(session, build.name)
            self._purged = ((build.build, build.revision), tenants)
        return tenants

    def _stopped(
        self,
        build: Build,
        log: LogName,
        position: int,
        event: str,
        error: Exception,
        place: Place,
    ) -> Exception:
        if place is not self._place:
            return Unapplied(build.name)
        said = _in_words(error) + _place_of(error)
        met = ProjectionStopped(build.name, log=log, position=position, event=event, error=said)
        with place.writing() as session:
            # It may be that the rows were not those of the checkpoint, but of a later one.
            if not self._books.fail(session, build, met):
                return Overtaken(build.name)
        return met


class Changes:
    """What a projection asks for while it is given a batch; see `projection.Rows`.

    No connection is held while the projection's own code runs.
    """

    def __init__(
        self,
        projection: Projection,
        build: Build,
        reading: Callable[[], AbstractContextManager[Session]],
    ) -> None:
        self._projection = projection
        self._build = build
        self._reading = reading
        self._asked: list[Callable[[Session], object]] = []
        self.outage: StoreUnavailable | None = None
        """Why the rows could not be read, if they could not."""

    def of(self, table: str, keys: Iterable[WorkflowKey]) -> list[Row]:
        """The rows of some workflows, as the batch before left them."""
        found, rows = self._projection.table(table), []
        start = f"SELECT {listed(found.names)} FROM {self._build.table(table)} WHERE"
        try:
            for part in _parts(keys):
                with self._reading() as session:
                    held = session.rows(f"{start} {_among(part)}", *_flat(part))
                    rows += session.read(found, held)
        except StoreUnavailable as error:
            self.outage = error
            raise
        return rows

    def insert(self, table: str, rows: Iterable[Row]) -> None:
        """Add rows, none of whose keys may be there."""
        found, name, added = self._checked(table, rows)
        if added:
            self._asked.append(lambda session: session.insert(found, name, added))

    def put(self, table: str, rows: Iterable[Row]) -> None:
        """Add rows, or replace those with the same key."""
        found, name, added = self._checked(table, rows)
        if added:
            self._asked.append(lambda session: session.put(found, name, added))

    def add(self, table: str, sums: Mapping[Row, Row]) -> None:
        """Add what belongs to a key to the columns outside of the key."""
        found = self._projection.table(table)
        if any(column.kind != "integer" for column in found.columns if column.name in found.rest):
            raise BadRow(f"table {table}: only integers can be added, and it has others")
        order = [(*found.key, *found.rest).index(column) for column in found.names]
        rows = []
        for key, more in sums.items():
            if (len(key), len(more)) != (len(found.key), len(found.rest)):
                parts = f"{len(key)} values of a key and {len(more)} to add"
                raise BadRow(f"table {table}: {parts}, for {len(found.key)} and {len(found.rest)}")
            rows.append(tuple((*key, *more)[i] for i in order))
        _, name, added = self._checked(table, rows)
        if added:
            self._asked.append(lambda session: session.add(found, name, added))

    def remove(self, table: str, keys: Iterable[WorkflowKey]) -> None:
        """Remove the rows of some workflows."""
        self._projection.table(table)
        for part in _parts(keys):
            statement = f"DELETE FROM {self._build.table(table)} WHERE {_among(part)}"
            self._asked.append(partial(_run, statement, part))

    def _checked(self, table: str, rows: Iterable[Row]) -> tuple[Table, str, list[Row]]:
        found, listed_rows = self._projection.table(table), list(rows)
        try:
            found.check(listed_rows)
        except (TypeError, ValueError) as error:
            raise BadRow(f"table {table}: {error}") from error
        return found, self._build.table(table), listed_rows

    def make(self, session: Session) -> None:
        """Make the changes, in the order in which they were asked for."""
        for change in self._asked:
            change(session)


def _in_words(error: Exception) -> str:
    """What an error of somebody else's code says, as every store can hold it."""
    try:
        said = str(error)
    except Exception:  # noqa: BLE001 - it is theirs too
        said = "it can't be told"
    said = " ".join(said.encode("utf-8", "backslashreplace").decode().replace("\0", "\\0").split())
    return said if isinstance(error, BadRow) else f"{type(error).__name__}: {said}"


def _place_of(error: Exception) -> str:
    """Where in somebody's code an error was raised."""
    if isinstance(error, BadRow | UnreadableEvent) or error.__traceback__ is None:
        return ""
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f" at {Path(last.filename).name}:{last.lineno}"


def _of_tenants(
    events: Sequence[Recorded[Any]], only: str | None, purged: frozenset[str]
) -> Sequence[Recorded[Any]]:
    if only is None and not purged:
        return events
    if only is not None:
        return [entry for entry in events if entry.event.key.tenant_id == only]
    return [entry for entry in events if entry.event.key.tenant_id not in purged]


def _parts(keys: Iterable[WorkflowKey]) -> Iterator[list[WorkflowKey]]:
    """The keys, each once, as many at a time as a statement takes."""
    wanted = list(dict.fromkeys(WorkflowKey.parse(*key) for key in keys))
    for first in range(0, len(wanted), PAGE):
        yield wanted[first : first + PAGE]


def _run(statement: str, keys: Sequence[WorkflowKey], session: Session) -> None:
    session.run(statement, *_flat(keys))


def _among(keys: Sequence[WorkflowKey]) -> str:
    return f"(tenant_id, workflow_id) IN (VALUES {', '.join(['(?, ?)'] * len(keys))})"


def _flat(keys: Sequence[WorkflowKey]) -> list[str]:
    return [part for key in keys for part in key]
