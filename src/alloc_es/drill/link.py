"""One connection between a client and PostgreSQL, read message by message on its way."""

import socket
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from selectors import EVENT_READ, DefaultSelector
from typing import Literal

_CHUNK = 65_536
# The messages of a statement that a Sync ends: parse, bind, describe, execute, close, flush.
_PARTS = (b"P", b"B", b"D", b"E", b"C", b"H")
_READY = b"Z"

Loss = Literal["request", "reply", "silence", "delay"]


@dataclass
class Fault:
    """A loss that was ordered: of the next statement that holds `text`, `left` times."""

    loss: Loss
    text: bytes
    left: int
    meanwhile: Callable[[], object]


TakeFault = Callable[[bytes], Fault | None]
"""The fault that was ordered for a statement, or None."""


class Link:
    """One connection, read message by message on its way to the server.

    https://www.postgresql.org/docs/current/protocol-message-formats.html
    """

    def __init__(self, client: socket.socket, server: socket.socket, take_fault: TakeFault) -> None:
        self._take_fault = take_fault
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
            fault = self._take_fault(self._executed(batch))
            request = b"".join(batch)
            batch.clear()
            if fault and fault.loss == "request":
                fault.meanwhile()
                return False
            self._server.sendall(request)
            if fault and not self._answered(fault):
                return False
        return True

    def _answered(self, fault: Fault) -> bool:
        """Do to the answer what was ordered; False when the connection is to be cut."""
        if fault.loss == "silence":
            self._silent = True
            return True
        answer = self._answer()
        fault.meanwhile()
        if fault.loss == "delay":
            self._client.sendall(answer)
        return fault.loss == "delay"

    def _answer(self) -> bytes:
        """All that the server says up to its being ready, or to its end."""
        answer = b""
        begin = 0
        while data := self._server.recv(_CHUNK):
            answer += data
            while len(answer) - begin >= 5 and len(answer) > (end := begin + _size(answer[begin:])):
                letter, begin = answer[begin : begin + 1], end + 1
                if letter == _READY:
                    return answer
        return answer

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
