"""Comparing a read model with a fresh fold of the logs."""

from collections.abc import Generator
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import zip_longest

from alloc_es.applying import Applier
from alloc_es.building import Books, Build
from alloc_es.errors import AnswerLost, StoreUnavailable
from alloc_es.projection import Projection
from alloc_es.rebuilding import Report, total
from alloc_es.store import Store
from alloc_es.store.recorder import LogName
from alloc_es.store.session import Row, Session
from alloc_es.store.sqlite_desk import Scratch
from alloc_es.tables import Table, listed


@dataclass(frozen=True, slots=True)
class Difference:
    """A row that is not what the logs say.

    Of `table`, told by its `key`; `found` is the row in the read model and `expected` that
    of the logs, by the names of the columns; None where there is none.
    """

    table: str
    key: dict[str, object]
    found: dict[str, object] | None
    expected: dict[str, object] | None

    def __str__(self) -> str:
        where = ", ".join(f"{name} {value}" for name, value in self.key.items())
        if self.found is None:
            return f"{self.table}: the row of {where} is missing"
        if self.expected is None:
            return f"{self.table}: the row of {where} is in no log"
        wrong = [name for name, value in self.found.items() if self.expected[name] != value]
        said = ", ".join(f"{n} is {self.found[n]}, not {self.expected[n]}" for n in wrong)
        return f"{self.table}: in the row of {where}, {said}"


@dataclass(frozen=True, slots=True)
class Verified:
    """What came of comparing: up to which `positions`, how many `rows`, the first difference.

    Both sides without the tenants that are `left_out`.
    """

    name: str
    positions: dict[LogName, int]
    rows: int
    difference: Difference | None
    left_out: tuple[str, ...] = ()


def verify(store: Store, projection: Projection, books: Books, report: Report) -> Verified:
    """Fold the logs afresh, up to where the read model is, and compare row by row.

    In a temporary file of this machine: the store is only read. Raises `ProjectionNotBuilt`,
    `ProjectionOutdated`, and `ProjectionStopped` where the logs can't be folded so far.
    """
    verified = None
    try:
        while verified is None:
            # Again from the start where a tenant was purged, or came back, meanwhile.
            verified = _verify(store, projection, books, report)
    except AnswerLost as error:
        # Of a read nothing is in doubt.
        raise StoreUnavailable(error.problem, retryable=error.retryable) from error
    return verified


def _verify(store: Store, projection: Projection, books: Books, report: Report) -> Verified | None:
    with closing(Scratch(large=True)) as scratch:
        folding = _Folding(store, scratch, projection, books)
        with store.desk.reading() as session:
            live = books.usable(session, projection)
            purged = books.purged(session, projection.name)
        folding.leave_out(purged)
        folding.go_to(live, report)
        with store.desk.snapshot() as session:
            live = books.usable(session, projection)
            if books.purged(session, projection.name) != purged or folding.is_ahead_of(live):
                return None
            folding.go_to(live, report)
            rows, difference = folding.compare_all(projection, live, session)
        positions = dict(live.positions)
        return Verified(projection.name, positions, rows, difference, tuple(sorted(purged)))


class _Folding:
    """A build of the read model in a database of its own."""

    def __init__(
        self, store: Store, scratch: Scratch, projection: Projection, books: Books
    ) -> None:
        self._desk = scratch.desk()
        self._books = books
        self._applier = Applier(replace(store, desk=self._desk), projection, books)
        with self._desk.writing() as session:
            self._build = books.create(session, projection, None)

    def leave_out(self, tenants: frozenset[str]) -> None:
        """Fold nothing of these tenants."""
        with self._desk.writing() as session:
            for tenant in tenants:
                self._books.purge(session, self._build.name, tenant)

    def is_ahead_of(self, live: Build) -> bool:
        """Whether the read model has stepped back, as behind a crash of its server."""
        return any(self._build.positions[log] > live.positions[log] for log in live.positions)

    def go_to(self, live: Build, report: Report) -> None:
        """Fold up to where the read model is."""
        goal = total(live.positions)
        while moved := self._applier.step(self._build, up_to=live.positions):
            self._build = moved
            report(total(moved.positions), goal)

    def compare_all(
        self, projection: Projection, live: Build, session: Session
    ) -> tuple[int, Difference | None]:
        """How many rows are alike, up to the first that is not, and that one."""
        rows = 0
        for table in projection.tables:
            alike, difference = self.compare(table, live, session)
            rows += alike
            if difference is not None:
                return rows, difference
        return rows, None

    def compare(self, table: Table, live: Build, session: Session) -> tuple[int, Difference | None]:
        """The same of one table."""
        alike = 0
        with (
            self._desk.reading() as own,
            closing(_in_order(session, table, live)) as found,
            closing(_in_order(own, table, self._build)) as expected,
        ):
            for row, fold in zip_longest(found, expected):
                if row != fold:
                    return alike, _difference(table, row, fold)
                alike += 1
        return alike, None


def _in_order(session: Session, table: Table, build: Build) -> Generator[Row]:
    name = build.table(table.name)
    columns, key = listed(table.names), listed(table.key)
    yield from session.scan(table, name, f"SELECT {columns} FROM {name} ORDER BY {key}")


def _difference(table: Table, found: Row | None, expected: Row | None) -> Difference:
    """The first of the two where one has a row that the other has not."""
    if found and expected and table.key_of(found) != table.key_of(expected):
        if _before(table.key_of(found), table.key_of(expected)):
            expected = None
        else:
            found = None
    row = found or expected
    assert row is not None
    key = dict(zip(table.key, table.key_of(row), strict=True))
    return Difference(table.name, key, _named(table, found), _named(table, expected))


def _before(key: Row, other: Row) -> bool:
    """Whether a key comes first in the order of the databases, which is that of bytes."""
    return [_ordered(part) for part in key] < [_ordered(part) for part in other]


def _ordered(part: object) -> object:
    return part.encode() if isinstance(part, str) else part


def _named(table: Table, row: Row | None) -> dict[str, object] | None:
    return None if row is None else dict(zip(table.names, row, strict=True))
