"""The recorders of all kinds of stores, for tests that watch or disturb them."""

from collections.abc import Callable
from threading import Barrier
from typing import Any

import pytest

from alloc_es.store.memory import MemoryRecorder
from alloc_es.store.postgres import PostgresRecorder
from alloc_es.store.recorder import LogRecorder
from alloc_es.store.sqlite import SQLiteRecorder

RECORDERS: tuple[type[LogRecorder], ...] = (MemoryRecorder, SQLiteRecorder, PostgresRecorder)

READS = (
    "select_batch",
    "select_events",
    "select_command",
    "select_heads",
    "select_newest",
    "select_notifications",
    "max_notification_id",
)
WRITES = ("insert_events", "insert_runs")

_PATIENCE_SECONDS = 30.0


def before_each(
    monkeypatch: pytest.MonkeyPatch, names: tuple[str, ...], act: Callable[[str], None]
) -> None:
    """Have `act` called, with the method's name, before a recorder of any store does it."""
    for recorder in RECORDERS:
        for name in names:
            monkeypatch.setattr(recorder, name, _preceded(getattr(recorder, name), name, act))


def meet_before_recording(monkeypatch: pytest.MonkeyPatch, parties: int) -> Barrier:
    """Make the first `parties` groups of runs wait for each other: all routed, none recorded.

    Later ones pass. The barrier's `broken` says that they never met.
    """
    barrier = Barrier(parties, timeout=_PATIENCE_SECONDS)
    places = iter(range(parties))

    def wait(_: str) -> None:
        if next(places, None) is not None:
            barrier.wait()

    before_each(monkeypatch, ("insert_runs",), wait)
    return barrier


def _preceded(genuine: Any, name: str, act: Callable[[str], None]) -> Any:
    def method(self: Any, *arguments: Any, **more: Any) -> Any:
        act(name)
        return genuine(self, *arguments, **more)

    return method
