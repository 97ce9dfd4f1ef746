"""The tables beside the logs in PostgreSQL, and word of what is appended to the logs."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import lru_cache, partial
from itertools import groupby
from time import monotonic
from typing import Any, ClassVar

import psycopg
from eventsourcing.persistence import IntegrityError
from psycopg import Connection, Cursor
from psycopg.pq import TransactionStatus
from psycopg.rows import DictRow, tuple_row
from psycopg.sql import SQL, Identifier, Literal

from alloc_es.errors import InvalidSetting, StoreUnavailable
from alloc_es.store.bounded import CONNECT_TIMEOUT, BoundedConnection
from alloc_es.store.postgres_datastore import Datastore
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

_PART = 2_000
_LONG = 3_600.0
# A network that has gone silent tells nobody; a look every so often does.
_LOOK_AFTER = 10.0
_BAD_ROW = ("22", "23")
# As schema version 2 has it.
_ONLY_VERIFIED = (
    "ALTER TABLE run_events ADD CONSTRAINT run_events_verified"
    " CHECK (position('\"decision_position\":null'::bytea IN state) = 0) NOT VALID"
)
# Not 42501, which refuses a role; nor 42P07, where a name is taken.
_BAD_SELECT = ("22", "426", "4270", "428", "42P01", "42P1")


class PostgresSession(Session):
    """A transaction by psycopg, or single statements."""

    types: ClassVar[dict[Kind, str]] = {
        "text": 'text COLLATE "C"',
        "integer": "bigint",
        "time": "timestamptz",
    }
    keeps_views = True

    def __init__(self, connection: Connection[Any]) -> None:
        self._connection = connection

    def rows(self, statement: str, *parameters: object) -> list[Row]:
        """The rows that a statement selects."""
        return self._execute(statement, parameters).fetchall()

    def run(self, statement: str, *parameters: object) -> int:
        """Carry a statement out; how many rows it was about."""
        return self._execute(statement, parameters).rowcount

    def scan(self, table: Table, name: str, statement: str) -> Iterator[Row]:  # noqa: ARG002
        """The rows that a statement selects, by a cursor of the server."""
        with self._connection.cursor(name, row_factory=tuple_row) as cursor:
            cursor.itersize = _PART
            yield from cursor.execute(_driven(statement))

    def read(self, table: Table, rows: Iterable[Row]) -> list[Row]:  # noqa: ARG002
        """The rows; the driver reads them as they were written."""
        return list(rows)

    def insert(self, table: Table, name: str, rows: Sequence[Row]) -> None:
        """Add rows by COPY."""
        copy = f"COPY {name} ({listed(table.names)}) FROM STDIN (FORMAT BINARY)"
        with _row_errors(), self._connection.cursor() as cursor, cursor.copy(copy.encode()) as sink:
            sink.set_types(_copy_types(table))
            for row in rows:
                sink.write_row(row)

    def upsert(self, table: Table, name: str, rows: Sequence[Row], changes: str) -> None:
        """Add or change rows in one statement, a list for each column."""
        statement = (
            f"INSERT INTO {name} AS live ({listed(table.names)})"
            f" SELECT * FROM unnest({', '.join(_array_types(table))})"
            f" {upsert_clause(table, changes)}"
        )
        with _row_errors():
            self._execute(statement, [list(column) for column in zip(*rows, strict=True)])

    def describe(self, table: Table) -> None:
        """As comments, which clients show beside the columns."""
        comment = SQL("COMMENT ON VIEW {0} IS {1}").format(Identifier(table.name), table.meaning)
        self._connection.execute(comment)
        for column in table.columns:
            place = Identifier(table.name, column.name)
            comment = SQL("COMMENT ON COLUMN {0} IS {1}").format(place, column.meaning)
            self._connection.execute(comment)

    def create_view(self, create: str, name: str, select: str) -> None:
        """Create a view; PostgreSQL looks whether it can be read."""
        try:
            # Without parameters, so that a % is one, and a ? too.
            self._connection.execute(f'{create} VIEW "{name}" AS {select}'.encode())
        except psycopg.Error as error:
            if (error.sqlstate or "").startswith(_BAD_SELECT):
                raise BadView(_said(error)) from error
            raise

    def shown(self, name: str, build: int) -> str:
        """Only while the build is live, as the reader's transaction sees it.

        One that began before the swap and reads at one moment would see no rows of it.
        """
        live = f"SELECT FROM projection_builds WHERE name = '{name}' AND build = {build}"
        return f" WHERE (SELECT require_live(EXISTS ({live} AND state = 'live')))"

    def take_time(self) -> None:
        """Let statements take as long as they do, and wait half a second for a lock.

        That is shorter than the server's deadlock_timeout: who reads is never the one to end.
        """
        self._connection.execute(
            "SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = '500ms'"
        )
        assert isinstance(self._connection, BoundedConnection)
        self._connection.longest_wait = _LONG

    def take_turn(self, table: str) -> None:
        """Take a lock; for a log, the one that orders its commits."""
        lock = "SELECT pg_advisory_xact_lock(1634496355, %s::regclass::oid::integer)"
        self._connection.execute(lock, (table,))

    def load(self, table: str, rows: Iterable[Row]) -> None:
        """Add rows by COPY, which takes positions as they are given."""
        self.take_time()
        # The rows come from a file, which is read between two statements too.
        self._connection.execute("SET LOCAL idle_in_transaction_session_timeout = 0")
        for verified, group in groupby(rows, partial(is_verified, table)):
            if verified:
                self._copy(table, group)
                continue
            self._connection.execute("ALTER TABLE run_events DROP CONSTRAINT run_events_verified")
            self._copy(table, group)
            self._connection.execute(_ONLY_VERIFIED)
        # Not setval, which stays where the transaction is undone.
        ((last,),) = self.rows(f"SELECT coalesce(max(notification_id), 0) FROM {table}")
        go_on = "ALTER TABLE {0} ALTER COLUMN notification_id RESTART WITH {1}"
        self._connection.execute(SQL(go_on).format(Identifier(table), Literal(last + 1)))

    def _copy(self, table: str, rows: Iterable[Row]) -> None:
        copy = SQL(
            "COPY {0} (notification_id, originator_id, originator_version, topic, state)"
            " FROM STDIN (FORMAT BINARY)"
        ).format(Identifier(table))
        with _row_errors(), self._connection.cursor() as cursor, cursor.copy(copy) as sink:
            sink.set_types(("int8", "text", "int8", "text", "bytea"))
            for row in rows:
                sink.write_row(row)

    def tell_size(self, table: str) -> None:
        """By ANALYZE, which is skipped, with a warning, for whoever does not own the table."""
        self._connection.execute(SQL("ANALYZE {0}").format(Identifier(table)))

    def _execute(self, statement: str, parameters: Sequence[object]) -> Cursor[Row]:
        cursor = self._connection.cursor(row_factory=tuple_row)
        return cursor.execute(_driven(statement), parameters)


class PostgresDesk(Desk):
    """Sessions on connections of the store's pool."""

    def __init__(self, datastore: Datastore) -> None:
        self._datastore = datastore

    @contextmanager
    def reading(self) -> Iterator[Session]:
        """Statements by themselves."""
        with self._datastore.get_connection() as connection:
            yield PostgresSession(connection)

    @contextmanager
    def snapshot(self) -> Iterator[Session]:
        """A transaction that reads, and sees one moment, for as long as that takes."""
        with self._transaction() as connection:
            connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            connection.execute("SET LOCAL idle_in_transaction_session_timeout = 0")
            session = PostgresSession(connection)
            session.take_time()
            yield session

    @contextmanager
    def writing(self, *, durable: bool = True) -> Iterator[Session]:
        """A transaction."""
        with self._transaction() as connection:
            if not durable:
                # What a batch writes may be much, and is made ready between two statements.
                connection.execute(
                    "SET LOCAL synchronous_commit = off;"
                    " SET LOCAL idle_in_transaction_session_timeout = '60s'"
                )
            yield PostgresSession(connection)

    @contextmanager
    def _transaction(self) -> Iterator[Connection[DictRow]]:
        with self._datastore.get_connection() as connection, ExitStack() as at_end:
            assert isinstance(connection, BoundedConnection)
            # It goes back to the pool as it came.
            at_end.callback(setattr, connection, "longest_wait", connection.longest_wait)
            with connection.transaction():
                yield connection

    def joined(self, connection: Any) -> Joined:
        """A caller's transaction by psycopg."""
        if not isinstance(connection, Connection):
            problem = f"{shown(connection)} is no connection by psycopg to {self._datastore.where}"
            raise InvalidSetting("connection", problem)
        if connection.autocommit and not _is_open(connection):
            problem = "no transaction is open on it, so it would be acknowledged by itself"
            raise InvalidSetting("connection", problem)
        session = PostgresSession(connection)
        return Joined(session, f"{self._datastore.schema}.", partial(_is_open, connection))


