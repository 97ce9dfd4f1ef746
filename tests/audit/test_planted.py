"""Each rule finds the one thing that was planted in a copy of the log, and no other rule does."""

import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from alloc_es.split import Slots
from tests.audit.forging import Copy, Place, found, unchecked
from tests.audit.given import Logs
from tests.rules.given import edited, rewritten, stored


class Planted(NamedTuple):
    """Logs that break one rule, where that is, and words of what is wrong."""

    logs: Logs
    place: Place
    problem: str


def at_decision(rule: str, logs: Logs, generation: int) -> Place:
    each = logs.decision(generation)
    command = each.event.command_id
    return Place(rule, "decisions", each.position, generation, *each.event.key, command, None)


def at_run(rule: str, logs: Logs, place: int) -> Place:
    each = logs.runs[place]
    run = each.event
    return Place(rule, "runs", each.position, run.generation, *run.key, None, run.run_id)


def a_decision_gone(logs: Logs) -> Planted:
    gone = logs.place(4)
    forged = logs.forged([*logs.decisions[:gone], *logs.decisions[gone + 1 :]])
    return Planted(forged, at_decision("order", logs, 5), "it follows generation 3")


def a_command_id_twice(logs: Logs) -> Planted:
    forged = logs.decide(5, command_id=logs.decision(4).event.command_id)
    return Planted(forged, at_decision("order", forged, 5), "its command id made generation 4")


def a_control_without_a_share(logs: Logs) -> Planted:
    forged = arms_of(logs.until(5), 5, ((), ((0, 10_000),)))
    place = at_decision("allocations", forged, 5)
    return Planted(forged, place, "its control v1 has no share")


def more_challengers_than_allowed(logs: Logs) -> Planted:
    forged = logs.decide(6, max_challengers=1)
    place = at_decision("challengers", forged, 6)
    return Planted(forged, place, "2 are live (v2, v3), and 1 were allowed")


def a_second_start(logs: Logs) -> Planted:
    def start(event: dict[str, Any]) -> None:
        event |= {"decision": "start", "version": "v1", "shares": None}

    forged = logs.forged(rewritten(logs.decisions, logs.place(4), start))
    return Planted(forged, at_decision("transitions", forged, 4), "its command is refused: ")


def a_run_on_the_other_arm(logs: Logs) -> Planted:
    place, other = logs.of(2, "v2")[0], logs.runs[logs.of(2, "v1")[0]].event
    forged = logs.run(place, version="v1", arm="control", slot=other.slot)
    return Planted(forged, at_run("routing", logs, place), "version 'v1' where its generation")


def a_run_on_a_rejected_version(logs: Logs) -> Planted:
    place = logs.of(2, "v2")[0]
    forged = logs.run(place, decision_position=logs.decision(7).position)
    problem = "generation 7 was the newest, in which v2 does not serve"
    return Planted(forged, at_run("newest", logs, place), problem)


def a_run_verified_at_no_decision(logs: Logs) -> Planted:
    end = logs.decisions[-1].position
    forged = logs.run(len(logs.runs) - 1, decision_position=end + 1)
    problem = f"it was verified at position {end + 1}, and the decisions end at {end}"
    return Planted(forged, at_run("newest", logs, len(logs.runs) - 1), problem)


def a_run_id_given_out_twice(logs: Logs) -> Planted:
    """The last run of all, once more under the id of an early one."""
    fields = {"run_id": logs.runs[5].event.run_id}
    again = stored(logs.runs[-1].position + 7, logs.runs[-1].event.model_copy(update=fields))
    forged = logs._replace(runs=[*logs.runs, again])
    return Planted(forged, at_run("run_ids", forged, -1), "its id was recorded before")


def a_rejection_made_a_split(logs: Logs) -> Planted:
    def split(event: dict[str, Any]) -> None:
        event |= {"decision": "split", "version": None, "dropped": ["v2"], "shares": {}}
        event["to_generation"] = None

    place = logs.place(7)
    forged = logs.forged(rewritten(logs.decisions, place, split, "AllocationCommitted"))
    problem = "v2 left with nothing in its place, and it is no rejection"
    return Planted(forged, at_decision("rejections", forged, 7), problem)


