"""Stores that fail a participant on purpose, opened by name in whatever runs it."""

import os
from dataclasses import dataclass, field, replace
from threading import Event
from typing import Any

from alloc_es.errors import AnswerLost, StoreUnavailable
from alloc_es.store import Store, open_store

_SECONDS = 30.0


def broken(*_: object, **__: object) -> Store:
    """Open nothing."""
    raise LookupError("the shelf is empty")


def suicide(*_: object, **__: object) -> Store:
    """End the process."""
    os._exit(7)


@dataclass
class Gate:
    """Holds up what comes by until it is opened; says that something has come."""

    reached: Event = field(default_factory=Event)
    open: Event = field(default_factory=Event)

    def pass_by(self) -> None:
        """Wait until it is open, or fail."""
        self.reached.set()
        if not self.open.wait(_SECONDS):
            raise RuntimeError("the gate was never opened")


class Switch:
    """What the openers below do; tests set it, and threads of their process heed it."""

    opening = Gate()
    appending = Gate()
    lost: str = ""
    """The reply is lost of: "a request" that never arrived, or one that was "recorded"."""
    away = False
    """Whether every later call finds the store unavailable."""


def slow_to_open(url: str, **options: Any) -> Store:
    """Open when the gate does."""
    Switch.opening.pass_by()
    return open_store(url, **options)


def gated(url: str, **options: Any) -> Store:
    """Decisions pass a gate."""
    store = open_store(url, **options)
    return replace(store, decisions=_Gated(store.decisions))  # type: ignore[arg-type]


def losing(url: str, **options: Any) -> Store:
    """A store that loses replies and is away, as the switch says."""
    store = open_store(url, **options)
    return replace(store, decisions=_Losing(store.decisions), runs=_Losing(store.runs))  # type: ignore[arg-type]


class _Gated:
    def __init__(self, log: Any) -> None:
        self._log = log

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)

    def append(self, event: Any) -> Any:
        Switch.appending.pass_by()
        return self._log.append(event)


class _Losing:
    def __init__(self, log: Any) -> None:
        self._log = log

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._log, name)

        def call(*arguments: Any, **more: Any) -> Any:
            if Switch.away:
                raise StoreUnavailable("it is away", retryable=False)
            return method(*arguments, **more)

        return call

    def append(self, event: Any) -> Any:
        return self._lose(self._log.append, event)

    def record(self, group: Any, reroute: Any) -> Any:
        return self._lose(self._log.record, group, reroute)

    def _lose(self, write: Any, *arguments: Any) -> Any:
        if Switch.away:
            raise StoreUnavailable("it is away", retryable=False)
        if not Switch.lost:
            return write(*arguments)
        if Switch.lost == "recorded":
            write(*arguments)
        Switch.away = True
        raise AnswerLost("the reply was lost", retryable=False)
