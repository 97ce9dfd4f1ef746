"""The tables beside the logs in SQLite, and word of what is appended to the logs."""

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import UTC, datetime
from functools import partial
from itertools import groupby
from threading import RLock
from time import monotonic, sleep
from typing import Any, ClassVar

from alloc_es.errors import InvalidSetting, StoreUnavailable
from alloc_es.store.schema import migrations, statements
from alloc_es.store.session import (
    BadRow,
    BadView,
    Desk,
    Joined,
    Row,
    Session,
    Watch,
    is_verified,
    upsert_clause,
)
from alloc_es.tables import Kind, Table, listed
from alloc_es.wording import shown

_LOOK_EVERY = 0.01
# The schema versions that are about tables beside the logs.
_BESIDE_THE_LOGS = range(3, 5)


class SQLiteSession(Session):
    """A transaction by sqlite3."""

    types: ClassVar[dict[Kind, str]] = {"text": "TEXT", "integer": "INTEGER", "time": "TEXT"}
    # The rows are in the order of the key, which is what they are looked up by.
    table_options = " WITHOUT ROWID"
    keeps_views = False

    def __init__(self, cursor: sqlite3.Cursor) -> None:
        self._cursor = cursor

    def rows(self, statement: str, *parameters: object) -> list[Row]:
        """The rows that a statement selects."""
        return [tuple(row) for row in self._cursor.execute(statement, _stored(parameters))]

    def run(self, statement: str, *parameters: object) -> int:
        """Carry a statement out; how many rows it was about."""
        return self._cursor.execute(statement, _stored(parameters)).rowcount

    def scan(self, table: Table, name: str, statement: str) -> Iterator[Row]:  # noqa: ARG002
        """The rows that a statement selects; the database hands them out one by one."""
        cursor = self._cursor.connection.cursor()
        for row in cursor.execute(statement):
            yield from self.read(table, [tuple(row)])

    def read(self, table: Table, rows: Iterable[Row]) -> list[Row]:
        """Rows with their times as such."""
        times = table.places("time")
        return [_with(row, times, _time) for row in rows] if times else list(rows)

    def insert(self, table: Table, name: str, rows: Sequence[Row]) -> None:
        """Add rows, one prepared statement for all."""
        self._write(table, f"INSERT INTO {name} {_columns(table)}", rows)

    def upsert(self, table: Table, name: str, rows: Sequence[Row], changes: str) -> None:
        """Add or change rows, one prepared statement for all."""
        start = f"INSERT INTO {name} AS live {_columns(table)}"
        self._write(table, f"{start} {upsert_clause(table, changes)}", rows)

    def create_view(self, create: str, name: str, select: str) -> None:
        """Create a view, and read it: SQLite itself takes any SELECT."""
        try:
            self._cursor.execute(f'{create} VIEW "{name}" AS {select}')
            self._cursor.execute(f'SELECT * FROM "{name}" LIMIT 0')
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode == sqlite3.SQLITE_ERROR:
                raise BadView(str(error)) from error
            raise

    def take_time(self) -> None:
        """Nothing: a transaction has the database to itself from its beginning."""

    def take_turn(self, table: str) -> None:
        """Nothing: a transaction has the database to itself from its beginning."""

    def load(self, table: str, rows: Iterable[Row]) -> None:
        """Add rows, one prepared statement for all; positions are given meanwhile."""
        with self._without(f"{table}_position"):
            for verified, group in groupby(rows, partial(is_verified, table)):
                with nullcontext() if verified else self._without("run_events_verified"):
                    self._insert(table, group)

    def _insert(self, table: str, rows: Iterable[Row]) -> None:
        statement = (
            f"INSERT INTO {table}"
            " (notification_id, originator_id, originator_version, topic, state)"
            " VALUES (?, ?, ?, ?, ?)"
        )
        with _row_errors():
            self._cursor.executemany(statement, rows)

    @contextmanager
    def _without(self, trigger: str) -> Iterator[None]:
        made = "SELECT sql FROM sqlite_master WHERE type = 'trigger' AND name = ?"
        ((create,),) = self.rows(made, trigger)
        self._cursor.execute(f"DROP TRIGGER {trigger}")
        yield
        self._cursor.execute(create)

    def _write(self, table: Table, statement: str, rows: Sequence[Row]) -> None:
        times = table.places("time")
        with _row_errors():
            stored = [_with(row, times, _text) for row in rows] if times else rows
            self._cursor.executemany(statement, stored)


Begin = Callable[[bool], AbstractContextManager[Any]]
"""Begins a transaction that writes, or one that reads, and gives its cursor."""


