"""A launcher's end of the pipe to one participant."""

import os
import socket
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection
from queue import SimpleQueue
from signal import SIGKILL
from threading import Event, Thread

from alloc_es.harness.protocol import Message, Opening, Reply
from alloc_es.harness.runners import Runner

_LOOK_EVERY = 0.5
_GRACE = 2.0


class Line:
    """Says and hears messages, each in a thread of its own, until the participant has ended.

    `hear` is called with each reply, and `on_loss` when it has ended and all is heard.
    """

    def __init__(
        self,
        connection: Connection,
        runner: Runner,
        hear: Callable[[Reply], None],
        on_loss: Callable[[], None],
    ) -> None:
        self._connection = connection
        self._runner = runner
        self._hear = hear
        self._on_loss = on_loss
        self._outbox: SimpleQueue[Opening | Message | None] = SimpleQueue()
        self._speaking = Thread(target=self._speak, daemon=True)
        self._speaking.start()
        self._heard_all = Event()
        Thread(target=self._listen, daemon=True).start()
        Thread(target=self._hang_up_behind_it, daemon=True).start()

    def say(self, message: Opening | Message) -> None:
        """Send a message without waiting: one that was stopped reads none, and its pipe fills."""
        self._outbox.put(message)

    def _speak(self) -> None:
        with suppress(OSError):
            while (message := self._outbox.get()) is not None:
                self._connection.send(message)

    def _listen(self) -> None:
        try:
            while self._hears_more():
                self._hear(self._connection.recv())
        except (EOFError, OSError):
            pass
        except BaseException:  # noqa: BLE001 - unpickling garbage may raise whatever it says
            # It can't be understood any more, so nobody could ask it or end it in order.
            self._runner.signal(SIGKILL)
            self._connection.close()
        self._heard_all.set()
        self._runner.wait()
        self._on_loss()
        self._outbox.put(None)
        self._speaking.join()
        self._connection.close()

    def _hears_more(self) -> bool:
        """Wait for a message; False once none can come.

        The end of the pipe is not enough: what a participant has forked holds it, too.
        """
        while not self._connection.poll(_LOOK_EVERY):
            if self._runner.exit_code is not None:
                return self._connection.poll()
        return True

    def _hang_up_behind_it(self) -> None:
        """Let nobody listen for the rest of a message whose sender died over it."""
        self._runner.wait()
        if not self._heard_all.wait(_GRACE):
            with suppress(OSError), socket.socket(fileno=os.dup(self._connection.fileno())) as end:
                end.shutdown(socket.SHUT_RDWR)
