"""A raw connection that looks at a client's backends, ends them, and holds locks."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg


def as_victim(store_url: str) -> str:
    """The URL under which an `Admin` of the same store knows a client by its name."""
    return f"{store_url}&application_name={_name(store_url)}"


class Admin:
    """A raw connection that looks at the victim's backends, ends them, and holds the lock."""

    def __init__(self, url: str, store_url: str) -> None:
        self._connection = psycopg.connect(url, autocommit=True)
        self._victim = _name(store_url)
        self._schema = store_url.rpartition("schema=")[2]

    def close(self) -> None:
        self._connection.close()

    def terminate(self) -> int:
        """End all of the victim's backends and return how many there were."""
        return len(
            self._all(
                "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity"
                " WHERE application_name = %s",
                self._victim,
            )
        )

    @contextmanager
    def read_only(self) -> Iterator[None]:
        """Let every session that begins meanwhile write nothing, as on a standby or a full disk."""
        role = "ALTER ROLE CURRENT_USER"
        self._connection.execute(f"{role} SET default_transaction_read_only = on")
        try:
            self.terminate()
            yield
        finally:
            self._connection.execute(f"{role} RESET default_transaction_read_only")
            self.terminate()

    @contextmanager
    def holding(self, table: str) -> Iterator[None]:
        """Hold the lock that orders the commits of a log."""
        with self._connection.transaction():
            self._all(
                "SELECT pg_advisory_xact_lock(1634496355, %s::regclass::oid::integer)",
                f"{self._schema}.{table}",
            )
            yield

    def await_waiting(self, count: int = 1) -> None:
        """Return once so many of the victim's statements wait for a lock."""
        self._until(lambda: len(self.waiting()) == count)

    def await_quiet(self) -> None:
        """Return once none of the victim's statements is at work."""
        self._until(lambda: not self._all(f"{_ACTIVITY} AND state <> 'idle'", self._victim))

    def waiting(self) -> list[Any]:
        """The backends of the victim that wait for a lock."""
        return self._all(f"{_ACTIVITY} AND wait_event_type = 'Lock'", self._victim)

    def _until(self, holds: Callable[[], bool]) -> None:
        # The test's own time limit ends this if it never holds.
        while not holds():
            self._all("SELECT pg_stat_clear_snapshot()")

    def _all(self, statement: str, *parameters: str) -> list[Any]:
        return self._connection.execute(statement.encode(), parameters).fetchall()


def _name(store_url: str) -> str:
    # One for each store: several runs of the tests may share a server.
    return f"victim-{store_url.rpartition('schema=')[2]}"


_ACTIVITY = "SELECT pid FROM pg_stat_activity WHERE application_name = %s"
