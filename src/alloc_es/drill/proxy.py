"""A proxy between a client and PostgreSQL that loses messages and refuses connections on order."""

import socket
import socketserver
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from selectors import EVENT_READ, DefaultSelector
from types import TracebackType
from typing import Any, Literal, Self
from urllib.parse import urlencode

import psycopg

_CHUNK = 65_536
_POLL_SECONDS = 0.01
# The messages of a statement that a Sync ends: parse, bind, describe, execute, close, flush.
_PARTS = (b"P", b"B", b"D", b"E", b"C", b"H")
_READY = b"Z"

Loss = Literal["request", "reply", "silence"]

RECORD_RUNS = "record_runs"
"""What the statement that records a group of runs holds."""


def nothing() -> None:
    """What happens during a loss unless a test says otherwise."""


@dataclass
class Fault:
    """A loss that was ordered: of the next statement that holds `text`, `left` times.

    A lost `request` never reaches the server. A lost `reply` is dropped after the server
    has sent it whole, so the statement is committed by then. In both cases `meanwhile` is
    called and the connection is cut. After `silence` the connection stays, and nothing
    comes back.
    """

    loss: Loss
    text: bytes
    left: int
    meanwhile: Callable[[], object]


class Proxy:
    """Listens on a TCP port of its own and forwards to the server of a URL."""

    def __init__(self, url: str) -> None:
        with psycopg.connect(url) as connection:
            info = connection.info
            self._target = (info.host, info.port)
            self._login = {"user": info.user, "password": info.password, "dbname": info.dbname}
        self._lock = threading.Lock()
        self._faults: list[Fault] = []
        self._links: set[_Link] = set()
        self._listener: _Listener | None = None
        # It never listens: it keeps the port ours while connections are refused.
        self._holder = _bound_socket()
        self._hanging_up = False
        self.lost = 0
        self.hung_up = 0
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

    def url(self, schema: str) -> str:
        """The URL of a store behind the proxy, in plain text so that the proxy can read it."""
        plain = {"sslmode": "disable", "gssencmode": "disable", "schema": schema}
        login = {name: value for name, value in self._login.items() if value}
        return f"postgresql://127.0.0.1:{self.port}/?{urlencode({**login, **plain})}"

    def lose(
        self,
        loss: Loss,
        *,
        of: str = "INSERT INTO",
        times: int = 1,
        meanwhile: Callable[[], object] = nothing,
    ) -> None:
        """Lose the next statements that hold a text; `lost` counts those that were."""
        with self._lock:
            self._faults.append(Fault(loss, of.encode(), times, meanwhile))

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

    def cut(self) -> None:
        """Cut every connection that there is."""
        with self._lock:
            links = tuple(self._links)
        for link in links:
            link.cut()

    def take_fault(self, statement: bytes) -> Fault | None:
        """The fault that was ordered for a statement, or None; counts it as done."""
        with self._lock:
            for fault in self._faults:
                if fault.left and fault.text in statement:
                    fault.left -= 1
                    self.lost += 1
                    return fault
        return None

    def _serve(self, client: socket.socket) -> None:
        if self._hanging_up:
            with self._lock:
                self.hung_up += 1
            return
        link = _Link(self, client, _dial(*self._target))
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
        """Quiet: a cut connection is what tests order."""


class _Link:
    """One connection, read message by message on its way to the server.

    https://www.postgresql.org/docs/current/protocol-message-formats.html
    """

    def __init__(self, proxy: Proxy, client: socket.socket, server: socket.socket) -> None:
        self._proxy = proxy
        self._client = client
        self._server = server
        self._statements: dict[bytes, bytes] = {}
        self._unread = b""
        self._started = False
        self._silent = False

    def run(self) -> None:
        """Forward until either side ends or a fault cuts the connection."""
        batch: list[bytes] = []
        with DefaultSelector() as ready:
            ready.register(self._client, EVENT_READ)
            ready.register(self._server, EVENT_READ)
            while True:
                for key, _ in ready.select():
                    source = key.fileobj
                    assert isinstance(source, socket.socket)
                    data = source.recv(_CHUNK)
                    if not data:
                        return
                    if source is self._server:
                        if not self._silent:
                            self._client.sendall(data)
                    elif not self._forward(data, batch):
                        return

    def cut(self) -> None:
        """End both sides; `run` returns then."""
        for side in (self._client, self._server):
            with suppress(OSError):
                side.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """End both sides and free their sockets."""
        self.cut()
        self._client.close()
        self._server.close()

    def _forward(self, data: bytes, batch: list[bytes]) -> bool:
        """Send on what is complete, a batch up to its Sync at a time; False after a loss."""
        for message in self._messages(data):
            batch.append(message)
            if message[:1] in _PARTS:
                continue
            fault = self._proxy.take_fault(self._executed(batch))
            request = b"".join(batch)
            batch.clear()
            if fault and fault.loss != "silence":
                self._lose(fault, request)
                return False
            self._silent = self._silent or fault is not None
            self._server.sendall(request)
        return True

    def _lose(self, fault: Fault, request: bytes) -> None:
        if fault.loss == "reply":
            self._server.sendall(request)
            self._await_answer()
        fault.meanwhile()

    def _await_answer(self) -> None:
        unread = b""
        while data := self._server.recv(_CHUNK):
            unread += data
            while len(unread) >= 5 and len(unread) > (size := _size(unread)):
                message, unread = unread[: size + 1], unread[size + 1 :]
                if message[:1] == _READY:
                    return

    def _messages(self, data: bytes) -> Iterator[bytes]:
        self._unread += data
        while True:
            # The first message of a connection has no letter in front of its length.
            letter = 1 if self._started else 0
            if len(self._unread) < letter + 4:
                return
            end = letter + int.from_bytes(self._unread[letter : letter + 4], "big")
            if len(self._unread) < end:
                return
            message, self._unread = self._unread[:end], self._unread[end:]
            yield message
            self._started = True

    def _executed(self, batch: list[bytes]) -> bytes:
        """The text of the statement that a batch executes; empty for what executes none."""
        text = b""
        for message in batch:
            letter, body = message[:1], message[5:]
            if letter == b"P":
                name, query, _ = body.split(b"\0", 2)
                self._statements[name] = query
            elif letter == b"B":
                _, name, _ = body.split(b"\0", 2)
                text = self._statements.get(name, b"")
            elif letter == b"Q":
                text = body
        return text


def _size(message: bytes) -> int:
    return int.from_bytes(message[1:5], "big")


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
