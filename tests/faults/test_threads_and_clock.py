"""Many threads on one connection, and a clock that steps back."""

from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from threading import Barrier

import alloc_es
from alloc_es import Allocations, GenerationConflict, Refusal
from tests.faults.commands import KEY, given, history, reject

_THREADS = 16
_ROUNDS = 12


def test_sixteen_threads_on_one_connection_lose_nothing(store_url: str) -> None:
    """On one hot key and on one key each, commands, reads and runs at once.

    Red when `Committer` or an adapter shares what only one thread may use.
    """
    with alloc_es.connect(store_url, timeout=60) as allocations:
        given(allocations, reject)
        barrier = Barrier(_THREADS, timeout=60)

        def work(number: int) -> Counter[str]:
            barrier.wait()
            return use(allocations, number)

        with ThreadPoolExecutor(_THREADS) as pool:
            done = sum(pool.map(work, range(_THREADS)), Counter[str]())

        events = history(allocations)
        assert len(events) == 2 + done["committed"]
        assert len(list(allocations.runs())) == done["spawned"] == _THREADS * _ROUNDS
        assert done["committed"] + done["refused"] == _THREADS * (1 + 3 * _ROUNDS)
        for key in {event.key for event in events}:
            generations = [event.generation for event in events if event.key == key]
            assert generations == list(range(1, len(generations) + 1))
        positions = [recorded.position for recorded in allocations.decisions()]
        assert positions == sorted(set(positions))


def use(allocations: Allocations, number: int) -> Counter[str]:
    """One thread's part: what it did, and how often the rules refused."""
    hot = allocations.workflow(*KEY)
    own = allocations.workflow("acme", f"workflow-{number}")
    done = Counter(committed=1)
    own.start("v1")
    for turn in range(_ROUNDS):
        acts: list[Callable[[], object]] = [
            lambda: own.register_challenger("v2"),
            lambda: own.reject_challenger("v2"),
            lambda turn=turn: hot.commit_allocation({"v2": 1 + number * _ROUNDS + turn}),  # type: ignore[misc]
        ]
        for act in acts:
            try:
                act()
                done["committed"] += 1
            except (Refusal, GenerationConflict):
                done["refused"] += 1
        hot.spawn_run(f"run-{number}-{turn}")
        done["spawned"] += 1
        assert hot.history()[1].generation == 2
    return done


def test_a_clock_that_steps_back_an_hour_changes_no_order(store_url: str) -> None:
    """Time stamps events and orders nothing.

    Red when a recorder, `history` or `list` sorts by time instead of by generation.
    """
    noon = datetime(2026, 3, 29, 12, tzinfo=UTC)
    times = [noon, noon - timedelta(hours=1), noon + timedelta(hours=1), noon - timedelta(days=1)]
    clock = iter(times)
    with alloc_es.connect(store_url, clock=lambda: next(clock)) as allocations:
        workflow = allocations.workflow(*KEY)
        workflow.start("v1")
        workflow.register_challenger("v2")
        workflow.commit_allocation({"v2": 1_000})
        last = workflow.promote_challenger("v2")

        recorded = workflow.history()
        assert [each.time for each in recorded] == times
        assert [each.generation for each in recorded] == [1, 2, 3, 4]
        assert [each.position for each in recorded] == sorted(each.position for each in recorded)
        assert list(allocations.decisions()) == recorded
        assert workflow.allocation() == last.allocation
        assert allocations.list() == [last.allocation]
