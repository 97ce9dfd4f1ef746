"""The store `postgresql://…`: psycopg 3, for many processes on many machines."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.resources import files
from typing import Any

import psycopg
from eventsourcing.persistence import (
    InfrastructureFactory,
    IntegrityError,
    PersistenceError,
    StoredEvent,
)
from eventsourcing.postgres import (
    PostgresApplicationRecorder,
    PostgresDatastore,
    PostgresFactory,
)
from psycopg import Connection, Cursor
from psycopg.errors import OperationalError
from psycopg.rows import DictRow, dict_row
from psycopg.sql import SQL, Identifier
from psycopg_pool import PoolTimeout

from alloc_es.errors import AnswerLost, StoreUnavailable
from alloc_es.store.bounded import CONNECT_TIMEOUT, BoundedConnection
from alloc_es.store.log import SqlRecorder, StoreFactory
from alloc_es.store.schema import SCHEMA_VERSION, check_version

_POOL_SIZE = 1
_POOL_GROWTH = 9
_MIGRATION_LOCK = 1634496355
# What a report of the server's own timeout may need to arrive.
_GRACE = 1.0

# An error that the server reports has undone the statement. Without a report, or when it
# only says that the connection ends, the statement may have been carried out. The codes:
# https://www.postgresql.org/docs/current/errcodes-appendix.html
_CONNECTION_ENDED = ("08", "57P")
_HOPELESS = ("0A", "22", "23", "25", "28", "3D", "3F", "42", "53100", "54")


class Datastore(PostgresDatastore):
    """A pool of connections; the one place where PostgreSQL's errors are mapped.

    What is raised in the library's error classes is retried there ten times, so what is
    not a conflict leaves here in ours.
    """

    def __init__(self, parameters: dict[str, Any], schema: str, timeout: float) -> None:
        # First: the library closes even what was never made whole.
        self._process = os.getpid()
        super().__init__(
            dbname="",
            host="",
            port="",
            user="",
            password="",
            connect_timeout=min(CONNECT_TIMEOUT, timeout),
            pool_size=_POOL_SIZE,
            max_overflow=_POOL_GROWTH,
            schema=schema,
            originator_id_type="text",
        )
        self.parameters = {
            "connect_timeout": round(CONNECT_TIMEOUT),
            "tcp_user_timeout": round(timeout * 1000),
            "application_name": "alloc-es",
            **parameters,
            "client_encoding": "UTF8",
        }
        self.pool.kwargs = {**self.parameters, "row_factory": dict_row}
        self.pool.connection_class = BoundedConnection
        self._timeout = timeout
        # By default the pool doubles its wait after each failed attempt to connect, for up to
        # five minutes, and nobody who asks for a connection makes it try sooner.
        self.pool.reconnect_timeout = min(CONNECT_TIMEOUT, timeout)
        self.where = _describe(self.parameters, schema)
        # Read committed, because the lock that orders commits is waited for inside the
        # statement that inserts: a snapshot from before that wait would be out of date.
        # And what was acknowledged must not be lost because a role does not wait for the disk.
        self._settings = SQL(
            "SET statement_timeout = {0}; SET idle_in_transaction_session_timeout = {0};"
            " SET default_transaction_isolation = 'read committed'; SET TimeZone = 'UTC';"
            " SET standard_conforming_strings = on;"
            " SELECT set_config('synchronous_commit', 'on', false)"
            " WHERE current_setting('synchronous_commit') = 'off'"
        ).format(round(timeout * 1000))

    def close(self) -> None:
        """Close the pool, unless a fork has handed it to this process with its sockets."""
        if os.getpid() == self._process:
            super().close()

    def after_connect_func(self) -> Callable[[Connection[Any]], None]:
        """What the pool does with a new connection."""
        return self._configure

    def register_type_adapters(self) -> None:
        """Nothing: the library's composite type is not used."""

    @contextmanager
    def get_connection(self) -> Iterator[Connection[DictRow]]:
        """A connection in autocommit mode, with errors mapped."""
        sent = False
        try:
            with super().get_connection() as connection:
                sent = True
                yield connection
        except IntegrityError as error:
            if _is_conflict(error.__cause__):
                raise
            raise self.mapped(error, sent=sent) from error
        except PersistenceError as error:
            raise self.mapped(error, sent=sent) from error

    @contextmanager
    def direct_connection(self) -> Iterator[Connection[DictRow]]:
        """A connection beside the pool, which says why if it can't be made."""
        try:
            with BoundedConnection.connect(**self.parameters, row_factory=dict_row) as connection:
                self._configure(connection)
                yield connection
        except psycopg.Error as error:
            raise self.mapped(error, sent=False) from error

    def mapped(self, error: Exception, *, sent: bool) -> StoreUnavailable:
        """Our error for the driver's: what is not known to be undone may have been done."""
        cause = error if isinstance(error, psycopg.Error) else error.__cause__
        state = getattr(cause, "sqlstate", None) or ""
        problem = f"{self.where}: {' '.join(str(error).split())}"
        if isinstance(cause, PoolTimeout):
            problem = f"{self.where} gave no connection: it is down, or has none left"
        if sent and (not state or state.startswith(_CONNECTION_ENDED)):
            return AnswerLost(problem)
        permanent = state.startswith(_HOPELESS) or _is_refused_login(cause)
        return StoreUnavailable(problem, retryable=not permanent)

    def _configure(self, connection: Connection[Any]) -> None:
        assert isinstance(connection, BoundedConnection)
        connection.longest_wait = self._timeout + _GRACE
        connection.autocommit = True
        connection.execute(self._settings)


