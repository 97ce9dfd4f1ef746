"""A mistake of our own in recording reaches the callers as itself, and ends no writer."""

import asyncio
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from alloc_es import Allocations, RunSpawned, SpawnRequest, StoreUnavailable, Workflow
from tests.groups.conftest import KEYS
from tests.groups.gate import Gate


def test_a_mistake_reaches_every_caller_of_its_group_and_the_writer_goes_on(
    allocations: Allocations, workflow: Workflow, gate: Gate, pool: ThreadPoolExecutor
) -> None:
    """Red when the writer dies of it, calls it an outage, or says nothing."""
    mistake = RuntimeError("a mistake")
    with gate.closed():
        first = pool.submit(workflow.spawn_run, "first")
        gate.await_groups(1)
        calls: list[Future[Any]] = [pool.submit(workflow.spawn_run, f"run-{n}") for n in range(9)]
        task = pool.submit(lambda: asyncio.run(workflow.aspawn_run("task")))
        asked = [SpawnRequest(*KEYS[1], f"list-{n}") for n in range(9)]
        calls += [task, pool.submit(allocations.spawn_runs, asked)]
        gate.await_asked(20)
        gate.let_one_pass()
        gate.await_groups(2)
        gate.fail(mistake)

    assert first.result().replayed is False
    for call in calls:
        with pytest.raises(RuntimeError, match="a mistake"):
            call.result(20)
    assert [each.event.run_id for each in allocations.runs()] == ["first"]
    again = [workflow.spawn_run(f"run-{n}") for n in range(9)]
    assert not any(run.replayed for run in again)
    assert allocations.spawn_counts().retried == 0


def test_an_error_that_waiting_can_not_mend_is_told_at_once(
    allocations: Allocations, workflow: Workflow, gate: Gate
) -> None:
    """Red when what is hopeless is tried until the deadline."""
    gate.fail(StoreUnavailable("the disk is full", retryable=False))
    with pytest.raises(StoreUnavailable, match="the disk is full") as caught:
        workflow.spawn_run("run-1")
    assert not caught.value.retryable
    assert (gate.sizes, allocations.spawn_counts().retried) == ([1], 0)
    assert workflow.spawn_run("run-1").replayed is False


def test_callers_that_share_a_failure_raise_errors_of_their_own(
    workflow: Workflow, gate: Gate, pool: ThreadPoolExecutor
) -> None:
    """One error object in many threads gathers all their tracebacks.

    Red when the error of a group is handed to each of its callers.
    """
    with gate.closed():
        first = pool.submit(workflow.spawn_run, "first")
        gate.await_groups(1)
        calls = [pool.submit(workflow.spawn_run, f"run-{n}") for n in range(9)]
        gate.await_asked(10)
        gate.let_one_pass()
        gate.await_groups(2)
        gate.fail(StoreUnavailable("the disk is full", retryable=False))
    assert isinstance(first.result(), RunSpawned)
    errors = [call.exception() for call in calls]
    assert {str(error) for error in errors} == {"the disk is full"}
    assert len({id(error) for error in errors}) == len(errors)
