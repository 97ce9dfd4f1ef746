"""The store `sqlite:///path`: one file, many processes."""

import json
import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from itertools import repeat
from pathlib import Path
from threading import Lock
from time import monotonic

from eventsourcing.persistence import (
    ConnectionPoolClosedError,
    InfrastructureFactory,
    IntegrityError,
    Notification,
    PersistenceError,
)
from eventsourcing.sqlite import (
    SQLiteApplicationRecorder,
    SQLiteConnection,
    SQLiteConnectionPool,
    SQLiteCursor,
    SQLiteDatastore,
    SQLiteFactory,
    SQLiteTransaction,
)

from alloc_es.clock import Patience
from alloc_es.codec import POSITION, RUN_SPAWNED, digest
from alloc_es.errors import AnswerLost, StoreNotInitialised, StoreUnavailable
from alloc_es.store.log import UNLIMITED, Reroute, RunGroup, SqlRecorder, StoreFactory, notification
from alloc_es.store.schema import SCHEMA_VERSION, check_version, migrations

# What waiting can't mend: see https://www.sqlite.org/rescode.html
_HOPELESS = frozenset(
    {"SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_FULL", "SQLITE_CORRUPT", "SQLITE_NOTADB"}
)


# Milliseconds that SQLite waits for a lock before it says so: two or three looks. Left to
# itself it looks ever more seldom, after up to 0.1 s, and a writer among busy ones starves.
_BUSY_TIMEOUT = 5


class _WriteTransaction(SQLiteTransaction):
    connection: "_Connection"

    def __enter__(self) -> SQLiteCursor:
        # A deferred BEGIN takes the write lock at the first write, where SQLite can't wait
        # for it without risking a deadlock, and so answers "busy" at once.
        cursor = self.connection.cursor()
        give_up = monotonic() + self.connection.lock_timeout
        while True:
            try:
                cursor.execute("BEGIN IMMEDIATE")
                return cursor
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or monotonic() > give_up:
                    raise


class _Connection(SQLiteConnection):
    lock_timeout = 0.0
    """Seconds to wait for the right to write."""

    @contextmanager
    def transaction(self, *, commit: bool) -> Iterator[SQLiteCursor]:
        kind = _WriteTransaction if commit else SQLiteTransaction
        with kind(self, commit=commit) as cursor, cursor:
            yield cursor


class _ConnectionPool(SQLiteConnectionPool):
    opened: tuple[int, int] | None = None
    """The identity of the file that the connections are to."""

    def close(self) -> None:
        """Close what is idle; a connection in use is closed by the thread that uses it."""
        with self._put_condition:
            self._in_use.clear()
            super().close()

    def _create_connection(self) -> SQLiteConnection:
        made = super()._create_connection()
        self.opened = self.opened or _identity(self.db_name)
        # In WAL mode anything less than FULL may lose the last commits with the power.
        made._sqlite_conn.execute("PRAGMA synchronous = FULL")
        made._sqlite_conn.execute(f"PRAGMA busy_timeout = {_BUSY_TIMEOUT}")
        connection = _Connection(made._sqlite_conn, max_age=self.max_age)
        connection.lock_timeout = self.pool_timeout
        return connection


