"""Deciding on a workflow while others spawn its runs as fast as they can."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from math import ceil
from time import perf_counter

import alloc_es
from tests.bench.crew import Crew
from tests.bench.goals import Goal, Within
from tests.bench.measuring import Case, Contender, Measure
from tests.bench.rivals import CHALLENGER, TENANT
from tests.bench.scale import Scale
from tests.bench.spawning import open_ledger, requests, spawn, started
from tests.bench.stores import Stores

_PROCESSES = 2
_THREADS = 4
_ROUNDS = 3
_LONGEST_MARGIN_SECONDS = 0.5
_SHARES = (600, 601)


@dataclass
class Samples:
    """What the decisions of a round took, in milliseconds."""

    milliseconds: list[float] = field(default_factory=list)

    def quantile(self, part: float) -> float:
        """The smallest figure that this part of all figures does not exceed."""
        return sorted(self.milliseconds)[ceil(part * len(self.milliseconds)) - 1]


def flat_out(stores: Stores, crew: Crew, scale: Scale) -> Case:
    """`commit_allocation`, idle and beside 8 spawners on the same workflows."""
    spawners = f"{_PROCESSES * _THREADS} spawners"
    goals: tuple[Goal, ...] = ()
    if stores.kind == "PostgreSQL":
        goals = (Within(f"{spawners}, p99", 100, "ms"),)
    idle, busy = Samples(), Samples()
    return Case(
        f"A decision while {spawners} run flat out, {stores.kind}",
        "ms",
        (
            Contender("idle, p50", partial(_idle, stores.url, scale, idle)),
            Contender("idle, p99", partial(of_the_same, idle)),
            Contender(f"{spawners}, p50", partial(_busy, stores.url, crew, scale, busy)),
            Contender(f"{spawners}, p99", partial(of_the_same, busy)),
        ),
        goals,
        note=(
            f"{_THREADS} threads in each of {_PROCESSES} processes spawn lists of "
            f"{scale.group:,} runs; a third process decides on their workflows in turn, for "
            f"{scale.flat_out_seconds:g} s a round; idle, {scale.idle_decisions} decisions a round"
        ),
        rounds=_ROUNDS,
    )


@contextmanager
def _idle(url: str, scale: Scale, samples: Samples) -> Iterator[Measure]:
    with open_ledger(url) as allocations:
        workflow_ids = started(allocations)

        def measured() -> float:
            decide = decider(allocations, workflow_ids)
            samples.milliseconds = [decide() for _ in range(scale.idle_decisions)]
            return samples.quantile(0.5)

        yield measured


@contextmanager
def _busy(url: str, crew: Crew, scale: Scale, samples: Samples) -> Iterator[Measure]:
    with open_ledger(url) as allocations:
        workflow_ids = started(allocations)
        deciding = _Deciding(url, workflow_ids, scale.flat_out_seconds)
        # They go on for longer, so that no decision finds them gone.
        seconds = scale.flat_out_seconds
        seconds += min(seconds, _LONGEST_MARGIN_SECONDS)
        spawning = _SpawningFlatOut(url, workflow_ids, scale.group, seconds)

        def measured() -> float:
            jobs: list[Callable[[Callable[[], object]], list[float]]] = [deciding]
            jobs += [spawning] * _PROCESSES
            samples.milliseconds = crew.together(jobs)[0]
            return samples.quantile(0.5)

        yield measured


@contextmanager
def of_the_same(samples: Samples) -> Iterator[Measure]:
    """The tail of the decisions whose median was measured just before."""
    yield lambda: samples.quantile(0.99)


def decider(allocations: alloc_es.Allocations, workflow_ids: Sequence[str]) -> Callable[[], float]:
    """Sets another share of the next workflow at each call, and returns the milliseconds."""
    numbers = count()

    def decide() -> float:
        number = next(numbers)
        place, turn = number % len(workflow_ids), number // len(workflow_ids)
        workflow = allocations.workflow(TENANT, workflow_ids[place])
        began = perf_counter()
        workflow.commit_allocation({CHALLENGER: _SHARES[turn % len(_SHARES)]})
        return (perf_counter() - began) * 1_000

    return decide


@dataclass(frozen=True, slots=True)
class _Deciding:
    """Decides for some seconds."""

    url: str
    workflow_ids: Sequence[str]
    seconds: float

    def __call__(self, wait: Callable[[], object]) -> list[float]:
        """What each decision took, in milliseconds."""
        with open_ledger(self.url) as allocations:
            decide = decider(allocations, self.workflow_ids)
            decide()
            wait()
            ends = perf_counter() + self.seconds
            taken = [decide()]
            while perf_counter() < ends:
                taken.append(decide())
            return taken


@dataclass(frozen=True, slots=True)
class _SpawningFlatOut:
    """Spawns from several threads for some seconds."""

    url: str
    workflow_ids: Sequence[str]
    group: int
    seconds: float

    def __call__(self, wait: Callable[[], object]) -> list[float]:
        """Nothing; another process looks at its clock."""
        with open_ledger(self.url) as allocations, ThreadPoolExecutor(_THREADS) as pool:
            spawn(allocations, requests(self.workflow_ids, self.group))
            wait()
            ends = perf_counter() + self.seconds
            for done in [pool.submit(self._spawn, allocations, ends) for _ in range(_THREADS)]:
                done.result()
            return []

    def _spawn(self, allocations: alloc_es.Allocations, ends: float) -> None:
        while perf_counter() < ends:
            spawn(allocations, requests(self.workflow_ids, self.group))
