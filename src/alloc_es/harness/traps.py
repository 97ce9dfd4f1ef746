"""Named points in a participant's work at which it can be made to fall over, on purpose."""

import signal
from collections.abc import Callable
from dataclasses import replace
from threading import Lock, get_ident
from typing import Any, Literal, cast, get_args

from alloc_es.errors import InvalidSetting
from alloc_es.events import DecisionEvent
from alloc_es.store import Recorded, Store
from alloc_es.store.recorder import RunGroup
from alloc_es.wording import shown

Point = Literal["before append", "after append", "before record", "after record", "before answer"]
"""Around the commit of a decision, of a group of runs, and before an answer is sent."""

Fall = Literal["kill", "stop"]
"""SIGKILL, or SIGSTOP until somebody sends SIGCONT."""

POINTS: tuple[Point, ...] = get_args(Point)

_LONGEST_STEP = 366 * 86_400.0

_SIGNALS = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP}


def parse_trap(point: object, fall: object) -> None:
    """Raise `InvalidSetting` unless there is such a point, and one can fall so."""
    for setting, value, known in (("point", point, POINTS), ("fall", fall, tuple(_SIGNALS))):
        if value not in known:
            raise InvalidSetting(setting, f"{shown(value)} is none of {', '.join(known)}")


def parse_step(seconds: object) -> float:
    """By how much a clock is to be wrong; raises `InvalidSetting`."""
    if isinstance(seconds, int | float) and abs(seconds) <= _LONGEST_STEP:
        return float(seconds)
    problem = f"{shown(seconds)} is no number of at most {_LONGEST_STEP:,.0f}"
    raise InvalidSetting("seconds", problem)


class Traps:
    """Traps that are set at points, each for the next who comes by; safe for threads."""

    def __init__(self) -> None:
        self._set: dict[Point, Fall] = {}
        self._lock = Lock()

    def set(self, point: Point, fall: Fall) -> None:
        """Set a trap; it springs once."""
        with self._lock:
            self._set[point] = fall

    def pass_by(self, point: Point) -> None:
        """Fall into the trap that is set here, if one is."""
        with self._lock:
            fall = self._set.pop(point, None)
        if fall:
            # To this thread: of those sent to the process another one may hear first, and this
            # one runs on meanwhile.
            signal.pthread_kill(get_ident(), _SIGNALS[fall])

    def around(self, store: Store) -> Store:
        """The same store, with the points on its way to the disk."""
        return replace(
            store,
            decisions=cast(Any, _Trapped(store.decisions, self)),
            runs=cast(Any, _Trapped(store.runs, self)),
        )


class _Trapped:
    """A log that passes by traps around what it commits."""

    def __init__(self, log: Any, traps: Traps) -> None:
        self._log = log
        self._traps = traps

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)

    def append(self, event: DecisionEvent) -> Recorded[DecisionEvent]:
        self._traps.pass_by("before append")
        recorded: Recorded[DecisionEvent] = self._log.append(event)
        self._traps.pass_by("after append")
        return recorded

    def record(self, group: RunGroup, reroute: Callable[..., RunGroup]) -> int:
        self._traps.pass_by("before record")
        position: int = self._log.record(group, reroute)
        self._traps.pass_by("after record")
        return position
