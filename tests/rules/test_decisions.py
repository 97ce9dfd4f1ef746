"""Each rule of the decision log finds the one thing that was planted for it, and nothing else."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from alloc_es.rules import Finding, Timeline, decision_findings
from tests.rules.given import (
    KEY,
    Decisions,
    commit,
    decided,
    edited,
    promote,
    rechained,
    register,
    reject,
    rewritten,
    roll_back,
)

LAST = -1


def findings(decisions: Decisions) -> list[Finding]:
    """What the rules find though every digest fits; see test_chain.py for those that do not."""
    return list(decision_findings(rechained(decisions), Timeline()))


def require_one(decisions: Decisions, rule: str, problem: str) -> Finding:
    """It is the only finding, and it says where the event lies and whose it is."""
    (finding,) = findings(decisions)
    assert (finding.rule, finding.problem) == (rule, problem)
    (wrong,) = [each for each in decisions if each.position == finding.position][-1:]
    assert (finding.log, finding.generation) == ("decisions", wrong.generation)
    assert (finding.tenant_id, finding.workflow_id) == KEY
    assert (finding.command_id, finding.run_id) == (wrong.event.command_id, None)
    return finding


def test_a_log_of_every_kind_of_decision_has_no_finding() -> None:
    """Red when a rule finds fault with what is right."""
    decisions = decided(
        register("v2"),
        register("v3"),
        commit(v3=2_000, v2=1_000),
        reject("v2", "v4"),
        promote("v3"),
        reject("v4"),
        roll_back(),
        register("v2"),
        promote("v2"),
        roll_back(to_generation=1),
    )
    assert len(decisions) == 12
    assert findings(decisions) == []


def test_a_limit_that_was_lowered_takes_no_challenger_out() -> None:
    """Red when `challengers` compares with the limit alone."""
    decisions = decided(register("v2"), register("v3"), commit(v3=9), reject("v3"))
    assert findings(edited(decisions, LAST, max_challengers=1)) == []
    assert findings(edited(decisions, LAST - 1, max_challengers=1)) == []


@pytest.mark.parametrize("generation", [1, 2, 4])
def test_a_generation_that_does_not_follow_is_found(generation: int) -> None:
    """Red when `Order` lets generations fall, stand still, or leave one out."""
    decisions = edited(decided(register("v2"), commit(v2=9)), LAST, generation=generation)
    require_one(decisions, "order", "it follows generation 2")


def test_a_log_that_does_not_begin_with_the_first_generation_is_found() -> None:
    """Red when `Order` takes the first generation that it sees for the first there was."""
    require_one(decided(register("v2"))[2:], "order", "it follows generation 0")


def test_a_decision_that_was_removed_is_found_at_the_next() -> None:
    """Red when `Order` compares positions only, which may have gaps."""
    decisions = decided(register("v2"), commit(v2=600), commit(v2=700))
    del decisions[3]
    require_one(decisions, "order", "it follows generation 2")


@pytest.mark.parametrize("position", [2, 1])
def test_a_position_that_does_not_rise_is_found(position: int) -> None:
    """Red when two events may have one position."""
    decisions = decided(register("v2"))
    decisions[LAST] = replace(decisions[LAST], position=position)
    (finding,) = findings(decisions)
    assert (finding.rule, finding.problem) == ("order", "it lies behind position 2")


def test_a_command_id_that_made_two_decisions_is_found() -> None:
    """Red when `Order` forgets the command ids."""
    decisions = decided(register("v2"), commit(v2=9))
    again = edited(decisions, LAST, command_id=decisions[1].event.command_id)
    require_one(again, "order", "its command id made generation 1")
    assert findings(edited(decisions, LAST, command_id=decisions[0].event.command_id)) == []


def with_slots(decisions: Decisions, *slots: Any) -> Decisions:
    """The arms of the last decision with other slots."""
    arms = decisions[LAST].event.allocation.arms
    changed = [
        arm.model_copy(update={"slots": each}) for arm, each in zip(arms, slots, strict=True)
    ]
    return edited(decisions, LAST, arms=tuple(changed))


@pytest.mark.parametrize(
    ("control", "challenger", "problem"),
    [
        ((), ((0, 10_000),), "its control v1 has no share"),
        (((501, 10_000),), ((0, 500),), "its shares sum to 9999"),
        (((499, 9_999),), ((0, 500),), "its slots are not all buckets, each once"),
    ],
)
def test_an_allocation_that_does_not_hold_every_bucket_once_is_found(
    control: Any, challenger: Any, problem: str
) -> None:
    """Red when `allocations` leaves out one of: the control's share, the sum, the slots."""
    require_one(with_slots(decided(register("v2")), control, challenger), "allocations", problem)


def test_an_allocation_without_a_control_in_front_is_found() -> None:
    """Red when `allocations` does not look at the arms' names."""
    decisions = decided(register("v2"))
    arms = decisions[LAST].event.allocation.arms
    two = (arms[0], arms[1].model_copy(update={"name": "control"}))
    require_one(edited(decisions, LAST, arms=two), "allocations", "its arms are control, control")


def test_a_challenger_beyond_the_limit_of_that_time_is_found() -> None:
    """Red when `challengers` does not count."""
    decisions = edited(decided(register("v2"), register("v3")), LAST, max_challengers=1)
    require_one(decisions, "challengers", "2 are live (v2, v3), and 1 were allowed")