class Datastore(SQLiteDatastore):
    """Connections to one database file; the one place where SQLite's errors are mapped."""

    pool: _ConnectionPool

    def __init__(self, path: Path, timeout: float) -> None:
        # First: the library closes even what was never made whole.
        self._process = os.getpid()
        super().__init__(str(path), originator_id_type="text")
        self.where = f"SQLite database {path}"
        self.pool = _ConnectionPool(
            db_name=str(path), lock_timeout=max(1, round(timeout)), pool_timeout=timeout
        )
        self._timeout = timeout
        # The pool's own writer lock stays locked when a connection can't be made.
        self._one_writer = Lock()

    @contextmanager
    def transaction(self, *, commit: bool) -> Iterator[SQLiteCursor]:
        """A transaction that writes (`commit`) or one that reads."""
        with self.mapped_errors(), self._turn(writing=commit):
            self._check_file()
            connection = self.pool.get_connection()
            try:
                with connection.transaction(commit=commit) as cursor:
                    yield cursor
            finally:
                # Closed meanwhile: what was committed before that stays committed.
                try:
                    self.pool.put_connection(connection)
                except ConnectionPoolClosedError:
                    connection.close()

    def close(self) -> None:
        """Close the connections, unless a fork has handed them to this process."""
        if os.getpid() == self._process:
            super().close()

    def _check_file(self) -> None:
        # SQLite goes on with the file that it opened, and commits to one that was removed
        # or replaced are lost: https://www.sqlite.org/howtocorrupt.html#_unlinking_or_renaming
        if self.pool.opened not in (None, _identity(self.pool.db_name)):
            problem = f"{self.where} was removed or replaced while it was open; connect again"
            raise StoreUnavailable(problem, retryable=False)

    @contextmanager
    def _turn(self, *, writing: bool) -> Iterator[None]:
        if not writing:
            yield
            return
        if not self._one_writer.acquire(timeout=self._timeout):
            raise StoreUnavailable(f"{self.where} was busy for {self._timeout:g} s")
        try:
            yield
        finally:
            self._one_writer.release()

    @contextmanager
    def mapped_errors(self) -> Iterator[None]:
        """Turn what SQLite and the library raise into our errors, conflicts aside."""
        try:
            yield
        except (IntegrityError, sqlite3.IntegrityError):
            raise
        except ConnectionPoolClosedError as error:
            raise StoreUnavailable(f"{self.where} was closed", retryable=False) from error
        except (PersistenceError, sqlite3.Error) as error:
            raise self._mapped(error) from error

    def _mapped(self, error: Exception) -> StoreUnavailable:
        cause = error if isinstance(error, sqlite3.Error) else error.__cause__
        name = getattr(cause, "sqlite_errorname", "")
        hopeless = any(name.startswith(code) for code in _HOPELESS)
        if name.startswith("SQLITE_IOERR"):
            return AnswerLost(f"{self.where}: {error}")
        if name.startswith("SQLITE_BUSY"):
            return StoreUnavailable(f"{self.where} is locked: another process is writing to it")
        return StoreUnavailable(f"{self.where}: {error}", retryable=not hopeless)


class SQLiteRecorder(SqlRecorder, SQLiteApplicationRecorder):
    """A log in a table, with positions in a column of their own."""

    def __init__(self, datastore: Datastore, events_table_name: str) -> None:
        super().__init__(datastore, events_table_name)
        table = events_table_name
        columns = "originator_id, originator_version, topic, state"
        self.insert_events_statement = f"INSERT INTO {table} ({columns}) VALUES (?, ?, ?, ?)"
        select = f"SELECT notification_id, {columns} FROM {table}"
        stream = (
            f"{select} WHERE originator_id = ? AND originator_version > ?"
            " AND originator_version <= ? ORDER BY originator_version"
        )
        self._select_ascending = f"{stream} LIMIT ?"
        self._select_descending = f"{stream} DESC LIMIT ?"
        self._select_command = (
            f"{select} WHERE originator_id = ?"
            " AND json_extract(CAST(state AS TEXT), '$.command_id') = ?"
        )
        newest = (
            " WHERE (originator_id, originator_version) IN"
            " (SELECT originator_id, MAX(originator_version) FROM {0}"
            " WHERE originator_id IN (SELECT value FROM json_each(?)) GROUP BY 1)"
        )
        self._select_newest = select + newest.format(table)
        self._select_newest_decisions = (
            f"SELECT notification_id, {columns} FROM decision_events"
            + newest.format("decision_events")
        )
        self._select_heads = (
            f"{select} WHERE instr(originator_id, ?) = 1"
            " AND (originator_id, originator_version) IN"
            f" (SELECT originator_id, MAX(originator_version) FROM {table} GROUP BY 1)"
            " ORDER BY originator_id"
        )
        self._select_page = (
            f"{select} WHERE notification_id >= ? AND notification_id <= ?"
            " AND (json_array_length(?) = 0 OR topic IN (SELECT value FROM json_each(?)))"
            " ORDER BY notification_id LIMIT ?"
        )

    def select_notifications(
        self,
        start: int | None,
        limit: int,
        stop: int | None = None,
        topics: Sequence[str] = (),
        *,
        inclusive_of_start: bool = True,
    ) -> Sequence[Notification]:
        """A page of the log, in the order of positions."""
        first = (start or 0) + (0 if inclusive_of_start else 1)
        last = UNLIMITED if stop is None else stop
        wanted = json.dumps(list(topics))
        return self._select(self._select_page, first, last, wanted, wanted, limit)

    def insert_runs(self, group: RunGroup, reroute: Reroute) -> int:
        """Record a group in one transaction, during which nobody else decides."""
        with self.datastore.transaction(commit=True) as cursor:
            if _is_stale(cursor, group):
                cursor.execute(self._select_newest_decisions, (json.dumps(list(group.fences)),))
                group = reroute([notification(row) for row in cursor.fetchall()])
            cursor.execute("SELECT COALESCE(MAX(notification_id), 0) FROM decision_events")
            position: int = cursor.fetchone()[0]
            # All at once: JSON text holds no line feed.
            states = "\n".join(group.states).replace(POSITION, str(position)).encode()
            rows = zip(group.streams, repeat(1), repeat(RUN_SPAWNED), states.split(b"\n"))
            cursor.executemany(self.insert_events_statement, rows)
        return position

    def _rows(self, statement: str, *parameters: object) -> Sequence[sqlite3.Row]:
        with self.datastore.transaction(commit=False) as cursor:
            cursor.execute(statement, parameters)
            rows: Sequence[sqlite3.Row] = cursor.fetchall()
        return rows