class PostgresRecorder(SqlRecorder, PostgresApplicationRecorder):
    """A log in a table whose triggers order, announce and protect what is appended."""

    datastore: Datastore

    def __init__(self, datastore: Datastore, events_table_name: str) -> None:
        super().__init__(datastore, events_table_name=events_table_name)
        self.channel_name = f"{datastore.schema}.{events_table_name}"
        table = Identifier(datastore.schema, events_table_name)
        columns = SQL("originator_id, originator_version, topic, state")
        select = SQL("SELECT notification_id, {0} FROM {1}").format(columns, table)
        stream = select + SQL(
            " WHERE originator_id = %s AND originator_version > %s"
            " AND originator_version <= %s ORDER BY originator_version"
        )
        insert = SQL("INSERT INTO {1} ({0}) ").format(columns, table)
        # Rendered once: the driver would render a composed statement at each call.
        self._insert_one = (
            insert + SQL("VALUES (%s, %s, %s, %s) RETURNING notification_id")
        ).as_bytes()
        self._insert_many = (
            insert
            + SQL(
                "SELECT * FROM unnest(%s::text[], %s::bigint[], %s::text[], %s::bytea[])"
                " RETURNING notification_id"
            )
        ).as_bytes()
        self._select_ascending = (stream + SQL(" LIMIT %s")).as_bytes()
        self._select_descending = (stream + SQL(" DESC LIMIT %s")).as_bytes()
        self._select_command = (
            select
            + SQL(" WHERE originator_id = %s AND {0}(state) = %s").format(
                Identifier(datastore.schema, "command_id")
            )
        ).as_bytes()
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
            inserted = connection.execute(statement, values).fetchall()
        return [row["notification_id"] for row in inserted]

    def _rows(self, statement: bytes, *parameters: object) -> Sequence[DictRow]:
        with self.datastore.get_connection() as connection:
            return connection.execute(statement, parameters, prepare=True).fetchall()


class Factory(PostgresFactory, StoreFactory):
    """Makes the two logs of a store in one PostgreSQL schema, and its tables."""

    def __init__(self, parameters: dict[str, Any], schema: str, timeout: float) -> None:
        # Not the library's own __init__, which knows five of libpq's parameters.
        InfrastructureFactory.__init__(self, env={})
        self.datastore: Datastore = Datastore(parameters, schema, timeout)
        self.where = self.datastore.where

    def log_recorder(self, table: str) -> PostgresRecorder:
        """A recorder of one of the two tables."""
        return PostgresRecorder(self.datastore, table)

    def prepare(self, *, migrate: bool) -> None:
        """Check the schema version, and bring an empty or older schema up to date.

        One process migrates and the others wait for it. Raises `StoreNotInitialised`
        where `migrate` is False and that would be needed, `SchemaTooNew` for the tables
        of a newer release.
        """
        with self.datastore.direct_connection() as connection:
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
        if not check_version(self._version(cursor), self.where, migrate=True):
            return
        schema = Identifier(self.datastore.schema)
        # CREATE SCHEMA IF NOT EXISTS needs the right to create one even where it exists.
        name = (self.datastore.schema,)
        found = cursor.execute("SELECT FROM pg_namespace WHERE nspname = %s", name)
        if found.fetchone() is None:
            cursor.execute(SQL("CREATE SCHEMA {0}").format(schema))
        cursor.execute(SQL("SET LOCAL search_path TO {0}").format(schema))
        script = files(__package__).joinpath("postgres.sql").read_bytes()
        cursor.execute(script)
        cursor.execute("INSERT INTO alloc_es_schema (version) VALUES (%s)", (SCHEMA_VERSION,))

    def _refuse_other_encodings(self, cursor: Cursor[DictRow]) -> None:
        row = cursor.execute("SHOW server_encoding").fetchone()
        if row and row["server_encoding"] != "UTF8":
            problem = f"{self.where} is encoded in {row['server_encoding']}; create one in UTF8"
            raise StoreUnavailable(problem, retryable=False)


def _describe(parameters: dict[str, Any], schema: str) -> str:
    host = parameters.get("host") or "the default host"
    port = f":{parameters['port']}" if parameters.get("port") else ""
    database = parameters.get("dbname") or "the default database"
    return f"PostgreSQL {database} on {host}{port}, schema {schema}"


def _is_conflict(cause: BaseException | None) -> bool:
    """Whether a place or a command id was taken, and not a position, which is a fault."""
    if not isinstance(cause, psycopg.errors.UniqueViolation):
        return False
    constraint = cause.diag.constraint_name or ""
    return constraint.endswith(("_place", "_command_id"))


def _is_refused_login(cause: BaseException | None) -> bool:
    """Whether a connection failed for good; libpq gives such failures no SQLSTATE."""
    if not isinstance(cause, OperationalError) or cause.sqlstate:
        return False
    final = ("authentication failed", "does not exist", "no pg_hba.conf entry")
    return any(phrase in str(cause) for phrase in final)
