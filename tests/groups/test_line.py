"""The line in front of the writer: as long as there are callers, and no longer."""

import asyncio
import gc
from concurrent.futures import ThreadPoolExecutor

import pytest

from alloc_es import Allocations, SpawnRequest, Workflow, spawning
from alloc_es.grouping import MAX_PREPARED, Batch
from tests.groups.conftest import KEYS
from tests.groups.gate import Gate, blocked

_LENGTH = 300
_LISTS = 20


def test_more_runs_than_are_prepared_wait_for_a_blocked_store_and_all_are_recorded(
    store_url: str,
    allocations: Allocations,
    workflow: Workflow,
    gate: Gate,
    pool: ThreadPoolExecutor,
) -> None:
    """Red when runs behind the prepared ones are lost, refused or recorded twice."""
    workflow.peek("unit")
    lists = [
        [SpawnRequest(*KEYS[(n + number) % 3], f"run-{number}-{n}") for n in range(_LENGTH)]
        for number in range(_LISTS)
    ]
    assert _LENGTH * _LISTS > MAX_PREPARED + 1_000
    with blocked(store_url, allocations):
        first = pool.submit(workflow.spawn_run, "first")
        gate.await_groups(1)
        calls = [pool.submit(allocations.spawn_runs, each) for each in lists]
        gate.await_asked(1 + _LENGTH * _LISTS)
        assert not any(call.done() for call in calls)

    assert first.result().replayed is False
    for call, asked in zip(calls, lists, strict=True):
        outcomes = call.result()
        assert [getattr(run, "run_id", run) for run in outcomes] == [each.run_id for each in asked]
        assert not any(getattr(run, "replayed", run) for run in outcomes)
    assert max(gate.sizes) <= 1_000
    assert allocations.spawn_counts().recorded == 1 + _LENGTH * _LISTS
    assert len(list(allocations.runs())) == 1 + _LENGTH * _LISTS


def test_who_has_gone_leaves_nothing_in_the_line(workflow: Workflow, gate: Gate) -> None:
    """However long the store is blocked, memory is bounded by the callers that wait.

    Red when a run that was given up stays in the line until its turn comes.
    """

    async def main() -> int:
        with gate.closed():
            first = asyncio.create_task(workflow.aspawn_run("first"))
            while not gate.groups:
                await asyncio.sleep(0)
            for turn in range(8):
                tasks = [workflow.aspawn_run(f"run-{turn}-{n}") for n in range(1_000)]
                calls = [asyncio.create_task(task) for task in tasks]
                await asyncio.sleep(0)
                for call in calls:
                    call.cancel()
                await asyncio.gather(*calls, return_exceptions=True)
            held = _batches()
        await first
        return held

    before = _batches()
    assert asyncio.run(main()) - before < 3_000
    assert workflow.spawn_run("afterwards").replayed is False
    assert workflow.find_run("run-0-0") is None


class Interrupted(BaseException):
    """What a handler of a signal raises, as Python's own does for Ctrl-C."""


class Broken:
    """A lock at which the wait is broken off."""

    def acquire(self, timeout: float) -> bool:
        raise Interrupted(timeout)

    def release(self) -> None:
        """Nobody waits."""


def test_a_caller_that_is_interrupted_leaves_the_line(
    workflow: Workflow, gate: Gate, pool: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Red when a run is recorded though its call was broken off before its turn."""
    with gate.closed():
        first = pool.submit(workflow.spawn_run, "first")
        gate.await_groups(1)
        with monkeypatch.context() as patched:
            patched.setattr(spawning, "taken_lock", Broken)
            with pytest.raises(Interrupted):
                workflow.spawn_run("interrupted")
        assert gate.asked == 2
    assert first.result().replayed is False
    assert workflow.find_run("interrupted") is None
    assert workflow.spawn_run("interrupted").replayed is False


def _batches() -> int:
    """How many batches there are in this process."""
    gc.collect()
    return sum(isinstance(each, Batch) for each in gc.get_objects())
