"""A raw connection that looks at a follower's backends and ends them."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg

from tests.following.tracing import PATIENCE


class Backends:
    """The backends of the clients of one store, by the name that `as_victim` gives them."""

    def __init__(self, connection: "psycopg.Connection[Any]", schema: str) -> None:
        self._connection = connection
        self._schema = schema

    def all(self) -> list[int]:
        """Every one of them."""
        return self._pids("true")

    def listening(self) -> list[int]:
        """Those that listen, which is the last that they were asked for."""
        return self._pids("query LIKE 'LISTEN %%'")

    def working(self) -> list[int]:
        """Those that are in a statement or a transaction."""
        return self._pids("state <> 'idle' AND query NOT LIKE 'LISTEN %%'")

    def in_transaction(self) -> list[int]:
        """Those that have a transaction open."""
        return self._pids("xact_start IS NOT NULL")

    def terminate(self, pids: list[int]) -> int:
        """End some; how many there were."""
        ended = self._connection.execute(
            "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE pid = ANY(%s)",
            (pids,),
        )
        return sum(row[0] for row in ended.fetchall())

    def _pids(self, which: str) -> list[int]:
        statement = f"SELECT pid FROM pg_stat_activity WHERE application_name = %s AND {which}"
        name = (f"victim-{self._schema}",)
        return [row[0] for row in self._connection.execute(statement.encode(), name).fetchall()]


@contextmanager
def backends(store_url: str) -> Iterator[Backends]:
    """Sees the backends of a store's clients that were given `as_victim` of its URL."""
    server, _, schema = store_url.rpartition("schema=")
    with psycopg.connect(server[:-1], autocommit=True) as connection:
        timeout = f"SET statement_timeout = '{PATIENCE:g}s'"
        connection.execute(timeout.encode())
        yield Backends(connection, schema)
