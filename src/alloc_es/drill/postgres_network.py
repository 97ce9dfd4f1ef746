"""Faults of the connections to a PostgreSQL server, by a proxy and by the server itself."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import psycopg

from alloc_es.drill.network import Commit, Network
from alloc_es.drill.plan import FaultKind
from alloc_es.drill.proxy import RECORD_RUNS, Proxy
from alloc_es.errors import StoreUnavailable
from alloc_es.store.postgres_url import PostgresUrl

_TERMINATE = (
    "SELECT count(*) FILTER (WHERE pg_terminate_backend(pid)) FROM pg_stat_activity"
    " WHERE application_name = %s AND pid <> pg_backend_pid()"
)
_STARTED_AT = "SELECT pg_postmaster_start_time()"
_CONNECT_SECONDS = 10


class PostgresNetwork(Network):
    """Breaks connections; the drill's own ones are known by their application's name."""

    def __init__(self, url: str, application: str, proxy: Proxy | None) -> None:
        self._url = PostgresUrl.parse(url)
        self._application = application
        self._proxy = proxy
        self._decision = f'INSERT INTO "{self._url.schema}"."decision_events"'

    def lose_reply(self, of: Commit) -> None:
        """Lose the reply to the next commit of a kind, and cut its connection."""
        if self._proxy:
            self._proxy.lose("reply", of=self._decision if of == "decision" else RECORD_RUNS)

    def black_hole(self) -> None:
        """Let nothing come back on the connection of the next decision's commit."""
        if self._proxy:
            self._proxy.lose("silence", of=self._decision)

    def delay(self, seconds: float) -> None:
        """Hold the reply to the next decision's commit back."""
        if self._proxy:
            self._proxy.lose("delay", of=self._decision, seconds=seconds)

    def cut(self) -> int:
        """Cut every connection that goes through the proxy; how many there were."""
        return self._proxy.cut() if self._proxy else 0

    def terminate(self) -> int:
        """Let the server end every connection of the drill; how many it has ended.

        Raises `StoreUnavailable`.
        """
        return int(self._asked(_TERMINATE, self._application))

    def started_at(self) -> datetime:
        """When the server started, by its own clock; raises `StoreUnavailable`."""
        started_at: datetime = self._asked(_STARTED_AT)
        return started_at

    @property
    def lost(self) -> Mapping[FaultKind, int]:
        """How many of the losses that were ordered have met a commit."""
        if self._proxy is None:
            return {}
        lost = self._proxy.lost
        return {
            "lost reply": lost["reply"],
            "black hole": lost["silence"],
            "delay": lost["delay"],
        }

    def _asked(self, question: str, *values: str) -> Any:
        """What the server answers, on a connection of its own that no fault befalls."""
        parameters = {"connect_timeout": _CONNECT_SECONDS, **self._url.parameters}
        try:
            with psycopg.connect(**parameters) as connection:
                row = connection.execute(question, values).fetchone()
        except psycopg.OperationalError as error:
            problem = " ".join(str(error).split())
            raise StoreUnavailable(f"the drill can't reach the server: {problem}") from error
        assert row is not None
        return row[0]