class PostgresWatch(Watch):
    """Listens on a connection of its own: the pool's must not gather what they don't read."""

    def __init__(self, datastore: Datastore, tables: Iterable[str]) -> None:
        self._datastore = datastore
        self._ends = ExitStack()
        connection = self._ends.enter_context(datastore.direct_connection())
        assert isinstance(connection, BoundedConnection)
        self._connection = connection
        try:
            for table in tables:
                channel = Identifier(f"{datastore.schema}.{table}")
                self._connection.execute(SQL("LISTEN {0}").format(channel))
        except psycopg.Error as error:
            self.close()
            raise datastore.mapped(error, sent=False) from error
        self._heard = monotonic()

    def wait(self, seconds: float) -> bool:
        """Wait for a notification."""
        try:
            self._connection.longest_wait = seconds + CONNECT_TIMEOUT
            for _ in self._connection.notifies(timeout=seconds, stop_after=1):
                self._heard = monotonic()
                return True
            if monotonic() - self._heard > _LOOK_AFTER:
                self._connection.longest_wait = CONNECT_TIMEOUT
                self._connection.execute("SELECT 1")
                self._heard = monotonic()
        except psycopg.Error as error:
            raise StoreUnavailable(self._datastore.mapped(error, sent=False).problem) from error
        return False

    def close(self) -> None:
        """Close the connection."""
        self._ends.close()


