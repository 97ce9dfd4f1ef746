"""What breaks the connections of a drill's participants, by the kind of their store."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from typing import Literal
from urllib.parse import parse_qsl, quote

from alloc_es.drill.plan import FaultKind
from alloc_es.drill.settings import Settings
from alloc_es.errors import InvalidSetting

Commit = Literal["decision", "runs"]
"""What a commit records."""

_POOL = 4


class Network:
    """What can be done to connections; of a store without a server, nothing."""

    def lose_reply(self, of: Commit) -> None:
        """Lose the reply to the next commit of a kind, and cut its connection."""

    def black_hole(self) -> None:
        """Let nothing come back on the connection of the next decision's commit."""

    def delay(self, seconds: float) -> None:
        """Hold the reply to the next decision's commit back."""

    def cut(self) -> int:
        """Cut every connection; how many there were."""
        return 0

    def terminate(self) -> int:
        """Let the server end every connection of the drill; how many it has ended."""
        return 0

    def started_at(self) -> datetime | None:
        """When the server started, by its own clock; None where there is none."""
        return None

    @property
    def lost(self) -> Mapping[FaultKind, int]:
        """How many of the losses that were ordered have met a commit."""
        return {}


@contextmanager
def network_of(settings: Settings, application: str) -> Iterator[tuple[Network, str]]:
    """What breaks the participants' connections, and the URL that they connect by."""
    if not settings.on_postgres:
        yield Network(), settings.url
        return
    # Only here, as the driver is an extra.
    from alloc_es.drill.postgres_network import PostgresNetwork
    from alloc_es.drill.proxy import Proxy

    url = participants_url(settings.url, application)
    if not settings.needs_proxy:
        yield PostgresNetwork(settings.url, application, None), url
        return
    with Proxy(url) as proxy:
        yield PostgresNetwork(settings.url, application, proxy), proxy.url_of(url)


def participants_url(url: str, application: str) -> str:
    """The URL of a server's store for participants, whom the server knows by an application's name.

    Each has a pool of four connections, so that a crowd has to wait for them, unless the URL
    says how many. Raises `InvalidSetting` where the URL names an application.
    """
    given = dict(parse_qsl(url.partition("?")[2], keep_blank_values=True))
    if "application_name" in given:
        problem = "leave application_name out: the drill is known to the server by one of its own"
        raise InvalidSetting("store", problem)
    own = {"application_name": application, "connections": str(_POOL)}
    added = "&".join(f"{name}={quote(own[name])}" for name in own if name not in given)
    return f"{url}{'&' if '?' in url else '?'}{added}"