def a_rejection_of_nobody(logs: Logs) -> Planted:
    forged = logs.decide(7, version="v9")
    place = at_decision("rejections", forged, 7)
    return Planted(forged, place, "it rejects v9, which was not live")


def a_challenger_moved_to_other_buckets(logs: Logs) -> Planted:
    forged = arms_of(logs.until(4), 4, (((0, 9_400),), ((9_400, 10_000),)))
    problem = "v2 went from 500 to 600 basis points and lost 500 buckets"
    return Planted(forged, at_decision("slots", forged, 4), problem)


def a_reason_changed(logs: Logs) -> Planted:
    forged = logs._replace(decisions=edited(logs.decisions, logs.place(4), reason="another"))
    return Planted(forged, at_decision("chain", forged, 5), "the digest of generation 4 is")


def a_run_with_the_digest_of_another_decision(logs: Logs) -> Planted:
    place = logs.of(2, "v1")[0]
    forged = logs.run(place, decision_digest=logs.decision(1).digest)
    return Planted(forged, at_run("chain", logs, place), "the digest of generation 2 is")


def a_challengers_runs_taken_out(logs: Logs) -> Planted:
    place = Place("sample_ratio", "runs", None, None, "acme", "triage", None, None)
    problem = "v2 got 0 where 1"
    return Planted(logs.without(logs.of(2, "v2")), place, problem)


PLANTED: list[Callable[[Logs], Planted]] = [
    a_decision_gone,
    a_command_id_twice,
    a_control_without_a_share,
    more_challengers_than_allowed,
    a_second_start,
    a_run_on_the_other_arm,
    a_run_on_a_rejected_version,
    a_run_verified_at_no_decision,
    a_run_id_given_out_twice,
    a_rejection_made_a_split,
    a_rejection_of_nobody,
    a_challenger_moved_to_other_buckets,
    a_reason_changed,
    a_run_with_the_digest_of_another_decision,
    a_challengers_runs_taken_out,
]


def arms_of(logs: Logs, generation: int, slots: tuple[Slots, Slots]) -> Logs:
    """Other slots of the control and of the challenger in one decision."""
    arms = logs.decision(generation).event.allocation.arms
    changed = [arm.model_copy(update={"slots": own}) for arm, own in zip(arms, slots, strict=True)]
    return logs.decide(generation, arms=tuple(changed))


def test_logs_that_keep_every_rule_are_clean(copy: Copy, logs: Logs) -> None:
    """Red when a rule finds fault with what is right, or is left out."""
    copy.hold(logs)
    report = copy.audited()
    assert found(report) == []
    assert unchecked(report) == {"read_models", "seal"}
    assert (report.decisions, report.runs) == (len(logs.decisions), len(logs.runs))
    assert report.ends == {
        "decisions": logs.decisions[-1].position,
        "runs": logs.runs[-1].position,
    }


@pytest.mark.parametrize("plant", PLANTED)
def test_what_breaks_one_rule_is_found_by_it_alone(
    copy: Copy, logs: Logs, plant: Callable[[Logs], Planted]
) -> None:
    """Red when the rule is not applied, or another one finds the same thing."""
    planted = plant(logs)
    copy.hold(planted.logs)
    report = copy.audited()
    assert found(report) == [planted.place]
    assert planted.problem in report.findings[0].problem


def test_without_what_it_is_counted_with_the_sample_ratio_is_not_checked(
    copy: Copy, logs: Logs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Red when an audit needs an extra for the other rules, or calls this one kept."""
    copy.hold(a_run_on_the_other_arm(logs).logs)
    monkeypatch.setitem(sys.modules, "scipy", None)
    report = copy.audited()
    assert [each.rule for each in found(report)] == ["routing"]
    (rule,) = (each for each in report.rules if each.name == "sample_ratio")
    assert rule.outcome == "not checked"
    assert "pip install 'alloc-es[statistics]'" in rule.note
