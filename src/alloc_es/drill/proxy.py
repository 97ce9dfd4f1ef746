"""A proxy between a client and PostgreSQL that loses messages and refuses connections on order."""

import socket
import socketserver
import threading
import time
from collections import Counter
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qsl, quote, urlencode

from alloc_es.drill.link import Fault, Link, Loss
from alloc_es.errors import StoreUnavailable

_POLL_SECONDS = 0.01
_CONNECT_SECONDS = 10

RECORD_RUNS = "record_runs"
"""What the statement that records a group of runs holds."""

_LOGIN = ("user", "password", "dbname")
# What says where the server is, or how to encrypt the way there.
_ROUTE = ("host", "hostaddr", "port", "service", "channel_binding", "requirepeer")
_PLAIN = {"sslmode": "disable", "gssencmode": "disable"}


def _nothing() -> None:
    """What happens during a loss unless somebody says otherwise."""


class Proxy:
    """Listens on a TCP port of its own and forwards to the server of a store's URL.

    It connects once to learn where the server is. The server has to take connections in plain
    text, for that is what the proxy reads. Raises `StoreUnavailable` when it can't be reached.
    """

    def __init__(self, url: str, *, sleep: Callable[[float], object] = time.sleep) -> None:
        self._host, self._port, self._login = _server_of(url)
        self._sleep = sleep
        self._lock = threading.Lock()
        self._faults: list[Fault] = []
        self._links: set[Link] = set()
        self._listener: _Listener | None = None
        # It never listens: it keeps the port ours while connections are refused.
        self._holder = _bound_socket()
        self._hanging_up = False
        self.lost: Counter[Loss] = Counter()
        """How many statements each kind of loss has met."""
        self.hung_up = 0
        """How many connections were ended as they came."""
        self.accept()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.refuse()
        self._holder.close()

    @property
    def port(self) -> int:
        """The port that it listens on."""
        return int(self._holder.getsockname()[1])

    def url_of(self, url: str) -> str:
        """The URL of a store on the same server, by way of the proxy and in plain text."""
        parameters, own = _parted(url)
        options = {
            name: value
            for name, value in parameters.items()
            if name not in _ROUTE and not name.startswith(("ssl", "gss"))
        }
        query = urlencode({**self._login, **options, **_PLAIN, **own}, quote_via=quote)
        return f"postgresql://127.0.0.1:{self.port}/?{query}"

    def lose(
        self,
        loss: Loss,
        *,
        of: str = "INSERT INTO",
        times: int = 1,
        meanwhile: Callable[[], object] = _nothing,
        seconds: float = 0,
    ) -> None:
        """Lose the next statements that hold a text; `lost` counts those that were.

        A lost `request` never reaches the server. A lost `reply` is dropped after the server
        has sent it whole, so the statement is committed by then, if it is one that commits. In
        both cases the connection is cut. After `silence` the connection stays, and nothing
        comes back. A `delay` holds the reply back. `meanwhile` is called, and `seconds` pass,
        before the connection is cut or the reply let go.
        """

        def wait() -> None:
            meanwhile()
            if seconds:
                self._sleep(seconds)

        with self._lock:
            self._faults.append(Fault(loss, of.encode(), times, wait))

    def refuse(self) -> None:
        """Cut every connection and refuse new ones until `accept`."""
        if self._listener:
            self._listener.shutdown()
            self._listener.server_close()
            self._listener = None
        self.cut()

    def hang_up(self) -> None:
        """Cut every connection and end new ones as they come; `hung_up` counts those."""
        self._hanging_up = True
        self.cut()

    def accept(self) -> None:
        """Take connections again."""
        self._hanging_up = False
        if self._listener:
            return
        self._listener = _Listener(("127.0.0.1", self.port), self._serve)
        threading.Thread(
            target=self._listener.serve_forever, args=(_POLL_SECONDS,), daemon=True
        ).start()

    def cut(self) -> int:
        """Cut every connection that there is; how many there were."""
        with self._lock:
            links = tuple(self._links)
        for link in links:
            link.cut()
        return len(links)

    def _take_fault(self, statement: bytes) -> Fault | None:
        """The fault that was ordered for a statement, or None; counts it as done."""
        with self._lock:
            for fault in self._faults:
                if fault.text in statement:
                    fault.left -= 1
                    if not fault.left:
                        self._faults.remove(fault)
                    self.lost[fault.loss] += 1
                    return fault
        return None

    def _serve(self, client: socket.socket) -> None:
        if self._hanging_up:
            with self._lock:
                self.hung_up += 1
            return
        link = Link(client, _dial(self._host, self._port), self._take_fault)
        with self._lock:
            self._links.add(link)
        try:
            link.run()
        finally:
            with self._lock:
                self._links.discard(link)
            link.close()


class _Listener(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    allow_reuse_port = True
    daemon_threads = True

    def __init__(self, address: tuple[str, int], serve: Callable[[socket.socket], None]) -> None:
        self._serve = serve
        super().__init__(address, socketserver.BaseRequestHandler)

    def finish_request(self, request: Any, client_address: Any) -> None:  # noqa: ARG002
        self._serve(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Quiet: a cut connection is what was ordered."""


def _bound_socket() -> socket.socket:
    bound = socket.socket()
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    bound.bind(("127.0.0.1", 0))
    return bound


def _dial(host: str, port: int) -> socket.socket:
    if not host.startswith("/"):
        return socket.create_connection((host, port))
    server = socket.socket(socket.AF_UNIX)
    server.connect(f"{host}/.s.PGSQL.{port}")
    return server


def _server_of(url: str) -> tuple[str, int, dict[str, str]]:
    """Where the server of a store's URL listens, and who logs in to what."""
    import psycopg

    parameters, _ = _parted(url)
    try:
        with psycopg.connect(**{"connect_timeout": _CONNECT_SECONDS, **parameters}) as connection:
            info = connection.info
            login = (info.user, info.password, info.dbname)
            named = {name: value for name, value in zip(_LOGIN, login, strict=True) if value}
            return info.host, info.port, named
    except psycopg.OperationalError as error:
        problem = " ".join(str(error).split())
        raise StoreUnavailable(f"the proxy can't reach the server: {problem}") from error


def _parted(url: str) -> tuple[dict[str, Any], dict[str, str]]:
    """What a store's URL says to libpq, and what it says to alloc-es."""
    from psycopg.conninfo import conninfo_to_dict
    from psycopg.pq import Conninfo

    base, _, query = url.partition("?")
    options = dict(parse_qsl(query.replace("+", "%2B"), keep_blank_values=True))
    known = {option.keyword.decode() for option in Conninfo.get_defaults()}
    own = {name: value for name, value in options.items() if name not in known}
    theirs = {name: value for name, value in options.items() if name in known}
    return conninfo_to_dict(f"{base}?{urlencode(theirs, quote_via=quote)}"), own