class Factory(SQLiteFactory, StoreFactory):
    """Makes the two logs of a store in one SQLite file, and its tables."""

    def __init__(self, path: Path, patience: Patience) -> None:
        InfrastructureFactory.__init__(self, env={})
        self.datastore: Datastore = Datastore(path, patience.timeout)
        self.where = self.datastore.where
        self._path = path
        self._patience = patience

    def log_recorder(self, table: str) -> SQLiteRecorder:
        """A recorder of one of the two tables."""
        return SQLiteRecorder(self.datastore, table)

    def prepare(self, *, migrate: bool) -> None:
        """Check the schema version, and bring an empty or older database up to date.

        Raises `StoreNotInitialised` where `migrate` is False and that would be needed,
        `SchemaTooNew` for the tables of a newer release.
        """
        try:
            exists, has_home = self._path.exists(), self._path.parent.is_dir()
        except OSError as error:
            raise StoreUnavailable(f"{self.where}: {error.strerror}", retryable=False) from error
        if not migrate and not exists:
            raise StoreNotInitialised(self.where, found=0, wanted=SCHEMA_VERSION, missing=True)
        if not has_home:
            problem = f"{self.where}: there is no directory {self._path.parent}"
            raise StoreUnavailable(problem, retryable=False)
        # The change to WAL mode does not wait for a lock as other statements do.
        self._patience.insist(lambda: self._prepare(migrate=migrate))

    def _prepare(self, *, migrate: bool) -> None:
        if check_version(self._version(), self.where, migrate=migrate):
            self._migrate()

    def _version(self) -> int:
        # Not through the pool, which turns the file into WAL mode, even one that is not ours.
        timeout = self._patience.timeout
        with (
            self.datastore.mapped_errors(),
            closing(sqlite3.connect(self._path, timeout=timeout)) as connection,
        ):
            return _version(connection.cursor())

    def _migrate(self) -> None:
        with self.datastore.transaction(commit=True) as cursor:
            found = _version(cursor)
            check_version(found, self.where, migrate=True)
            for version, script in migrations("sqlite", found):
                for statement in _statements(script):
                    cursor.execute(statement)
                cursor.execute("INSERT INTO alloc_es_schema (version) VALUES (?)", (version,))


def _is_stale(cursor: SQLiteCursor, group: RunGroup) -> bool:
    newest = (
        "SELECT state FROM decision_events WHERE originator_id = ?"
        " ORDER BY originator_version DESC LIMIT 1"
    )
    for stream, held in group.fences.items():
        cursor.execute(newest, (stream,))
        row = cursor.fetchone()
        if row is None or digest(row[0]) != held:
            return True
    return False


def _identity(path: str) -> tuple[int, int] | None:
    """What tells a file from another one that takes its place, None where there is none."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _version(cursor: SQLiteCursor | sqlite3.Cursor) -> int:
    cursor.execute("SELECT 1 FROM sqlite_master WHERE name = 'alloc_es_schema'")
    if cursor.fetchone() is None:
        return 0
    cursor.execute("SELECT COALESCE(MAX(version), 0) FROM alloc_es_schema")
    return int(cursor.fetchone()[0])


def _statements(script: str) -> Iterator[str]:
    """The statements of a script; `executescript` would commit the open transaction."""
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
