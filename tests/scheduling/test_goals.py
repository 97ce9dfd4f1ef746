"""Which workflows run depends on the goals and the order given, never on the concurrency."""

from collections.abc import Callable
from typing import Any

import pytest

from alloc_es import Allocation
from alloc_es.scheduling import Goal, PassReport, PassResult, Proposal, Register, decide_pass
from tests.scheduling.passes import Conductor, outcomes, plain, repeatable, started, told

NAMES = [str(number) for number in range(20)]
SIZES = (1, 2, 3, 8)


def is_decided(result: PassResult) -> bool:
    return result.outcome == "decided"


def is_failed(result: PassResult) -> bool:
    return result.outcome == "failed"


def passed(size: int, policy: Callable[[Allocation], Proposal] = plain, **goals: Any) -> PassReport:
    with repeatable("memory:") as allocations:
        keys = started(allocations, NAMES)
        return decide_pass(allocations, keys, policy, concurrency=size, **goals)


def ran(report: PassReport) -> list[str]:
    return [
        result.key.workflow_id
        for result in report.results
        if result.outcome not in ("skipped", "not run")
    ]


def is_known(state: Allocation) -> bool:
    return int(state.workflow_id) % 3 == 0


@pytest.mark.parametrize("reached", [None, is_known])
@pytest.mark.parametrize("counts", [is_decided, is_failed])
@pytest.mark.parametrize("count", [1, 4])
def test_a_hard_goal_is_reached_exactly_and_after_the_same_workflows(
    count: int, counts: Callable[[PassResult], bool], reached: Any
) -> None:
    """Red when a wave is larger than what is missing."""
    goal = Goal(count, counts)
    alone = passed(1, goal=goal, reached=reached)
    assert alone.goal_reached
    assert counts(alone.results[int(ran(alone)[-1])])
    for size in SIZES:
        report = passed(size, goal=goal, reached=reached)
        assert sum(map(counts, report.results)) == count
        assert report.results == alone.results


@pytest.mark.parametrize("reached", [None, is_known])
@pytest.mark.parametrize(("every", "end"), [(1, 10), (4, 12), (5, 10), (100, 20)])
def test_a_soft_goal_is_looked_at_between_so_many_workflows_and_may_be_passed(
    every: int, end: int, reached: Any
) -> None:
    """Red when a goal is looked at in mid-wave, or a wave reaches over where it is looked at."""
    wanted = {None: 4, is_known: 2}[reached]
    goal = Goal(wanted, is_decided, hard=False, every=every)
    alone = passed(1, goal=goal, reached=reached)
    for size in SIZES:
        report = passed(size, goal=goal, reached=reached)
        assert report.goal_reached
        assert report.results == alone.results
        if reached is None:
            assert ran(report) == NAMES[:end]


def test_a_soft_goal_leaves_waves_full_and_a_wave_comes_to_its_end() -> None:
    """Red when a wave ends where the goal is reached."""
    goal = Goal(1, is_decided, hard=False, every=8)
    conductor = Conductor(NAMES[:8], 8, 3, plain)
    report = passed(8, conductor, goal=goal)
    assert (conductor.most, report.waves, len(ran(report))) == (8, 1, 8)
    assert report.counts["decided"] == 2


def test_a_goal_out_of_reach_ends_no_pass() -> None:
    report = passed(3, goal=Goal(100, is_decided))
    assert (report.goal_reached, ran(report)) == (False, NAMES)


def test_a_goal_is_asked_once_about_each_result_that_ran_in_order() -> None:
    """Red when a goal counts what was skipped, or counts twice."""
    asked: list[str] = []

    def counts(result: PassResult) -> bool:
        asked.append(result.key.workflow_id)
        return False

    passed(4, goal=Goal(1, counts), reached=is_known)
    assert asked == [name for name in NAMES if int(name) % 3]


@pytest.mark.parametrize("size", SIZES)
def test_a_workflow_that_has_reached_its_own_goal_is_skipped(size: int) -> None:
    """Red when one that is skipped takes a place in its wave, or is asked about."""
    inside = [name for name in NAMES if int(name) % 3]
    conductor = Conductor(inside, size, 5, plain)
    report = passed(size, conductor, reached=is_known)
    assert [result.key.workflow_id for result in report.results if result.asked] == inside
    assert (conductor.most, sorted(conductor.finished)) == (size, sorted(inside))
    assert report.waves == -(-len(inside) // size)
    skipped = [r for r in report.results if r.outcome == "skipped"]
    assert [(r.proposal, r.seen, r.generation) for r in skipped] == [(None, None, 1)] * 7


def test_a_goal_is_looked_at_on_the_snapshot_of_the_wave() -> None:
    """Red when `reached` is asked once for the whole pass, before its first wave."""

    def taken(state: Allocation) -> bool:
        return state.workflow_id == "1" and state.challenger is not None

    with repeatable("memory:") as allocations:
        keys = started(allocations, ["0", "1", "2"])
        for size, expected in ((3, ["decided"] * 3), (1, ["failed", "skipped", "failed"])):
            report = decide_pass(
                allocations, keys, lambda _: Register("v2"), concurrency=size, reached=taken
            )
            assert outcomes(report) == expected
        assert told(allocations, 3) == [(name, "registered v2") for name in ("0", "1", "2")]
