"""Cases and how they are measured: interleaved repetitions, medians, ratios within a round."""

import gc
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass

from tests.bench.goals import Best, Goal

Measure = Callable[[], float]
"""One repetition of one contender: what it took, in the unit of its case."""


@dataclass(frozen=True, slots=True)
class Contender:
    """One of those that a case puts side by side; `open` prepares what is not measured."""

    name: str
    open: Callable[[], AbstractContextManager[Measure]]


@dataclass(frozen=True, slots=True)
class Case:
    """A question with a figure for an answer. The first contender is what ratios are to.

    `rounds` is for a case that is not to have as many as the others; a single round has
    none before it to warm up, because what is measured so is a size, or takes a minute.
    """

    name: str
    unit: str
    contenders: Sequence[Contender]
    goals: Sequence[Goal] = ()
    note: str = ""
    rounds: int | None = None

    @property
    def best(self) -> Best:
        """Which figures are the best ones."""
        return max if self.unit.endswith("/s") else min


@dataclass(frozen=True, slots=True)
class Figure:
    """The repetitions of one contender, in order, and its ratios to the first, by round."""

    contender: str
    values: tuple[float, ...]
    ratios: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a case."""

    case: Case
    figures: tuple[Figure, ...]

    def verdicts(self) -> list[tuple[Goal, float]]:
        """Each goal with the figure that it is about."""
        values = {figure.contender: figure.values for figure in self.figures}
        return [(goal, goal.found(values, self.case.best)) for goal in self.case.goals]


def measure(case: Case, repetitions: int, tell: Callable[[str], None]) -> Outcome:
    """Measure a case: one round to warm up, then `repetitions` rounds, A B C A B C.

    A round is short, so what else the machine does falls on all contenders alike. In this
    process nobody pays for the garbage of another: it is collected between two contenders.
    """
    counted = min(case.rounds or repetitions, repetitions)
    warm_ups = 0 if case.rounds == 1 else 1
    values: list[list[float]] = [[] for _ in case.contenders]
    with ExitStack() as opened:
        measures = [opened.enter_context(contender.open()) for contender in case.contenders]
        # What lives until the end need not be looked at each time.
        gc.freeze()
        opened.callback(gc.unfreeze)
        for repetition in range(warm_ups + counted):
            tell(f"{case.name}: round {repetition + 1 - warm_ups} of {counted}")
            for measured, taken in zip(measures, values, strict=True):
                with _collected_garbage():
                    taken.append(measured())
    kept = [tuple(taken[warm_ups:]) for taken in values]
    return Outcome(
        case,
        tuple(
            Figure(contender.name, taken, _ratios(taken, kept[0]))
            for contender, taken in zip(case.contenders, kept, strict=True)
        ),
    )


@contextmanager
def own_garbage() -> Iterator[None]:
    """Inside a measure: the contender makes so much garbage that it is to pay for its own."""
    gc.enable()
    try:
        yield
    finally:
        gc.disable()


@contextmanager
def _collected_garbage() -> Iterator[None]:
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _ratios(values: Sequence[float], beside: Sequence[float]) -> tuple[float, ...]:
    return tuple(value / other for value, other in zip(values, beside, strict=True))
