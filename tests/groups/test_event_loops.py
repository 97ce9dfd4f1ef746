"""Tasks spawn runs while their event loop goes on, whatever the store does."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

from alloc_es import Allocations, RunSpawned, Workflow
from tests.groups.conftest import KEYS
from tests.groups.gate import Gate, blocked

_TICKS = 2_000


async def until_held(gate: Gate, groups: int) -> None:
    """Let the loop go round until so many groups have come to the gate."""
    while len(gate.groups) < groups:
        await asyncio.sleep(0)


@pytest.mark.parametrize("cached", [False, True], ids=["unread", "kept"])
def test_a_loop_goes_on_while_the_store_is_blocked(
    cached: bool, store_url: str, allocations: Allocations, gate: Gate
) -> None:
    """Red when `aspawn` waits, reads or records in the loop's own thread."""
    workflow = allocations.workflow(*KEYS[0])
    if cached:
        workflow.spawn_run("before")
    groups = len(gate.groups)

    async def main() -> list[RunSpawned]:
        with blocked(store_url, allocations):
            calls = [
                asyncio.create_task(workflow.aspawn_run(f"run-{n}", timeout=5)) for n in range(9)
            ]
            if cached or store_url != "memory:":
                await until_held(gate, groups + 1)
            for _ in range(_TICKS):
                await asyncio.sleep(0)
            assert not any(call.done() for call in calls)
        return list(await asyncio.gather(*calls))

    runs = asyncio.run(main())

    assert [run.run_id for run in runs] == [f"run-{n}" for n in range(9)]
    assert {run.replayed for run in runs} == {False}
    assert len(gate.groups) - groups <= 2


def test_a_cancelled_task_leaves_its_neighbours_alone(workflow: Workflow, gate: Gate) -> None:
    """One is cancelled in the line, one in the group that is under way.

    Red when a cancelled task takes its group with it, or stays in the line.
    """

    async def main() -> list[RunSpawned | BaseException]:
        with gate.closed():
            taken = [asyncio.create_task(workflow.aspawn_run("taken-0"))]
            await until_held(gate, 1)
            line = [asyncio.create_task(workflow.aspawn_run(f"line-{n}")) for n in range(3)]
            await asyncio.sleep(0)
            for call in (taken[0], line[1]):
                call.cancel()
            cancelled = await asyncio.gather(taken[0], line[1], return_exceptions=True)
            assert [type(each) for each in cancelled] == [asyncio.CancelledError] * 2
            assert not any(call.done() for call in (line[0], line[2]))
        return list(await asyncio.gather(line[0], line[2]))

    runs = asyncio.run(main())

    assert [getattr(run, "run_id", run) for run in runs] == ["line-0", "line-2"]
    assert workflow.find_run("line-1") is None
    assert workflow.spawn_run("line-1").replayed is False
    # It was under way; asking again settles what became of it.
    assert workflow.spawn_run("taken-0").replayed is True


def test_several_loops_share_a_connection_and_its_groups(
    allocations: Allocations, gate: Gate, pool: ThreadPoolExecutor
) -> None:
    """Red when an answer reaches one loop only, or is given outside of the loop's thread."""
    loops, tasks = 4, 50
    together = Barrier(loops, timeout=60)

    def in_a_loop(number: int) -> list[RunSpawned]:
        async def main() -> list[RunSpawned]:
            workflow = allocations.workflow(*KEYS[number % len(KEYS)])
            return list(
                await asyncio.gather(
                    *(workflow.aspawn_run(f"run-{number}-{n}") for n in range(tasks))
                )
            )

        together.wait()
        return asyncio.run(main(), debug=True)

    with gate.closed():
        plain = pool.submit(allocations.workflow(*KEYS[0]).spawn_run, "from a thread")
        gate.await_groups(1)
        calls = [pool.submit(in_a_loop, number) for number in range(loops)]
        gate.await_asked(loops * tasks + 1)
    for number, call in enumerate(calls):
        runs = [run.run_id for run in call.result()]
        assert runs == [f"run-{number}-{n}" for n in range(tasks)]
    assert plain.result().run_id == "from a thread"
    assert gate.sizes == [1, loops * tasks]


def test_a_loop_that_ended_in_mid_group_holds_up_nobody(
    workflow: Workflow, gate: Gate, pool: ThreadPoolExecutor
) -> None:
    """Red when the writer dies of the answer that nobody is there to take."""

    async def main() -> None:
        asyncio.create_task(workflow.aspawn_run("abandoned"))  # noqa: RUF006 - on purpose
        await until_held(gate, 1)

    with gate.closed():
        asyncio.run(main())
        behind = pool.submit(workflow.spawn_run, "behind")
        gate.await_asked(2)

    assert behind.result().run_id == "behind"
    assert workflow.spawn_run("abandoned").replayed is True
    assert workflow.spawn_run("afterwards").replayed is False
