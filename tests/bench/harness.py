"""What the three ways to run a scheduler cost: each row in a child process of its own."""

import os
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from time import perf_counter
from typing import get_args
from uuid import uuid4

from alloc_es import WorkflowKey
from alloc_es.harness import Decide, Done, Launcher, Mode
from alloc_es.proposals import Reshare
from tests.bench.measuring import Case, Contender, Measure
from tests.bench.memory import peak_bytes
from tests.bench.rivals import CHALLENGER, CURRENT, TENANT
from tests.bench.scale import Scale
from tests.bench.stores import Stores
from tests.support.children import SPAWNED, run_together

MODES: tuple[Mode, ...] = get_args(Mode)


@dataclass(frozen=True, slots=True)
class Reading:
    """What one scheduler took, in a launcher that did nothing else; `pid` is the launcher's."""

    pid: int
    start_ms: float
    decisions_per_second: float
    peak_mb: float


class Readings:
    """Readings of a store. Each has all figures, and each figure of it is given once."""

    def __init__(self, url: str, seconds: float) -> None:
        self._url = url
        self._seconds = seconds
        self._kept: dict[tuple[Mode, str], deque[Reading]] = {
            (mode, figure): deque() for mode in MODES for figure in Reading.__dataclass_fields__
        }

    def figure(self, mode: Mode, name: str) -> float:
        """The next figure of a mode, from a child process of its own unless one is left."""
        if not self._kept[mode, name]:
            reading = read(self._url, mode, self._seconds)
            for each in Reading.__dataclass_fields__:
                self._kept[mode, each].append(reading)
        return float(getattr(self._kept[mode, name].popleft(), name))


def running_schedulers(stores: Stores, scale: Scale) -> list[Case]:
    """Start, speed and memory of one scheduler by mode."""
    readings = Readings(stores.url, scale.seconds)

    def case(name: str, unit: str, figure: str, note: str) -> Case:
        contenders = [
            Contender(mode.replace("_", " "), partial(_of, readings, mode, figure))
            for mode in MODES
        ]
        return Case(
            f"{name} by mode, {stores.kind}", unit, contenders, note=note, rounds=scale.mode_rounds
        )

    return [
        case("Starting a scheduler", "ms", "start_ms", "from `Launcher.start` until it is ready"),
        case(
            "Decisions of one scheduler",
            "decisions/s",
            "decisions_per_second",
            "asked one after the other for one hot key, each with the generation it expects",
        ),
        case(
            "The peak memory of one scheduler",
            "MB",
            "peak_mb",
            "launcher and scheduler together; a process for each line, resident memory at most",
        ),
    ]


@contextmanager
def _of(readings: Readings, mode: Mode, figure: str) -> Iterator[Measure]:
    yield partial(readings.figure, mode, figure)


def read(url: str, mode: Mode, seconds: float, ballast: int = 0) -> Reading:
    """One reading, from a child process that does nothing else but hold some bytes."""
    (reading,) = run_together(_row, [(url, mode, seconds, ballast)], SPAWNED)
    assert isinstance(reading, Reading)
    return reading


def _row(_: object, url: str, mode: Mode, seconds: float, ballast: int) -> Reading:
    held = b"x" * ballast
    key = WorkflowKey.parse(TENANT, uuid4().hex)
    with Launcher(url, threads=1) as launcher:
        workflow = launcher.allocations.workflow(*key)
        workflow.start(CURRENT)
        generation = workflow.register_challenger(CHALLENGER).generation
        began = perf_counter()
        scheduler = launcher.start(f"scheduler-{key.workflow_id}", "scheduler", [TENANT], mode=mode)
        start_ms = (perf_counter() - began) * 1_000
        count, began = 0, perf_counter()
        while perf_counter() < began + seconds or not count:
            share = Reshare({CHALLENGER: 600 + count % 2})
            done = scheduler.call(Decide(key, share, generation + count))
            assert isinstance(done, Done), done
            count += 1
        rate = count / (perf_counter() - began)
        own = scheduler.health().peak_rss
        # What has no process of its own is in the launcher's.
        peak = peak_bytes() + (own if own and mode == "process" else 0)
    assert len(held) == ballast
    return Reading(os.getpid(), start_ms, rate, peak / 1e6)
