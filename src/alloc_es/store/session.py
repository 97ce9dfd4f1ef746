"""Work on the tables beside the logs, in one transaction, in the words of either database."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import lru_cache
from threading import Event
from typing import Any, ClassVar

from alloc_es.tables import Kind, Table, listed

Row = tuple[Any, ...]
"""A row of a table, in the order of its columns."""


class Session(ABC):
    """One transaction on the tables beside the logs.

    Statements have `?` for each parameter. Errors leave as those of the store do; what a
    row itself is to blame for leaves as `BadRow`.
    """

    types: ClassVar[dict[Kind, str]]
    """What a column of a kind is declared as."""
    table_options: ClassVar[str] = ""
    keeps_views: ClassVar[bool]
    """Whether a view can be given another table without its readers noticing."""

    @abstractmethod
    def rows(self, statement: str, *parameters: object) -> list[Row]:
        """The rows that a statement selects."""

    @abstractmethod
    def run(self, statement: str, *parameters: object) -> int:
        """Carry a statement out; how many rows it was about."""

    @abstractmethod
    def scan(self, table: Table, name: str, statement: str) -> Iterator[Row]:
        """The rows of a table that a statement selects, a part of them at a time."""

    @abstractmethod
    def read(self, table: Table, rows: Iterable[Row]) -> list[Row]:
        """Rows as they were written, from as they are stored."""

    @abstractmethod
    def insert(self, table: Table, name: str, rows: Sequence[Row]) -> None:
        """Add rows, none of whose keys is there, to the table that is called `name`."""

    @abstractmethod
    def upsert(self, table: Table, name: str, rows: Sequence[Row], changes: str) -> None:
        """Add rows; where a key is there, make `changes` to the row `live` instead."""

    @abstractmethod
    def create_view(self, create: str, name: str, select: str) -> None:
        """Create, or replace, a view that can be read.

        Raises `BadView` where its SELECT is to blame.
        """

    @abstractmethod
    def take_time(self) -> None:
        """Until the end of the transaction, statements may take long, but not wait long.

        A lock that somebody else holds for half a second is given up: those who come behind us
        would wait for it too.
        """

    @abstractmethod
    def take_turn(self, table: str) -> None:
        """Wait for whoever has a turn at a table, and have it until the end of the transaction.

        Whoever appends to a log has a turn at its table.
        """

    def tell_size(self, table: str) -> None:  # noqa: B027 - where a database plans by its key
        """Let the database plan anew for a table that has grown."""

    @abstractmethod
    def load(self, table: str, rows: Iterable[Row]) -> None:
        """Add the rows of a log to its table, which is empty, at the positions that they have.

        A row is a position, a stream, its version, a type name and the stored bytes. The rules
        of the table hold, but that a run of release 0.1 is let through, which was not verified
        at a position of the decision log. Raises `BadRow` where they refuse a row.
        """

    def shown(self, name: str, build: int) -> str:  # noqa: ARG002 - see PostgreSQL's
        """What a view of a build's table says behind the name of that table."""
        return ""

    def describe(self, table: Table) -> None:  # noqa: B027 - where a database can't
        """Say in the database what the columns of the table's view mean."""

    def put(self, table: Table, name: str, rows: Iterable[Row]) -> None:
        """Add rows, or replace those with the same key; of two with one key the last counts."""
        newest = list({table.key_of(row): row for row in rows}.values())
        self.upsert(table, name, newest, _changes(table, 'excluded."{0}"'))

    def add(self, table: Table, name: str, rows: Sequence[Row]) -> None:
        """Add rows, or add what is outside of the key to those with the same key."""
        self.upsert(table, name, rows, _changes(table, 'live."{0}" + excluded."{0}"'))

    def create(self, table: Table, name: str) -> None:
        """Create a table, with its indexes, that is called `name`."""
        columns = [
            f'"{column.name}" {self.types[column.kind]}{"" if column.optional else " NOT NULL"}'
            for column in table.columns
        ]
        key = f"PRIMARY KEY ({listed(table.key)})"
        self.run(f"CREATE TABLE {name} ({', '.join([*columns, key])}){self.table_options}")
        for number, index in enumerate(table.indexes, start=1):
            self.run(f"CREATE INDEX {name}__{number} ON {name} ({listed(index)})")


def is_verified(table: str, row: Row) -> bool:
    """Whether a row of a log is one that the rules of its table let through today."""
    return table != "run_events" or b'"decision_position":null' not in row[-1]


class BadRow(Exception):
    """The database refuses a row for what is in it: a value, or a key that is taken."""


class BadView(Exception):
    """The database refuses the SELECT of a view."""


@dataclass(frozen=True, slots=True)
class Joined:
    """A transaction of the caller's: a session in it, and whether it is still open.

    `schema` goes before the names of tables there.
    """

    session: Session
    schema: str
    is_open: Callable[[], bool]


class Desk(ABC):
    """Opens sessions on the tables beside the logs."""

    @abstractmethod
    def reading(self) -> AbstractContextManager[Session]:
        """Statements that read, each what is committed when it begins."""

    @abstractmethod
    def snapshot(self) -> AbstractContextManager[Session]:
        """Statements that read what was committed at one moment."""

    @abstractmethod
    def writing(self, *, durable: bool = True) -> AbstractContextManager[Session]:
        """A transaction: *atomic*. Without `durable` its end need not wait for the disk:
        after a crash of the server it may not have been."""

    @abstractmethod
    def joined(self, connection: Any) -> Joined:
        """The transaction that is open on a connection of the caller's.

        Raises `InvalidSetting` for a connection that can't be one, or has none open.
        """


class Watch(ABC):
    """Tells when something may have been appended to a log. Close it."""

    @abstractmethod
    def wait(self, seconds: float) -> bool:
        """Wait for a hint, so long at most; whether there was one.

        Raises `StoreUnavailable` when it can tell no more.
        """

    @abstractmethod
    def close(self) -> None:
        """Give back what it holds."""


class DeafWatch(Watch):
    """Hears nothing, where nothing can be heard; who relies on it has to look by itself."""

    def __init__(self) -> None:
        self._closed = Event()

    def wait(self, seconds: float) -> bool:
        """Wait in vain."""
        self._closed.wait(seconds)
        return False

    def close(self) -> None:
        """Wait no more."""
        self._closed.set()


@lru_cache
def upsert_clause(table: Table, changes: str) -> str:
    """What a database does with a row whose key is there."""
    wanted = f"UPDATE SET {changes}" if changes else "NOTHING"
    return f"ON CONFLICT ({listed(table.key)}) DO {wanted}"


def _changes(table: Table, value: str) -> str:
    """What becomes of the columns outside of the key, `{0}` being their names."""
    return ", ".join(f'"{column}" = {value.format(column)}' for column in table.rest)