class SQLiteDesk(Desk):
    """Sessions on a database file, or on a database in memory."""

    def __init__(self, begin: Begin) -> None:
        self._begin = begin

    @contextmanager
    def reading(self) -> Iterator[Session]:
        """A transaction that reads."""
        with self._begin(False) as cursor:
            yield SQLiteSession(cursor)

    snapshot = reading

    @contextmanager
    def writing(self, *, durable: bool = True) -> Iterator[Session]:  # noqa: ARG002
        """A transaction that has the database to itself."""
        with self._begin(True) as cursor:
            yield SQLiteSession(cursor)

    def joined(self, connection: Any) -> Joined:
        """A caller's transaction by sqlite3."""
        if not isinstance(connection, sqlite3.Connection):
            raise InvalidSetting("connection", f"{shown(connection)} is no connection by sqlite3")
        if not connection.in_transaction:
            problem = "no transaction is open on it, so it would be acknowledged by itself"
            raise InvalidSetting("connection", problem)
        session = SQLiteSession(connection.cursor())
        return Joined(session, "", partial(_is_open, connection))


class Scratch:
    """A database of nobody else's, for one transaction at a time; gone when it is closed.

    In memory; or, where `large`, in a temporary file that SQLite removes by itself.
    """

    def __init__(self, *, large: bool = False) -> None:
        self._lock = RLock()
        self._closed = False
        # https://www.sqlite.org/inmemorydb.html#temporary_databases
        place = "" if large else ":memory:"
        self._connection = sqlite3.connect(place, check_same_thread=False, isolation_level=None)
        self._connection.execute("PRAGMA synchronous = OFF")
        with self.transaction(commit=True) as cursor:
            for version, script in migrations("sqlite", 0):
                for statement in statements(script) if version in _BESIDE_THE_LOGS else ():
                    cursor.execute(statement)

    def desk(self) -> SQLiteDesk:
        """Sessions on the tables beside the logs."""
        return SQLiteDesk(self.transaction)

    @contextmanager
    def transaction(self, commit: bool) -> Iterator[sqlite3.Cursor]:
        """A transaction, which is undone where it does not end well."""
        with self._lock:
            if self._closed:
                raise StoreUnavailable("memory was closed", retryable=False)
            try:
                cursor = self._connection.cursor()
                cursor.execute("BEGIN")
                yield cursor
                cursor.execute("COMMIT" if commit else "ROLLBACK")
            except sqlite3.Error as error:
                problem = f"the temporary database of SQLite: {error}"
                raise StoreUnavailable(problem, retryable=False) from error
            finally:
                if self._connection.in_transaction:
                    self._connection.rollback()

    def close(self) -> None:
        """Forget everything."""
        with self._lock:
            self._closed = True
            self._connection.close()


class LookingWatch(Watch):
    """Looks every hundredth of a second whether something has changed."""

    def __init__(self, look: Callable[[], object], close: Callable[[], None]) -> None:
        self._look = look
        self._close = close
        self._seen = look()

    def wait(self, seconds: float) -> bool:
        """Look until there is a change."""
        give_up = monotonic() + seconds
        while (now := self._look()) == self._seen:
            left = give_up - monotonic()
            if left <= 0:
                return False
            sleep(min(left, _LOOK_EVERY))
        self._seen = now
        return True

    def close(self) -> None:
        """Give back what it looks through."""
        self._close()


@contextmanager
def _row_errors() -> Iterator[None]:
    """Tell what a row is to blame for from what the database is."""
    try:
        yield
    except (
        sqlite3.IntegrityError,
        sqlite3.DataError,
        sqlite3.InterfaceError,
        sqlite3.ProgrammingError,
        AttributeError,
        OverflowError,
        TypeError,
        ValueError,
    ) as error:
        raise BadRow(f"{type(error).__name__}: {error}") from error


def _is_open(connection: sqlite3.Connection) -> bool:
    try:
        return connection.in_transaction
    except sqlite3.ProgrammingError:
        # It was closed, which undoes what was not committed.
        return False


def _columns(table: Table) -> str:
    return f"({listed(table.names)}) VALUES ({', '.join('?' * len(table.columns))})"


def _with(row: Row, places: Iterable[int], change: Callable[[Any], Any]) -> Row:
    values = list(row)
    for place in places:
        if values[place] is not None:
            values[place] = change(values[place])
    return tuple(values)


def _stored(parameters: Sequence[object]) -> list[object]:
    return [_text(value) if isinstance(value, datetime) else value for value in parameters]


def _text(time: datetime) -> str:
    return f"{time.astimezone(UTC).replace(tzinfo=None).isoformat(timespec='microseconds')}Z"


def _time(text: Any) -> Any:
    """The time; what other hands have written in another form as it is."""
    try:
        time = datetime.fromisoformat(text)
        return time if _text(time) == text else text
    except (TypeError, ValueError):
        return text
