"""Ctrl-C while something is under way that had better be finished."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from alloc_es.cli.exits import INTERRUPTED, TERMINATED


class Interrupts:
    """Keeps one Ctrl-C until it is asked for; the next one interrupts at once, and is the last.

    So it does with the signals in `also`. Used as a context, in the main thread: elsewhere
    Ctrl-C is not heard anyway.
    """

    def __init__(self, *also: signal.Signals) -> None:
        self._signals = (signal.SIGINT, *also)
        self._idle = False
        self.first: int | None = None
        """Which signal came first."""
        self.heard = False
        """Whether it came."""
        self.insisting = False
        """Whether it came twice."""

    @property
    def exit_code(self) -> int:
        """What a shell reports of a program that the first one has ended."""
        return TERMINATED if self.first == signal.SIGTERM else INTERRUPTED

    @contextmanager
    def kept(self) -> Iterator[None]:
        """The context in which Ctrl-C is kept."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        handlers = {each: signal.signal(each, self._hear) for each in self._signals}
        try:
            yield
        finally:
            if not self.insisting:
                for each, handler in handlers.items():
                    signal.signal(each, handler)

    @contextmanager
    def let_through(self) -> Iterator[None]:
        """A context inside of it in which nothing is to be finished."""
        self._idle = True
        try:
            self.check()
            yield
        finally:
            self._idle = False

    def check(self) -> None:
        """Raise the `KeyboardInterrupt` that was kept, if there is one."""
        if self.heard:
            raise KeyboardInterrupt

    def _hear(self, number: int, _frame: FrameType | None) -> None:
        self.insisting = self.heard
        self.heard = True
        self.first = self.first or number
        if self.insisting:
            # More of them would only break what now ends the command. Not SIG_IGN: one that came
            # just before it is then told on stderr, "ignored due to race condition" (bpo-43406).
            for each in self._signals:
                signal.signal(each, _pass_over)
        if self._idle or self.insisting:
            raise KeyboardInterrupt


def _pass_over(_number: int, _frame: FrameType | None) -> None:
    """Hear nothing any more."""
