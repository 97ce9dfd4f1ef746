"""Connections to a PostgreSQL server, and what its errors mean."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from eventsourcing.persistence import IntegrityError, PersistenceError
from eventsourcing.postgres import PostgresDatastore
from psycopg import Connection
from psycopg.errors import OperationalError
from psycopg.rows import DictRow, dict_row
from psycopg.sql import SQL, Identifier
from psycopg_pool import PoolTimeout

from alloc_es.errors import AllocationError, AnswerLost, StoreUnavailable
from alloc_es.incarnation import Incarnation
from alloc_es.scheduler_errors import IncarnationSuperseded
from alloc_es.store.bounded import CONNECT_TIMEOUT, BoundedConnection
from alloc_es.store.postgres_url import PostgresUrl

_POOL_SIZE = 1
# Seconds that one try waits for a connection: less than the caller of a run waits for a group
# that is under way, so that it is told what certainly was not recorded.
_POOL_WAIT = 0.5
# What a report of the server's own timeout may need to arrive.
_GRACE = 1.0

# An error that the server reports has undone the statement. Without a report, or when it
# only says that the connection ends, the statement may have been carried out. The codes:
# https://www.postgresql.org/docs/current/errcodes-appendix.html
_CONNECTION_ENDED = ("08", "57P")
_HOPELESS = ("0A", "22", "23", "25006", "28", "2B", "3D", "3F", "42", "53100", "54")
_NO_RIGHT = "42501"
# The server does not say which of them is missing.
_RIGHTS_OF_PARTICIPANTS = (
    "GRANT SELECT ON {schema}.participants TO the role, "
    "or GRANT SELECT, INSERT, UPDATE where it begins incarnations"
)
# What check_incarnation raises, with the newest number as its detail.
_SUPERSEDED = "ZI001"

_ROLE_SETTINGS = (
    "SELECT current_user AS role, current_setting('search_path') AS search_path,"
    " current_setting('statement_timeout') AS statement_timeout,"
    " current_setting('idle_in_transaction_session_timeout') AS idle,"
    " current_setting('default_transaction_isolation') AS isolation,"
    " current_setting('synchronous_commit') AS synchronous_commit"
)


class Datastore(PostgresDatastore):
    """A pool of connections; the one place where PostgreSQL's errors are mapped.

    What is raised in the library's error classes is retried there ten times, so what is
    not a conflict leaves here in ours.
    """

    def __init__(self, url: PostgresUrl, timeout: float, incarnation: Incarnation | None) -> None:
        # First: the library closes even what was never made whole.
        self._process = os.getpid()
        self._closed = False
        self.incarnation = incarnation
        super().__init__(
            dbname="",
            host="",
            port="",
            user="",
            password="",
            connect_timeout=min(_POOL_WAIT, timeout),
            pool_size=_POOL_SIZE,
            max_overflow=url.connections - _POOL_SIZE,
            schema=url.schema,
            originator_id_type="text",
        )
        self.parameters = {
            "connect_timeout": round(CONNECT_TIMEOUT),
            "tcp_user_timeout": round(timeout * 1000),
            # For the statements that may take long: a swap of tables, a cursor's next part.
            "keepalives_idle": 10,
            "keepalives_interval": 5,
            "keepalives_count": 3,
            "application_name": "alloc-es",
            **url.parameters,
            "client_encoding": "UTF8",
        }
        self.pooled = url.pooled
        # A pooler of transactions may run each of them in another session of the server.
        self._options: dict[str, Any] = {"row_factory": dict_row}
        if url.pooled:
            self._options["prepare_threshold"] = None
        self.pool.kwargs = {**self.parameters, **self._options}
        self.pool.connection_class = BoundedConnection
        self._timeout = timeout
        # By default the pool doubles its wait after each failed attempt to connect, for up to
        # five minutes, and nobody who asks for a connection makes it try sooner.
        self.pool.reconnect_timeout = min(CONNECT_TIMEOUT, timeout)
        self.where = _describe(self.parameters, url.schema)
        # Read committed, because the lock that orders commits is waited for inside the
        # statement that inserts: a snapshot from before that wait would be out of date.
        # And what was acknowledged must not be lost because a role does not wait for the disk.
        self._settings = SQL(
            "SET statement_timeout = {0}; SET idle_in_transaction_session_timeout = {0};"
            " SET default_transaction_isolation = 'read committed'; SET TimeZone = 'UTC';"
            " SET standard_conforming_strings = on; SET search_path = {1};"
            " SELECT set_config('synchronous_commit', 'on', false)"
            " WHERE current_setting('synchronous_commit') = 'off'"
        ).format(round(timeout * 1000), Identifier(url.schema))

    def close(self) -> None:
        """Close the pool, unless a fork has handed it to this process with its sockets."""
        if os.getpid() == self._process:
            self._closed = True
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
            raise self._superseded(error) or self.mapped(error, sent=sent) from error

    @contextmanager
    def direct_connection(self) -> Iterator[Connection[DictRow]]:
        """A connection beside the pool, which says why if it can't be made."""
        try:
            with BoundedConnection.connect(**self.parameters, **self._options) as connection:
                self._configure(connection)
                yield connection
        except psycopg.Error as error:
            raise self.mapped(error, sent=False) from error

    def mapped(self, error: Exception, *, sent: bool) -> StoreUnavailable:
        """Our error for the driver's: what is not known to be undone may have been done."""
        cause = error if isinstance(error, psycopg.Error) else error.__cause__
        state = getattr(cause, "sqlstate", None) or ""
        problem = f"{self.where}: {_in_words(cause or error)}"
        if isinstance(cause, PoolTimeout):
            problem = f"{self.where} gave no connection: it is down, or has none left"
        if sent and (not state or state.startswith(_CONNECTION_ENDED)):
            return AnswerLost(problem)
        if self._closed and not sent:
            return StoreUnavailable(f"{self.where} was closed", retryable=False)
        if state == _NO_RIGHT and "participants" in str(cause):
            problem += f"; run: {_RIGHTS_OF_PARTICIPANTS.format(schema=self.schema)}"
        permanent = state.startswith(_HOPELESS) or _is_refused_login(cause)
        return StoreUnavailable(problem, retryable=not permanent)

    def _superseded(self, error: Exception) -> AllocationError | None:
        """Our error, if the driver's says that another incarnation has begun."""
        cause = error.__cause__
        held = self.incarnation
        if held is None or not isinstance(cause, psycopg.Error) or cause.sqlstate != _SUPERSEDED:
            return None
        newest = cause.diag.message_detail
        return IncarnationSuperseded(held.name, held.number, int(newest) if newest else None)

    def _configure(self, connection: Connection[Any]) -> None:
        assert isinstance(connection, BoundedConnection)
        connection.longest_wait = self._timeout + _GRACE
        connection.autocommit = True
        if not self.pooled:
            connection.execute(self._settings)

    def check_role(self, connection: Connection[DictRow]) -> None:
        """Refuse a role without the settings that no session behind a pooler can be given."""
        found = connection.execute(_ROLE_SETTINGS).fetchone()
        assert found is not None
        path = found["search_path"].partition(",")[0].strip().strip('"')
        wanted = {
            f"search_path = {self.schema}": path == self.schema,
            f"statement_timeout = '{self._timeout:g}s'": found["statement_timeout"] != "0",
            f"idle_in_transaction_session_timeout = '{self._timeout:g}s'": found["idle"] != "0",
            "default_transaction_isolation = 'read committed'": found["isolation"]
            == "read committed",
            "synchronous_commit = on": found["synchronous_commit"] != "off",
        }
        missing = [f"SET {setting}" for setting, held in wanted.items() if not held]
        if missing:
            orders = "; ".join(f"ALTER ROLE {found['role']} {setting}" for setting in missing)
            problem = f"{self.where}: with pooler=transaction the role must have the settings"
            raise StoreUnavailable(f"{problem} of a session; run: {orders}", retryable=False)


def _describe(parameters: dict[str, Any], schema: str) -> str:
    host = parameters.get("host") or "the default host"
    port = f":{parameters['port']}" if parameters.get("port") else ""
    database = parameters.get("dbname") or "the default database"
    return f"PostgreSQL {database} on {host}{port}, schema {schema}"


def _in_words(error: BaseException) -> str:
    """What the server or libpq said, without the statement that it said it of."""
    said = isinstance(error, psycopg.Error) and error.diag.message_primary
    return said or " ".join(str(error).split())


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
    final = ("authentication failed", "does not exist", "no pg_hba.conf entry", "invalid ")
    return any(phrase in str(cause) for phrase in final)
