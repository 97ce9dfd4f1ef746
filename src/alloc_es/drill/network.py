"""What breaks the connections of a drill's participants, by the kind of their store."""

from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import quote

from alloc_es.drill.faults import Network
from alloc_es.drill.settings import Settings
from alloc_es.errors import InvalidSetting


@contextmanager
def network_of(settings: Settings, application: str) -> Iterator[tuple[Network, str]]:
    """What breaks the participants' connections, and the URL that they connect by."""
    if not settings.on_postgres:
        yield Network(), settings.url
        return
    if "application_name=" in settings.url:
        problem = "leave application_name out: the drill is known to the server by one of its own"
        raise InvalidSetting("store", problem)
    # Only here, as the driver is an extra.
    from alloc_es.drill.postgres_network import PostgresNetwork
    from alloc_es.drill.proxy import Proxy

    joint = "&" if "?" in settings.url else "?"
    url = f"{settings.url}{joint}application_name={quote(application)}"
    if not settings.needs_proxy:
        yield PostgresNetwork(settings.url, application, None), url
        return
    with Proxy(url) as proxy:
        yield PostgresNetwork(settings.url, application, proxy), proxy.url_of(url)
