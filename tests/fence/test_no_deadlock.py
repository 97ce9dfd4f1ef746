"""Groups of many workflows and decisions on them never wait for each other in a circle."""

from collections import Counter
from typing import Any

import pytest

from alloc_es import SpawnRequest, WorkflowKey, connect
from alloc_es.commands import RegisterChallenger
from alloc_es.identity import Version
from tests.fence import crush
from tests.fence.crush import CALLERS, TENANT, WORKFLOWS
from tests.fence.holding import held_up, insert, leave_under_way, next_decision, waits_at_fence
from tests.fence.traffic import play, recorded
from tests.support.children import run_together
from tests.support.effort import effort
from tests.support.raw import DECISIONS, Raw, raw

GROUPS = effort(30, soak=200)
DECISIONS_EACH = effort(75, soak=500)
PROCESSES = 2
CHALLENGER = RegisterChallenger(version=Version("v2"), share_bps=500, salt="salt")


def test_groups_of_100_workflows_and_decisions_on_them_never_deadlock(durable_url: str) -> None:
    """Red on PostgreSQL when runs take the decisions' turn while they hold the fence.

    2,800 rounds in 4 processes: two that spawn, on two connections each, and two that
    decide. The store makes nobody try again; PostgreSQL keeps nobody waiting for 5 s.
    """
    with connect(durable_url) as allocations:
        for each in WORKFLOWS:
            allocations.workflow(TENANT, each).start("v1")
    stop = crush.new_stop()
    spawning: list[tuple[Any, ...]] = [
        (crush.spawn, durable_url, stop, f"process-{place}", GROUPS) for place in range(PROCESSES)
    ]
    deciding: list[tuple[Any, ...]] = [
        (crush.decide, durable_url, stop, place, PROCESSES, DECISIONS_EACH)
        for place in range(PROCESSES)
    ]
    outcomes = run_together(play, [*spawning, *deciding])
    assert outcomes[PROCESSES:] == [CALLERS * DECISIONS_EACH] * PROCESSES
    counts: Counter[str] = sum(outcomes[:PROCESSES], Counter())
    callers, by_everybody = PROCESSES * CALLERS, GROUPS * len(WORKFLOWS) // 2
    assert counts["recorded"] == (callers + 1) * by_everybody
    assert counts["known"] == (callers - 1) * by_everybody
    assert counts["rerouted"] > 0


@pytest.mark.postgresql
def test_a_group_waits_for_a_low_stripe_without_holding_a_higher_one(postgres_url: str) -> None:
    """Red on PostgreSQL when the stripes of the fence are taken in any but ascending order.

    A transaction that decides on two workflows, in the order of their stripes, is between
    the two. A group that held the second one's stripe would wait for it in a circle; the
    server would end one of them.
    """
    with (
        connect(postgres_url) as allocations,
        raw(postgres_url) as other,
        raw(postgres_url) as observer,
    ):
        workflows = [allocations.workflow(TENANT, each) for each in extremes(observer)]
        for workflow in workflows:
            workflow.start("v1")
            workflow.spawn_run(f"first of {workflow.key.workflow_id}")
        low, high = (next_decision(each.newest(), CHALLENGER) for each in workflows)
        requests = [SpawnRequest(TENANT, each.key.workflow_id, str(each)) for each in workflows]
        leave_under_way(other, DECISIONS, low)

        def decide_on_the_other_too() -> None:
            insert(other, DECISIONS, high)
            other.execute("COMMIT")

        runs, waited = held_up(
            lambda: recorded(allocations, requests[::-1]),
            lambda: waits_at_fence(observer, "ShareLock"),
            decide_on_the_other_too,
        )
        assert waited
        assert [run.generation for run in runs] == [2, 2]
        counts = allocations.spawn_counts()
        assert (counts.rerouted, counts.retried) == (2, 0)


def extremes(observer: Raw) -> tuple[str, str]:
    """The workflows on the lowest and on the highest stripe of the fence."""
    stripes = {
        each: observer.execute("SELECT hashtext(?) & 63", WorkflowKey.parse(TENANT, each).stream)
        for each in WORKFLOWS
    }
    ordered = sorted(WORKFLOWS, key=lambda each: stripes[each])
    assert stripes[ordered[0]] != stripes[ordered[-1]]
    return ordered[0], ordered[-1]
