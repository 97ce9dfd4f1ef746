"""Connections to a SQLite file, and what its errors mean."""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from time import monotonic

from eventsourcing.persistence import (
    ConnectionPoolClosedError,
    IntegrityError,
    PersistenceError,
)
from eventsourcing.sqlite import (
    SQLiteConnection,
    SQLiteConnectionPool,
    SQLiteCursor,
    SQLiteDatastore,
    SQLiteTransaction,
)

from alloc_es.errors import AnswerLost, StoreUnavailable

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

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction was begun and not ended."""
        return self._sqlite_conn.in_transaction

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
            assert isinstance(connection, _Connection)
            try:
                with connection.transaction(commit=commit) as cursor:
                    yield cursor
            finally:
                # A Ctrl-C may come between a BEGIN and whoever would have undone it.
                if connection.in_transaction:
                    connection.rollback()
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


def _identity(path: str) -> tuple[int, int] | None:
    """What tells a file from another one that takes its place, None where there is none."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino
