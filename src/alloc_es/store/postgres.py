"""The store `postgresql://…`: psycopg 3, for many processes on many machines."""

import json
from collections.abc import Sequence
from typing import Any, cast

from eventsourcing.persistence import InfrastructureFactory, StoredEvent
from eventsourcing.postgres import PostgresApplicationRecorder, PostgresFactory
from psycopg import Connection, Cursor
from psycopg.rows import DictRow, tuple_row
from psycopg.sql import SQL, Identifier

from alloc_es.errors import StoreUnavailable
from alloc_es.incarnation import Incarnation
from alloc_es.store.postgres_datastore import Datastore
from alloc_es.store.postgres_desk import PostgresDesk, PostgresWatch
from alloc_es.store.postgres_url import PostgresUrl
from alloc_es.store.recorder import (
    LOGS,
    Reroute,
    RunGroup,
    SqlRecorder,
    Stored,
    StoreFactory,
    notification,
)
from alloc_es.store.schema import check_version, migrations
from alloc_es.store.session import DeafWatch, Watch

_MIGRATION_LOCK = 1634496355
# Routing a group again takes some milliseconds.
_LONGEST_PAUSE_MS = 1_000


class PostgresRecorder(SqlRecorder, PostgresApplicationRecorder):
    """A log in a table whose triggers order, announce and protect what is appended."""

    datastore: Datastore

    def __init__(self, datastore: Datastore, events_table_name: str) -> None:
        super().__init__(datastore, events_table_name=events_table_name)
        # Whoever records as an incarnation reads, in the same statement, from the check of it.
        self._held: tuple[object, ...] = tuple(datastore.incarnation or ())
        check = SQL("{0}(%s, %s)").format(Identifier(datastore.schema, "check_incarnation"))
        guard = SQL(" FROM {0}").format(check) if self._held else SQL("")
        self.channel_name = f"{datastore.schema}.{events_table_name}"
        table = Identifier(datastore.schema, events_table_name)
        columns = SQL("originator_id, originator_version, topic, state")
        select = SQL("SELECT notification_id, {0} FROM {1}").format(columns, table)
        stream = select + SQL(
            " WHERE originator_id = %s AND originator_version > %s"
            " AND originator_version <= %s ORDER BY originator_version"
        )
        self._select_batch = (
            select
            + SQL(
                " WHERE notification_id > %s AND notification_id <= %s"
                " ORDER BY notification_id LIMIT %s"
            )
        ).as_bytes()
        insert = SQL("INSERT INTO {1} ({0}) ").format(columns, table)
        # Rendered once: the driver would render a composed statement at each call.
        one = SQL("SELECT %s, %s, %s, %s") + guard if self._held else SQL("VALUES (%s, %s, %s, %s)")
        self._insert_one = (insert + one + SQL(" RETURNING notification_id")).as_bytes()
        self._insert_many = (
            insert
            + SQL(
                "SELECT rows.* FROM"
                " unnest(%s::text[], %s::bigint[], %s::text[], %s::bytea[]) AS rows{0}"
                " RETURNING notification_id"
            ).format(SQL(", {0}").format(check) if self._held else SQL(""))
        ).as_bytes()
        self._select_ascending = (stream + SQL(" LIMIT %s")).as_bytes()
        self._select_descending = (stream + SQL(" DESC LIMIT %s")).as_bytes()
        self._select_command = (
            select
            + SQL(" WHERE originator_id = %s AND {0}(state) = %s").format(
                Identifier(datastore.schema, "command_id")
            )
        ).as_bytes()
        newest = SQL(
            "SELECT newest.* FROM jsonb_array_elements_text(%s::jsonb) AS asked (stream)"
            " CROSS JOIN LATERAL ("
            "{0} WHERE originator_id = stream ORDER BY originator_version DESC LIMIT 1"
            ") AS newest"
        )
        self._select_newest = newest.format(select).as_bytes()
        archives = Identifier(datastore.schema, "run_archives")
        self._archived_to = (
            SQL("SELECT coalesce(max(last_position), 0) AS last_position FROM {0}")
            .format(archives)
            .as_bytes()
        )
        self._select_archives = (
            SQL("SELECT name, last_position, runs, digest FROM {0} ORDER BY last_position")
            .format(archives)
            .as_bytes()
        )
        self._select_archived = (
            SQL(
                "SELECT originator_id, position FROM {0} WHERE originator_id IN"
                " (SELECT jsonb_array_elements_text(%s::jsonb))"
            )
            .format(Identifier(datastore.schema, "archived_runs"))
            .as_bytes()
        )
        decision = SQL("SELECT notification_id, {0} FROM {1}").format(
            columns, Identifier(datastore.schema, "decision_events")
        )
        self._select_newest_decisions = newest.format(decision).as_bytes()
        # A client that is stopped inside of the fence must not keep the others out for long.
        self._share_fence = (
            SQL(
                "SELECT set_config('idle_in_transaction_session_timeout', '{0}', true),"
                " {1}(string_to_array(%s, E'\n')){2}"
            )
            .format(_LONGEST_PAUSE_MS, Identifier(datastore.schema, "share_fence"), guard)
            .as_bytes()
        )
        self._record_runs = (
            SQL("SELECT {0}(%s, %s, %s, %s) AS verified_at{1}")
            .format(Identifier(datastore.schema, "record_runs"), guard)
            .as_bytes()
        )
        self._select_heads = (
            select
            + SQL(
                " WHERE starts_with(originator_id, %s)"
                " AND (originator_id, originator_version) IN"
                " (SELECT originator_id, max(originator_version) FROM {0} GROUP BY 1)"
                ' ORDER BY originator_id COLLATE "C"'
            ).format(table)
        ).as_bytes()

    def insert_events(self, stored_events: Sequence[StoredEvent], **_: Any) -> Sequence[int] | None:
        """Append in one statement, which is one transaction and one round trip.

        The library locks the table, notifies and inserts in statements of their own; here
        the table's triggers do the first two, for every writer.
        """
        rows = [(e.originator_id, e.originator_version, e.topic, e.state) for e in stored_events]
        statement = self._insert_one if len(rows) == 1 else self._insert_many
        values = rows[0] if len(rows) == 1 else [list(column) for column in zip(*rows, strict=True)]
        with self.datastore.get_connection() as connection:
            inserted = connection.execute(statement, (*values, *self._held)).fetchall()
        return [row["notification_id"] for row in inserted]

    def select_batch(self, after: int, up_to: int, limit: int) -> Sequence[Stored]:
        """Events behind a position, in a form that costs little to read."""
        with self.datastore.get_connection() as connection:
            cursor = connection.cursor(binary=True, row_factory=tuple_row)
            cursor.execute(self._select_batch, (after, up_to, limit), prepare=True)
            return cast(Sequence[Stored], cursor.fetchall())

    def insert_runs(self, group: RunGroup, reroute: Reroute) -> int:
        """Record a group behind the fence in one round trip, or in four if it is stale."""
        with self.datastore.get_connection() as connection:
            position = self._record(connection, group)
            if position is None:
                with connection.transaction():
                    fenced = "\n".join(group.fences)
                    connection.execute(self._share_fence, (fenced, *self._held))
                    asked = (json.dumps(list(group.fences)),)
                    rows = connection.execute(self._select_newest_decisions, asked).fetchall()
                    group = reroute([notification(row) for row in rows])
                    # Where none is left the store may hold no decision at all, and no position.
                    position = self._record(connection, group) if group.streams else 0
        assert position is not None
        return position

    def _record(self, connection: Connection[DictRow], group: RunGroup) -> int | None:
        """The position that the group was verified at; None if it is stale."""
        parameters = (
            "\n".join(group.streams),
            "\n".join(group.states),
            "\n".join(group.fences),
            "\n".join(group.fences.values()),
            *self._held,
        )
        row = connection.execute(self._record_runs, parameters, prepare=True).fetchone()
        assert row is not None
        position: int | None = row["verified_at"]
        return position

    def _rows(self, statement: bytes, *parameters: object) -> Sequence[DictRow]:
        with self.datastore.get_connection() as connection:
            return connection.execute(statement, parameters, prepare=True).fetchall()


