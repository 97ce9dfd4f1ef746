"""What each process does that spawns groups of many workflows, or decides on them."""

import random
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import get_context
from typing import Any, TypeVar

from alloc_es import Patience, SpawnRequest, Workflow, connect
from tests.fence.traffic import recorded

T = TypeVar("T")

TENANT = "acme"
WORKFLOWS = [f"workflow-{number}" for number in range(100)]
CALLERS = 2
"""How many threads a process has; each spawning one has a connection of its own."""

# PostgreSQL ends a deadlock after one second. SQLite knows none, and no queue either: who asks
# for its lock at the wrong moments may wait for seconds while others go by.
_TIMEOUTS = {"postgresql": 5.0, "sqlite": 60.0}


def timeout_of(url: str) -> float:
    """Seconds that a call may wait for locks in a store."""
    return _TIMEOUTS[url.partition(":")[0]]


def new_stop() -> Any:
    """What ends the work of all processes when one has failed."""
    return get_context("spawn").Event()


def spawn(barrier: Any, url: str, stop: Any, name: str, groups: int) -> Counter[str]:
    """Record groups of a run of each workflow, each in another order; the sum of the counts.

    Every other run has an id that all processes give it.
    """

    def caller(index: int) -> Counter[str]:
        order = random.Random(index)
        with connect(url, timeout=timeout_of(url), migrate=False) as allocations:
            for number in range(groups):
                if stop.is_set():
                    break
                owners = ("everybody", f"{name}-{index}")
                requests = [
                    SpawnRequest(TENANT, workflow, f"{number}-{place}-{owners[place % 2]}")
                    for place, workflow in enumerate(WORKFLOWS)
                ]
                order.shuffle(requests)
                recorded(allocations, requests)
                require_no_retry(allocations.spawn_counts().retried)
            return Counter(allocations.spawn_counts()._asdict())

    return sum(in_threads(barrier, stop, caller), Counter())


def decide(barrier: Any, url: str, stop: Any, place: int, places: int, decisions: int) -> int:
    """Decide on workflows that nobody else decides on; how often it was done."""

    def caller(index: int) -> int:
        own = WORKFLOWS[place * CALLERS + index :: places * CALLERS]
        workflows = [allocations.workflow(TENANT, each) for each in own]
        done = 0
        while done < decisions and not stop.is_set():
            turn, number = divmod(done, len(workflows))
            done += decide_once(workflows[number], turn)
        return done

    patience = Patience(timeout_of(url), sleep=require_no_retry)
    with connect(url, patience=patience, migrate=False) as allocations:
        return sum(in_threads(barrier, stop, caller))


def decide_once(workflow: Workflow, turn: int) -> bool:
    """Register a challenger or reject it, in turn."""
    tenure, rejecting = divmod(turn, 2)
    if rejecting:
        return workflow.reject_challenger(f"c{tenure}").event is not None
    return workflow.register_challenger(f"c{tenure}").event is not None


def require_no_retry(retries: float) -> None:
    """Fail when the store made somebody try again, which is how a deadlock is survived."""
    if retries:
        raise AssertionError("a call had to be tried again")


def in_threads(barrier: Any, stop: Any, caller: Callable[[int], T]) -> list[T]:
    """Call it in every thread at once; the first that fails stops everybody."""

    def guarded(index: int) -> T:
        try:
            return caller(index)
        except BaseException:
            stop.set()
            raise

    barrier.wait()
    with ThreadPoolExecutor(CALLERS) as pool:
        return list(pool.map(guarded, range(CALLERS)))
