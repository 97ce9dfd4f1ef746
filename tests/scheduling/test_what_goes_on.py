"""What a policy has started, and what goes on of it when its answer, or the pass, is over."""

import asyncio
from threading import Event

import pytest

from alloc_es import Allocation
from alloc_es.scheduling import Hold, Proposal, adecide_pass, decide_pass
from tests.scheduling.passes import repeatable, started

SECONDS = 60.0


def test_what_a_policy_gives_to_a_thread_of_its_loop_is_not_waited_for() -> None:
    """Red when the loop of a pass joins its executor's threads."""
    begun, go_on, ended = Event(), Event(), list[bool]()

    def think() -> None:
        begun.set()
        ended.append(go_on.wait(SECONDS))

    async def policy(seen: Allocation) -> Proposal:
        if seen.workflow_id == "1":
            await asyncio.to_thread(think)
            return Hold()
        while not begun.is_set():
            await asyncio.sleep(0)
        raise SystemExit("no evidence")

    with repeatable("memory:") as allocations:
        keys = started(allocations, ["1", "2"])
        with pytest.raises(SystemExit):
            decide_pass(allocations, keys, policy, concurrency=2)
        assert ended == []
    go_on.set()


def test_what_a_policy_started_may_decide_when_the_policy_has_answered() -> None:
    """Red when the context of a policy is forbidden for ever."""

    async def main() -> int:
        answered = asyncio.Event()
        later: list[asyncio.Task[int]] = []
        with repeatable("memory:") as allocations:
            (key,) = started(allocations, ["1"])

            async def decide() -> int:
                await answered.wait()
                workflow = allocations.workflow(*key)
                return (await asyncio.to_thread(workflow.register_challenger, "v2")).generation

            async def policy(_: Allocation) -> Proposal:
                later.append(asyncio.create_task(decide()))
                return Hold()

            await adecide_pass(allocations, [key], policy)
            answered.set()
            return await later[0]

    assert asyncio.run(main()) == 2