class Factory(PostgresFactory, StoreFactory):
    """Makes the two logs of a store in one PostgreSQL schema, and its tables."""

    def __init__(self, url: PostgresUrl, timeout: float, incarnation: Incarnation | None) -> None:
        # Not the library's own __init__, which knows five of libpq's parameters.
        InfrastructureFactory.__init__(self, env={})
        self.datastore: Datastore = Datastore(url, timeout, incarnation)
        self.where = self.datastore.where

    def log_recorder(self, table: str) -> PostgresRecorder:
        """A recorder of one of the two tables."""
        return PostgresRecorder(self.datastore, table)

    def desk(self) -> PostgresDesk:
        """Sessions on the tables beside the logs."""
        return PostgresDesk(self.datastore)

    def watch(self) -> Watch:
        """Word of what is appended, by a connection that listens from now on.

        None is ever heard through a pooler of transactions.
        """
        if self.datastore.pooled:
            return DeafWatch()
        return PostgresWatch(self.datastore, LOGS.values())

    def prepare(self, *, migrate: bool) -> None:
        """Check the schema version, and bring an empty or older schema up to date.

        One process migrates and the others wait for it. Raises `StoreNotInitialised`
        where `migrate` is False and that would be needed, `SchemaTooNew` for the tables
        of a newer release.
        """
        with self.datastore.direct_connection() as connection:
            if self.datastore.pooled:
                self.datastore.check_role(connection)
            cursor = connection.cursor()
            if check_version(self._version(cursor), self.where, migrate=migrate):
                with connection.transaction():
                    self._migrate(cursor)

    def _version(self, cursor: Cursor[DictRow]) -> int:
        schema = self.datastore.schema
        # Not to_regclass: it may answer from what the session knew before it waited for the
        # migration's lock, and then the tables that another process made are not seen.
        cursor.execute(
            "SELECT 1 FROM pg_catalog.pg_tables"
            " WHERE schemaname = %s AND tablename = 'alloc_es_schema'",
            (schema,),
        )
        if cursor.fetchone() is None:
            return 0
        table = Identifier(schema, "alloc_es_schema")
        row = cursor.execute(
            SQL("SELECT coalesce(max(version), 0) AS max FROM {0}").format(table)
        ).fetchone()
        return int(row["max"]) if row else 0

    def _migrate(self, cursor: Cursor[DictRow]) -> None:
        self._refuse_other_encodings(cursor)
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", (_MIGRATION_LOCK,))
        found = self._version(cursor)
        if not check_version(found, self.where, migrate=True):
            return
        schema = Identifier(self.datastore.schema)
        # CREATE SCHEMA IF NOT EXISTS needs the right to create one even where it exists.
        name = (self.datastore.schema,)
        exists = cursor.execute("SELECT FROM pg_namespace WHERE nspname = %s", name)
        if exists.fetchone() is None:
            cursor.execute(SQL("CREATE SCHEMA {0}").format(schema))
        cursor.execute(SQL("SET LOCAL search_path TO {0}").format(schema))
        for version, script in migrations("postgres", found):
            cursor.execute(script.encode())
            cursor.execute("INSERT INTO alloc_es_schema (version) VALUES (%s)", (version,))

    def _refuse_other_encodings(self, cursor: Cursor[DictRow]) -> None:
        row = cursor.execute("SHOW server_encoding").fetchone()
        if row and row["server_encoding"] != "UTF8":
            problem = f"{self.where} is encoded in {row['server_encoding']}; create one in UTF8"
            raise StoreUnavailable(problem, retryable=False)