def test_a_rejection_of_another_than_the_one_who_left_is_found() -> None:
    """Red when `rejections` believes what a rejection says."""
    decisions = decided(register("v2"), register("v3"), reject("v2"))
    wrong = edited(decisions, LAST, version="v3")
    require_one(wrong, "rejections", "it rejects v3; v2 left")
    unknown = edited(decisions, LAST, version="v9")
    require_one(unknown, "rejections", "it rejects v9, which was not live")


def test_a_rejection_that_comes_twice_is_found() -> None:
    """Red when a rejection may be of a challenger that had left before."""
    decisions = decided(register("v2"), reject("v2"))
    again = [*decisions, replace(decisions[LAST], position=decisions[LAST].position + 1)]
    twice = edited(again, LAST, generation=4, command_id="another")
    require_one(twice, "rejections", "it rejects v2, which was not live")


def test_a_challenger_that_left_without_a_rejection_is_found() -> None:
    """Red when only rejections are looked at."""
    decisions = rewritten(
        decided(register("v2"), reject("v2")), LAST, lambda _: None, "ChallengerRegistered"
    )
    problem = "v2 left with nothing in its place, and it is no rejection"
    require_one(decisions, "rejections", problem)


@pytest.mark.parametrize(
    ("control", "challenger", "problem"),
    [
        # It grew from 500 to 1,000, and gave up what it had.
        (((0, 1_000), (2_000, 10_000)), ((1_000, 2_000),), "v2 went from 500 to 1000"),
        # The same, but it kept half.
        (((250, 9_250),), ((0, 250), (9_250, 10_000)), "v2 went from 500 to 1000"),
    ],
)
def test_buckets_that_moved_without_need_are_found(
    control: Any, challenger: Any, problem: str
) -> None:
    """Red when `slots` counts shares and not buckets."""
    decisions = with_slots(decided(register("v2"), commit(v2=1_000)), control, challenger)
    (finding,) = findings(decisions)
    assert finding.rule == "slots"
    assert finding.problem.startswith(problem)


def test_a_challenger_that_took_from_another_is_found() -> None:
    """Red when `slots` counts what each challenger lost, and not to whom."""
    decisions = decided(register("v2", 1_000), register("v3", 1_000), commit(v2=500, v3=1_500))
    slots = ((2_000, 10_000),), ((0, 500),), ((500, 2_000),)
    problem = "v3 took buckets of v2, and the control had some"
    require_one(with_slots(decisions, *slots), "slots", problem)


@pytest.mark.parametrize("fields", [{"salt": "another"}, {"episode": 2}])
def test_units_that_are_hashed_anew_while_a_challenger_is_live_are_found(
    fields: dict[str, object],
) -> None:
    """Red when `slots` looks at buckets only, into which other units fall by another salt."""
    decisions = edited(decided(register("v2"), commit(v2=1_000)), LAST, **fields)
    problem = "its episode, salt or hash version is a new one, and a challenger was live"
    require_one(decisions, "slots", problem)


def no_change(fields: dict[str, Any]) -> None:
    fields["shares"] = {"v2": 500}
    fields["allocation"]["arms"][0]["slots"] = [[500, 10_000]]
    fields["allocation"]["arms"][1]["slots"] = [[0, 500]]


def other_slots(fields: dict[str, Any]) -> None:
    fields["allocation"]["arms"][0]["slots"] = [[0, 9_500]]
    fields["allocation"]["arms"][1]["slots"] = [[9_500, 10_000]]


def without_version(fields: dict[str, Any]) -> None:
    fields["version"] = None


@pytest.mark.parametrize(
    ("acts", "change", "problem"),
    [
        ([register("v2"), commit(v2=600)], no_change, "does nothing"),
        ([register("v2")], other_slots, "allocation.arms differ"),
        ([register("v2"), promote("v2")], without_version, "is refused"),
        ([register("v2"), promote("v2")], lambda all_: all_.update(version="v1"), "is refused"),
        (
            [register("v2"), promote("v2")],
            lambda all_: all_["allocation"].update(previous_current=None),
            "allocation.previous_current differ",
        ),
        (
            [register("v2"), promote("v2"), roll_back(to_generation=1)],
            lambda all_: all_.update(to_generation=3),
            "is refused",
        ),
        (
            [register("v2"), reject("v2", "v3")],
            lambda all_: all_.update(dropped=[]),
            "is refused",
        ),
        (
            [register("v2"), reject("v2", "v3")],
            lambda all_: all_.update(dropped=["v2", "v2"]),
            "dropped differ",
        ),
        (
            [register("v2"), register("v3")],
            lambda all_: all_["allocation"]["arms"][2].update(since_generation=2),
            "allocation.arms differ",
        ),
        ([], lambda all_: all_.update(version="v2"), "allocation.arms differ"),
        ([], lambda all_: all_["allocation"].update(episode=1), "allocation.episode differ"),
    ],
)
def test_a_decision_that_its_command_does_not_make_is_found(
    acts: list[Any], change: Callable[[Any], object], problem: str
) -> None:
    """Red when `transitions` takes a refusal, nothing, or another event for the same."""
    (finding,) = findings(rewritten(decided(*acts), LAST, change))
    assert finding.rule == "transitions"
    assert problem in finding.problem


def test_a_rollback_to_a_generation_of_its_own_is_found() -> None:
    """Red when the timeline holds a decision before it is decided again."""
    decisions = decided(register("v2"), promote("v2"), roll_back())
    (finding,) = findings(edited(decisions, LAST, to_generation=4))
    assert finding.rule == "transitions"
    assert "has no generation 4 to go back to" in finding.problem
