"""The store `sqlite:///path`: one file, many processes."""

import json
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from itertools import repeat
from pathlib import Path
from typing import Any, cast

from eventsourcing.persistence import InfrastructureFactory, Notification, StoredEvent
from eventsourcing.sqlite import SQLiteApplicationRecorder, SQLiteCursor, SQLiteFactory

from alloc_es.clock import Patience
from alloc_es.codec import POSITION, RUN_SPAWNED, digest
from alloc_es.errors import StoreNotInitialised, StoreUnavailable
from alloc_es.incarnation import Incarnation
from alloc_es.store.participants import NEWEST, refuse_superseded
from alloc_es.store.recorder import (
    UNLIMITED,
    Reroute,
    RunGroup,
    SqlRecorder,
    Stored,
    StoreFactory,
    notification,
)
from alloc_es.store.schema import SCHEMA_VERSION, check_version, migrations, statements
from alloc_es.store.sqlite_datastore import Datastore
from alloc_es.store.sqlite_desk import LookingWatch, SQLiteDesk


class SQLiteRecorder(SqlRecorder, SQLiteApplicationRecorder):
    """A log in a table, with positions in a column of their own."""

    def __init__(
        self, datastore: Datastore, events_table_name: str, incarnation: Incarnation | None
    ) -> None:
        super().__init__(datastore, events_table_name)
        self._incarnation = incarnation
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
        self._select_batch = (
            f"{select} WHERE notification_id > ? AND notification_id <= ?"
            " ORDER BY notification_id LIMIT ?"
        )
        self._archived_to = (
            "SELECT COALESCE(MAX(last_position), 0) AS last_position FROM run_archives"
        )
        self._select_archives = (
            "SELECT name, last_position, runs, digest FROM run_archives ORDER BY last_position"
        )
        self._select_archived = (
            "SELECT originator_id, position FROM archived_runs"
            " WHERE originator_id IN (SELECT value FROM json_each(?))"
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

    def select_batch(self, after: int, up_to: int, limit: int) -> Sequence[Stored]:
        """Events behind a position."""
        return cast(Sequence[Stored], self._rows(self._select_batch, after, up_to, limit))

    def _insert_events(
        self, c: SQLiteCursor, stored_events: Sequence[StoredEvent], **options: Any
    ) -> Sequence[int] | None:
        self._check_incarnation(c)
        return super()._insert_events(c, stored_events, **options)

    def insert_runs(self, group: RunGroup, reroute: Reroute) -> int:
        """Record a group in one transaction, during which nobody else decides."""
        with self.datastore.transaction(commit=True) as cursor:
            self._check_incarnation(cursor)
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

    def _check_incarnation(self, cursor: SQLiteCursor) -> None:
        if self._incarnation is not None:
            cursor.execute(NEWEST, (self._incarnation.name,))
            row = cursor.fetchone()
            refuse_superseded(self._incarnation, row and row[0])

    def _rows(self, statement: str, *parameters: object) -> Sequence[sqlite3.Row]:
        with self.datastore.transaction(commit=False) as cursor:
            cursor.execute(statement, parameters)
            rows: Sequence[sqlite3.Row] = cursor.fetchall()
        return rows


class Factory(SQLiteFactory, StoreFactory):
    """Makes the two logs of a store in one SQLite file, and its tables."""

    def __init__(self, path: Path, patience: Patience, incarnation: Incarnation | None) -> None:
        InfrastructureFactory.__init__(self, env={})
        self.datastore: Datastore = Datastore(path, patience.timeout)
        self.where = self.datastore.where
        self._path = path
        self._patience = patience
        self._incarnation = incarnation

    def log_recorder(self, table: str) -> SQLiteRecorder:
        """A recorder of one of the two tables."""
        return SQLiteRecorder(self.datastore, table, self._incarnation)

    def desk(self) -> SQLiteDesk:
        """Sessions on the tables beside the logs."""
        return SQLiteDesk(self._begin)

    def watch(self) -> LookingWatch:
        """Word of what is written to the file, by whomever."""
        with self.datastore.mapped_errors(), ExitStack() as at_failure:
            # Where the file is gone, none is made in its place.
            uri = f"{self._path.as_uri()}?mode=rw"
            connection = sqlite3.connect(uri, uri=True, check_same_thread=False)
            at_failure.callback(connection.close)
            watch = LookingWatch(partial(self._data_version, connection), connection.close)
            at_failure.pop_all()
        return watch

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

    @contextmanager
    def _begin(self, writing: bool) -> Iterator[sqlite3.Cursor]:
        with self.datastore.transaction(commit=writing) as cursor:
            yield cursor.sqlite_cursor

    def _data_version(self, connection: sqlite3.Connection) -> object:
        with self.datastore.mapped_errors():
            return connection.execute("PRAGMA data_version").fetchone()

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
                for statement in statements(script):
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


def _version(cursor: SQLiteCursor | sqlite3.Cursor) -> int:
    cursor.execute("SELECT 1 FROM sqlite_master WHERE name = 'alloc_es_schema'")
    if cursor.fetchone() is None:
        return 0
    cursor.execute("SELECT COALESCE(MAX(version), 0) FROM alloc_es_schema")
    return int(cursor.fetchone()[0])