def _is_open(connection: Connection[Any]) -> bool:
    ended = (TransactionStatus.IDLE, TransactionStatus.UNKNOWN)
    return connection.info.transaction_status not in ended


@contextmanager
def _row_errors() -> Iterator[None]:
    """Tell what a row is to blame for from what the server is."""
    try:
        yield
    except psycopg.Error as error:
        if (error.sqlstate or "").startswith(_BAD_ROW) or isinstance(error, psycopg.DataError):
            raise BadRow(_said(error)) from error
        raise
    except (IntegrityError, TypeError, ValueError, OverflowError) as error:
        raise BadRow(f"{type(error).__name__}: {error}") from error


def _said(error: psycopg.Error) -> str:
    return " ".join(str(error).split())


@lru_cache(maxsize=512)
def _driven(statement: str) -> bytes:
    """A statement as the driver takes it."""
    return statement.replace("?", "%s").encode()


@lru_cache
def _copy_types(table: Table) -> tuple[str, ...]:
    names: dict[Kind, str] = {"text": "text", "integer": "int8", "time": "timestamptz"}
    return tuple(names[column.kind] for column in table.columns)


@lru_cache
def _array_types(table: Table) -> tuple[str, ...]:
    return tuple(f"?::{name}[]" for name in _copy_types(table))
