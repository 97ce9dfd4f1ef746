"""Closing records what waits and answers it; what comes later is refused in words."""

import asyncio
import gc
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Barrier, Thread
from typing import Any

import pytest

from alloc_es import (
    AllocationError,
    Allocations,
    RunSpawned,
    SpawnRequest,
    StoreUnavailable,
    Workflow,
    connect,
)
from tests.groups.conftest import KEYS, start_all
from tests.groups.gate import Gate, blocked

_LIST = [SpawnRequest(*KEYS[1], f"list-{n}") for n in range(50)]


def writers() -> set[Thread]:
    """The threads that record groups, of all connections."""
    return {each for each in threading.enumerate() if each.name == "alloc-es group writer"}


def ask_all(allocations: Allocations, gate: Gate, pool: ThreadPoolExecutor) -> list[Future[Any]]:
    """Callers of every kind; the group of the first is at the closed gate, others wait."""
    workflow = allocations.workflow(*KEYS[0])
    workflow.peek("unit")
    first = pool.submit(workflow.spawn_run, "first")
    gate.await_groups(1)
    calls = [pool.submit(workflow.spawn_run, f"thread-{n}") for n in range(9)]
    task = pool.submit(lambda: asyncio.run(workflow.aspawn_run("task")))
    several = pool.submit(allocations.spawn_runs, _LIST)
    gate.await_asked(1 + 9 + 1 + len(_LIST))
    return [first, *calls, task, several]


def answers(calls: list[Future[Any]]) -> list[str]:
    """The ids of the runs that callers were told to be recorded; raises what one was told else."""
    *single, several = [call.result() for call in calls]
    runs = [*single, *several]
    assert all(isinstance(run, RunSpawned) and not run.replayed for run in runs), runs
    return [run.run_id for run in runs]


IDS = ["first", *(f"thread-{n}" for n in range(9)), "task", *(each.run_id for each in _LIST)]


@pytest.mark.parametrize("closers", [1, 3])
def test_callers_in_flight_get_their_runs_and_later_ones_are_refused(
    closers: int,
    durable_url: str,
    pool: ThreadPoolExecutor,
) -> None:
    """Red when `close` does not wait for the line, or waits in the first of its callers only."""
    allocations = connect(durable_url, timeout=60)
    start_all(allocations)
    workflow = allocations.workflow(*KEYS[0])
    gate = Gate(allocations)
    together = Barrier(closers, timeout=60)
    refused: list[AllocationError] = []

    def close() -> None:
        together.wait()
        allocations.close()

    with gate.closed():
        calls = ask_all(allocations, gate, pool)
        closing = [pool.submit(close) for _ in range(closers)]
        while not refused:
            try:
                workflow.allocation()
            except StoreUnavailable as error:
                refused.append(error)
        for call in late_calls(allocations, workflow):
            with pytest.raises(StoreUnavailable, match="was closed") as caught:
                call()
            assert not caught.value.retryable
        assert not any(each.done() for each in closing)

    for each in closing:
        each.result()
    assert answers(calls) == IDS
    allocations.close()
    with connect(durable_url) as reopened:
        assert sorted(each.event.run_id for each in reopened.runs()) == sorted(IDS)


def late_calls(allocations: Allocations, workflow: Workflow) -> list[Callable[[], object]]:
    """Every way to spawn a run."""
    return [
        lambda: workflow.spawn_run("late"),
        lambda: asyncio.run(workflow.aspawn_run("late")),
        lambda: allocations.spawn_runs([SpawnRequest(*KEYS[0], "late")]),
    ]


def test_a_loop_that_closes_its_connection_under_its_tasks_answers_them(durable_url: str) -> None:
    """Red when `close` drops what waits."""

    async def main() -> list[RunSpawned]:
        allocations = connect(durable_url, timeout=60)
        start_all(allocations)
        workflow = allocations.workflow(*KEYS[0])
        calls = [asyncio.create_task(workflow.aspawn_run(f"run-{n}")) for n in range(200)]
        await asyncio.sleep(0)
        allocations.close()
        return list(await asyncio.gather(*calls))

    runs = asyncio.run(main())

    with connect(durable_url) as reopened:
        recorded = {str(each.event.run_id): each.event for each in reopened.runs()}
    assert [recorded[f"run-{n}"] for n in range(200)] == runs


def test_a_store_that_stays_blocked_holds_up_no_close_for_ever(
    durable_url: str, pool: ThreadPoolExecutor
) -> None:
    """A caller would wait for a minute, and is told at the close that it was in vain.

    Red when the line is tried again after the connection was closed.
    """
    with connect(durable_url) as early:
        start_all(early)
    allocations = connect(durable_url, timeout=0.5)
    workflow = allocations.workflow(*KEYS[0])
    workflow.peek("unit")
    gate = Gate(allocations)
    with blocked(durable_url, allocations):
        call = pool.submit(workflow.spawn_run, "run-1", timeout=60)
        gate.await_groups(1)
        allocations.close()
        with pytest.raises(AllocationError):
            call.result(20)


def test_a_connection_that_nobody_holds_any_more_ends_its_writer(store_url: str) -> None:
    """Red when the writer's thread keeps alive what was dropped."""
    before = writers()
    allocations = connect(store_url)
    start_all(allocations)
    allocations.workflow(*KEYS[0]).spawn_run("run-1")
    (thread,) = writers() - before
    store = allocations._store
    del allocations

    gc.collect()

    thread.join(20)
    assert not thread.is_alive()
    store.close()


def test_a_connection_that_spawned_nothing_has_no_writer(store_url: str) -> None:
    """Red when the writer is started before there is anything to record."""
    before = writers()
    with connect(store_url) as allocations:
        start_all(allocations)
        allocations.workflow(*KEYS[0]).peek("unit")
        assert writers() <= before
    with pytest.raises(StoreUnavailable, match="was closed"):
        allocations.workflow(*KEYS[0]).spawn_run("run-1")
    assert writers() <= before
