"""Cases and how they are measured: interleaved repetitions, medians, ratios within a round."""

import gc
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass

Measure = Callable[[], float]
"""One repetition of one contender: what it took, in the unit of its case."""


@dataclass(frozen=True, slots=True)
class Contender:
    """One of those that a case puts side by side; `open` prepares what is not measured."""

    name: str
    open: Callable[[], AbstractContextManager[Measure]]


@dataclass(frozen=True, slots=True)
class Goal:
    """`contender` takes at most `at_most` times what `beside` takes."""

    contender: str
    beside: str
    at_most: float


@dataclass(frozen=True, slots=True)
class Case:
    """A question with a figure for an answer. The first contender is what ratios are to."""

    name: str
    unit: str
    contenders: Sequence[Contender]
    goal: Goal | None = None
    note: str = ""


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

    @property
    def goal_ratio(self) -> float | None:
        """The ratio that the goal is about, of the smallest figures; None without a goal.

        Of the smallest, because what else the machine does can only add to a figure.
        """
        goal = self.case.goal
        if goal is None:
            return None
        values = {figure.contender: figure.values for figure in self.figures}
        return min(values[goal.contender]) / min(values[goal.beside])


def measure(case: Case, repetitions: int, tell: Callable[[str], None]) -> Outcome:
    """Measure a case: one round to warm up, then `repetitions` rounds, A B C A B C.

    A round is short, so what else the machine does falls on all contenders alike. In this
    process nobody pays for the garbage of another: it is collected between two contenders.
    """
    values: list[list[float]] = [[] for _ in case.contenders]
    with ExitStack() as opened:
        measures = [opened.enter_context(contender.open()) for contender in case.contenders]
        # What lives until the end need not be looked at each time.
        gc.freeze()
        opened.callback(gc.unfreeze)
        for repetition in range(repetitions + 1):
            tell(f"{case.name}: round {repetition} of {repetitions}")
            for measured, taken in zip(measures, values, strict=True):
                with _collected_garbage():
                    taken.append(measured())
    kept = [tuple(taken[1:]) for taken in values]
    return Outcome(
        case,
        tuple(
            Figure(contender.name, taken, _ratios(taken, kept[0]))
            for contender, taken in zip(case.contenders, kept, strict=True)
        ),
    )


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
