"""An answer is given after the commit, never before, to whoever asked in whatever way."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from alloc_es import Allocations, RunSpawned, SpawnRequest, connect
from tests.groups.conftest import KEYS
from tests.groups.gate import Gate, blocked
from tests.support.raw import RUNS, raw

Ask = Callable[[Allocations, str], RunSpawned]


def in_a_thread(allocations: Allocations, run_id: str) -> RunSpawned:
    return allocations.workflow(*KEYS[0]).spawn_run(run_id)


def in_a_task(allocations: Allocations, run_id: str) -> RunSpawned:
    return asyncio.run(allocations.workflow(*KEYS[0]).aspawn_run(run_id))


def in_a_list(allocations: Allocations, run_id: str) -> RunSpawned:
    (outcome,) = allocations.spawn_runs([SpawnRequest(*KEYS[0], run_id)])
    assert isinstance(outcome, RunSpawned)
    return outcome


WAYS = (in_a_thread, in_a_task, in_a_list)


@pytest.mark.parametrize("cached", [False, True], ids=["unread", "kept"])
def test_nobody_is_answered_while_the_commit_is_held_up(
    cached: bool, durable: Allocations, durable_url: str, pool: ThreadPoolExecutor
) -> None:
    """Red when callers are answered before the commit."""
    if cached:
        durable.workflow(*KEYS[0]).peek("unit")
    gate = Gate(durable)
    with raw(durable_url) as database, blocked(durable_url, durable):
        calls = [pool.submit(way, durable, f"run-{n}") for n, way in enumerate(WAYS * 5)]
        gate.await_asked(15)
        gate.await_groups(1)
        for _ in range(200):
            assert database.rows(RUNS) == []
            assert not any(call.done() for call in calls)

    assert [call.result().run_id for call in calls] == [f"run-{n}" for n in range(15)]


def test_a_run_can_be_read_by_others_at_the_moment_of_its_answer(
    durable: Allocations, durable_url: str, pool: ThreadPoolExecutor
) -> None:
    """Red when callers are answered before the commit."""
    with connect(durable_url, timeout=60) as other:
        workflow = other.workflow(*KEYS[0])

        def ask_and_look(number: int) -> tuple[RunSpawned, RunSpawned | None]:
            run = WAYS[number % len(WAYS)](durable, f"run-{number}")
            return run, workflow.find_run(run.run_id)

        for run, found in pool.map(ask_and_look, range(150)):
            assert found == run.model_copy(update={"replayed": True})
