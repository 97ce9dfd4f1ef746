"""Where another scheduler was faster, the policy is asked again on what that one decided."""

from functools import partial
from threading import Barrier
from typing import Any

import pytest

from alloc_es import Allocation, Allocations, GenerationConflict
from alloc_es.scheduling import (
    Hold,
    PassReport,
    Promote,
    Proposal,
    Register,
    Reshare,
    decide_pass,
)
from tests.scheduling.passes import PATIENCE_SECONDS, log, outcomes, repeatable, started
from tests.support.overlap import in_threads

NAMES = ["1", "2", "3"]


class Rival:
    """Another scheduler, with a connection of its own, that decides while a policy thinks.

    `beats` says how often it comes first, each time with another share of v7.
    """

    def __init__(self, allocations: Allocations, beats: int) -> None:
        self._allocations = allocations
        self._left = beats

    def act(self, state: Allocation) -> None:
        if state.workflow_id != "2" or not self._left:
            return
        self._left -= 1
        workflow = self._allocations.workflow(*state.key)
        if state.challenger is None:
            workflow.register_challenger("v7", reason="first")
        else:
            workflow.commit_allocation({"v7": 500 + state.generation})


def beside(url: str, beats: int, **more: Any) -> tuple[PassReport, list[Any], list[int]]:
    """A pass whose second workflow has a rival: its report, the log, and what was seen."""
    seen: list[int] = []
    with repeatable(url) as allocations, repeatable(url, "rival") as others:
        keys = started(allocations, NAMES)
        rival = Rival(others, beats)

        def policy(state: Allocation) -> Proposal:
            if state.workflow_id == "2":
                seen.append(state.generation)
            # In a thread that knows nothing of the pass, as another process does.
            assert in_threads(lambda: rival.act(state)) == [None]
            return Promote("v7") if state.challenger else Register("v2")

        report = decide_pass(allocations, keys, policy, concurrency=3, **more)
        return report, log(allocations, len(NAMES)), seen


def test_the_policy_is_asked_again_on_the_state_that_the_winner_left(durable_url: str) -> None:
    """Red when a proposal is committed on another generation than it is based on."""
    report, events, seen = beside(durable_url, 1)
    result = report.results[1]
    assert [(event.key.workflow_id, event.actor, event.summary) for event in events] == [
        ("2", "rival", "registered v7"),
        ("1", "scheduler", "registered v2"),
        ("2", "scheduler", "promoted v7"),
        ("3", "scheduler", "registered v2"),
    ]
    assert seen == [1, 2]
    assert (result.outcome, result.proposal, result.asked) == ("decided", Promote("v7"), 2)
    assert (result.seen, result.generation, result.event) == (2, 3, events[2])
    assert result.lost_to == (events[0],)


def test_a_workflow_that_keeps_losing_fails_after_so_many_asks(durable_url: str) -> None:
    """Red when `max_asks` counts conflicts, or a rival can hold a pass up for ever."""
    report, events, seen = beside(durable_url, 100, max_asks=3)
    result = report.results[1]
    assert outcomes(report) == ["decided", "failed", "decided"]
    assert (seen, result.asked, result.seen, result.generation) == ([1, 2, 3], 3, 3, 4)
    assert result.lost_to == tuple(event for event in events if event.actor == "rival")
    assert len(result.lost_to) == 3
    failure = result.failure
    assert failure
    assert isinstance(failure.error, GenerationConflict)
    assert failure.error.winner == result.lost_to[-1]


@pytest.mark.parametrize("second", [Hold("they have it"), Promote("v9"), None])
def test_what_is_said_when_asked_again_counts(durable_url: str, second: Any) -> None:
    """Red when the first answer is committed after all."""
    with repeatable(durable_url) as allocations, repeatable(durable_url, "rival") as others:
        keys = started(allocations, NAMES)
        rival = Rival(others, 1)

        def policy(state: Allocation) -> Any:
            in_threads(lambda: rival.act(state))
            return second if state.challenger else Register("v2")

        result = decide_pass(allocations, keys, policy, concurrency=3).results[1]
        assert allocations.workflow(*keys[1]).allocation().generation == 2
    assert result.outcome == ("held" if isinstance(second, Hold) else "failed")
    assert (result.asked, result.seen, result.generation) == (2, 2, 2)
    assert len(result.lost_to) == 1


def test_two_passes_at_once_lose_and_double_nothing(postgres_url: str) -> None:
    """Red when a pass commits without saying which generation it saw.

    Both were asked about every workflow before either committed anything.
    """
    names = [str(number) for number in range(12)]
    met = Barrier(2 * len(names), timeout=PATIENCE_SECONDS)

    def raise_share(state: Allocation) -> Proposal:
        if state.generation == 2:
            met.wait()
        return Reshare({"v2": state.challenger_arms[0].share_bps + 100})

    with repeatable(postgres_url, "a") as first, repeatable(postgres_url, "b") as second:
        keys = started(first, names)
        for key in keys:
            first.workflow(*key).register_challenger("v2", 100)
        passes = in_threads(
            *(
                partial(decide_pass, each, keys, raise_share, concurrency=len(names))
                for each in (first, second)
            )
        )
        reports = [report for report in passes if isinstance(report, PassReport)]
        shares = [allocation.challenger_arms[0].share_bps for allocation in first.list()]
    assert [outcomes(report) for report in reports] == [["decided"] * len(names)] * 2
    assert shares == [300] * len(names)
    lost = sum(len(result.lost_to) for report in reports for result in report.results)
    assert lost == len(names)
