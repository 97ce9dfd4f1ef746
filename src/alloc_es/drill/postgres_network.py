"""Faults of the connections to a PostgreSQL server, by a proxy and by the server itself."""

import psycopg

from alloc_es.drill.faults import Network
from alloc_es.drill.proxy import Proxy
from alloc_es.store.postgres_url import PostgresUrl

_DECISION = "INSERT INTO"
_TERMINATE = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
    " WHERE application_name = %s AND pid <> pg_backend_pid()"
)


class PostgresNetwork(Network):
    """Breaks connections; the drill's own ones are known by their application's name."""

    def __init__(self, url: str, application: str, proxy: Proxy | None) -> None:
        self._url = url
        self._application = application
        self._proxy = proxy

    def lose_reply(self) -> None:
        """Lose the reply to the next decision's commit, and cut its connection."""
        if self._proxy:
            self._proxy.lose("reply", of=_DECISION)

    def black_hole(self) -> None:
        """Let nothing come back on the connection of the next decision."""
        if self._proxy:
            self._proxy.lose("silence", of=_DECISION)

    def delay(self, seconds: float) -> None:
        """Hold the reply to the next decision back."""
        if self._proxy:
            self._proxy.lose("delay", of=_DECISION, seconds=seconds)

    def cut(self) -> None:
        """Cut every connection that goes through the proxy."""
        if self._proxy:
            self._proxy.cut()

    def terminate(self) -> None:
        """Let the server end every connection of the drill."""
        parameters = PostgresUrl.parse(self._url).parameters
        with psycopg.connect(**parameters) as connection:
            connection.execute(_TERMINATE, (self._application,))
