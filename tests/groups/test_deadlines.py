"""Each call has a deadline of its own, and learns at it what can be known."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from alloc_es import (
    AllocationError,
    Allocations,
    InvalidSetting,
    OutcomeUnknown,
    RunSpawned,
    SpawnRequest,
    StoreUnavailable,
    Workflow,
)
from tests.groups.conftest import KEYS
from tests.groups.gate import Gate, blocked

SOON = 0.2

WITHIN = 20.0
"""Seconds after which a call that should have ended long ago is seen to hang."""

Spawn = Callable[[Workflow, str, float], RunSpawned]


def in_a_thread(workflow: Workflow, run_id: str, timeout: float) -> RunSpawned:
    return workflow.spawn_run(run_id, timeout=timeout)


def in_a_task(workflow: Workflow, run_id: str, timeout: float) -> RunSpawned:
    return asyncio.run(workflow.aspawn_run(run_id, timeout=timeout))


either_way = pytest.mark.parametrize("spawn", [in_a_thread, in_a_task])


@either_way
def test_a_run_whose_turn_did_not_come_in_time_was_not_recorded_and_is_told_so(
    spawn: Spawn,
    store_url: str,
    allocations: Allocations,
    workflow: Workflow,
    gate: Gate,
    pool: ThreadPoolExecutor,
) -> None:
    """Red when a deadline is not kept, or what nobody waits for is recorded all the same."""
    workflow.peek("unit")
    with blocked(store_url, allocations):
        patient = pool.submit(workflow.spawn_run, "patient")
        gate.await_groups(1)
        with pytest.raises(StoreUnavailable) as caught:
            pool.submit(spawn, workflow, "hasty", SOON).result(WITHIN)
        assert type(caught.value) is StoreUnavailable
        assert caught.value.retryable
        assert not patient.done()

    assert patient.result().replayed is False
    assert workflow.spawn_run("last").replayed is False
    assert [each.event.run_id for each in allocations.runs()] == ["patient", "last"]


@either_way
def test_a_run_that_is_under_way_at_its_deadline_is_unknown_and_settled_by_asking_again(
    spawn: Spawn,
    store_url: str,
    allocations: Allocations,
    workflow: Workflow,
    gate: Gate,
    pool: ThreadPoolExecutor,
) -> None:
    """Red when what is under way is said not to be recorded, or waited for without end."""
    workflow.peek("unit")
    with blocked(store_url, allocations):
        with pytest.raises(OutcomeUnknown) as caught:
            pool.submit(spawn, workflow, "hasty", SOON).result(WITHIN)
        assert gate.sizes == [1]
        assert (caught.value.key, caught.value.run_id) == (workflow.key, "hasty")
        assert caught.value.command_id is None

    again = workflow.spawn_run("hasty")

    assert again.replayed is True
    assert [each.event.run_id for each in allocations.runs()] == ["hasty"]


def test_the_deadline_of_one_caller_ends_no_neighbours_wait(
    allocations: Allocations, workflow: Workflow, gate: Gate, pool: ThreadPoolExecutor
) -> None:
    """They are in one group, whose first attempt is lost behind that deadline.

    Red when a group is given up with the first of its callers.
    """
    workflow.peek("unit")
    with gate.closed():
        first = pool.submit(workflow.spawn_run, "first")
        gate.await_groups(1)
        hasty = pool.submit(workflow.spawn_run, "hasty", timeout=1)
        patient = pool.submit(workflow.spawn_run, "patient")
        tasks = pool.submit(in_a_task, workflow, "task", 60)
        asked = [SpawnRequest(*KEYS[1], f"run-{n}") for n in range(9)]
        many = pool.submit(allocations.spawn_runs, asked)
        gate.await_asked(13)
        gate.let_one_pass()
        gate.await_groups(2)
        with pytest.raises(OutcomeUnknown):
            hasty.result(WITHIN)
        assert not any(call.done() for call in (patient, tasks, many))
        gate.lose("request")

    assert gate.sizes[:2] == [1, 12]
    assert first.result().run_id == "first"
    assert (patient.result().replayed, tasks.result().replayed) == (False, False)
    assert all(isinstance(outcome, RunSpawned) for outcome in many.result())
    assert gate.sizes == [1, 12, 11]
    assert workflow.spawn_run("hasty").replayed is False


def test_a_list_whose_deadline_passes_has_an_error_for_each_run(
    store_url: str, allocations: Allocations, workflow: Workflow, gate: Gate
) -> None:
    """The first thousand is under way then, the second waits its turn no more than that.

    Red when `spawn_runs` raises for the whole list.
    """
    workflow.peek("unit")
    asked = [SpawnRequest(*KEYS[0], f"run-{n}") for n in range(1_500)]
    with blocked(store_url, allocations):
        outcomes = allocations.spawn_runs(asked, timeout=SOON)
        assert gate.sizes == [1_000]
    assert [type(each) for each in outcomes] == [OutcomeUnknown] * 1_000 + [StoreUnavailable] * 500
    unknown = [each.run_id for each in outcomes if isinstance(each, OutcomeUnknown)]
    assert unknown == [each.run_id for each in asked[:1_000]]

    again = allocations.spawn_runs(asked)

    assert [getattr(each, "replayed", each) for each in again] == [True] * 1_000 + [False] * 500


BAD: list[Any] = [0, -1, 0.0, float("nan"), float("inf"), 86_401, "1", b"1", True, [1], 10**400]

CALLS: dict[str, Callable[[Allocations, Any], object]] = {
    "spawn_run": lambda each, bad: each.workflow(*KEYS[0]).spawn_run("run", timeout=bad),
    "aspawn_run": lambda each, bad: asyncio.run(
        each.workflow(*KEYS[0]).aspawn_run("run", timeout=bad)
    ),
    "spawn_runs": lambda each, bad: each.spawn_runs([SpawnRequest(*KEYS[0], "run")], timeout=bad),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
@pytest.mark.parametrize("bad", BAD, ids=lambda bad: f"{type(bad).__name__} {str(bad)[:9]}")
def test_a_timeout_that_is_none_is_refused_before_anything_is_recorded(
    bad: Any, call: Callable[[Allocations, Any], object], allocations: Allocations
) -> None:
    """Red when timeouts are handed on unread."""
    with pytest.raises(InvalidSetting) as caught:
        call(allocations, bad)
    assert caught.value.setting == "timeout"
    assert isinstance(caught.value, AllocationError)
    assert list(allocations.runs()) == []
