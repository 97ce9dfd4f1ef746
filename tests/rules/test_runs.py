"""Each rule of the run log finds the one thing that was planted for it, and nothing else."""

import json
from collections.abc import Iterator
from dataclasses import asdict
from pickle import dumps, loads
from typing import Any, NamedTuple

import pytest

from alloc_es import DecisionEvent, Recorded, RunSpawned, connect
from alloc_es.rules import RULES, Finding, findings
from tests.rules.given import KEY, edited, rechained_runs, stored

Runs = list[Recorded[RunSpawned]]


class Logs(NamedTuple):
    """The two logs of a store."""

    decisions: list[Recorded[DecisionEvent]]
    runs: Runs


@pytest.fixture
def logs() -> Logs:
    """v1 alone; v2 beside it; v2 rejected; v2 registered again. A run at each generation.

    The runs' ids are their generations; those of 2 and 4 are on v2, the others on v1. A
    generation's position is the next number, as another workflow was started before.
    """
    with connect("memory:") as allocations:
        allocations.workflow("acme", "other").start("w1")
        workflow = allocations.workflow(*KEY)
        workflow.start("v1")
        workflow.spawn_run("1")
        workflow.register_challenger("v2", 9_999)
        workflow.spawn_run("2", unit=unit_of_the_challenger(workflow.peek))
        workflow.reject_challenger("v2")
        workflow.spawn_run("3")
        workflow.register_challenger("v2", 9_999)
        workflow.spawn_run("4", unit=unit_of_the_challenger(workflow.peek))
        return Logs(list(allocations.decisions()), list(allocations.runs()))


def unit_of_the_challenger(peek: Any) -> str:
    return next(unit for unit in map(str, range(100)) if peek(unit).arm == "challenger")


def test_the_logs_of_a_store_hold_no_finding(logs: Logs) -> None:
    """Red when a rule finds fault with what is right."""
    positions = {each.event.originator_id: each.event.decision_position or 0 for each in logs.runs}
    assert [each.event.version for each in logs.runs] == ["v1", "v2", "v1", "v2"]
    assert list(findings(*logs, positions)) == []


def test_findings_come_as_they_are_met_and_runs_are_taken_one_at_a_time(logs: Logs) -> None:
    """Red when the runs are held in a list, of which there may be millions."""
    taken: list[str] = []

    def stream() -> Iterator[Recorded[RunSpawned]]:
        for each in edited(logs.runs, 1, bucket=-1):
            taken.append(each.event.run_id)
            yield each

    found = findings(logs.decisions, stream())
    assert next(found).run_id == "2"
    assert taken == ["1", "2"]


def test_a_finding_says_where_and_what_in_words_and_in_json(logs: Logs) -> None:
    """Red when a finding leaves out whose event it is, or can't be sent to another process."""
    (finding,) = findings(logs.decisions, edited(logs.runs, 1, decision_position=2))
    assert str(finding) == (
        "runs, position 2: run 2 of acme/triage, generation 2: it is of generation 2 of "
        "acme/triage, and at position 2 generation 1 was the newest, in which v2 does not serve "
        f"(newest: {RULES['newest']})"
    )
    assert Finding(**json.loads(json.dumps(asdict(finding)))) == finding == loads(dumps(finding))
    (decision,) = findings(edited(logs.decisions, 1, episode=7)[:2], [])
    command = logs.decisions[1].event.command_id
    assert f"position 2: command {command} of acme/triage, generation 1" in str(decision)


@pytest.mark.parametrize(
    ("position", "problem"),
    [
        (2, "generation 1 was the newest, in which v2 does not serve"),
        (4, "generation 3 was the newest, in which v2 does not serve"),
        (5, "generation 4 was the newest"),
        (1, "nothing was decided on acme/triage at position 1"),
        (6, "it was verified at position 6, and the decisions end at 5"),
        (None, "it was not verified"),
    ],
)
def test_a_run_of_another_generation_than_the_newest_is_found(
    logs: Logs, position: int | None, problem: str
) -> None:
    """Red when `newest` looks at one side of the run's generation only."""
    (found,) = findings(logs.decisions, edited(logs.runs, 1, decision_position=position))
    assert (found.rule, found.log, found.position, found.run_id) == ("newest", "runs", 2, "2")
    assert found.problem.endswith(problem)


@pytest.mark.parametrize(
    "fields",
    [
        {"version": "v1"},
        {"arm": "control"},
        {"bucket": -1},
        {"slot": (0, 10_000)},
        {"salt": "another"},
        {"episode": 9},
        {"hash_version": 2},
        {"unit": "another"},
    ],
)
def test_a_run_that_does_not_follow_from_its_generation_is_found(
    logs: Logs, fields: dict[str, object]
) -> None:
    """Red when `routing` leaves out any field that follows from unit and generation."""
    (found,) = findings(logs.decisions, edited(logs.runs, 1, **fields))
    assert (found.rule, found.position, found.run_id) == ("routing", 2, "2")
    (name,) = {"bucket" if name == "unit" else name for name in fields}
    assert f" {name} " in found.problem


@pytest.mark.parametrize("generation", [3, 5])
def test_a_run_of_another_generation_than_its_own_breaks_two_rules(
    logs: Logs, generation: int
) -> None:
    """Red when `routing` takes a run of a generation that never was."""
    runs = rechained_runs(logs.decisions, edited(logs.runs, 1, generation=generation))
    found = findings(logs.decisions, runs)
    assert [each.rule for each in found] == ["routing", "newest"]


def test_a_run_id_that_comes_twice_is_found(logs: Logs) -> None:
    """Red when `RunIds` does not remember."""
    (found,) = findings(logs.decisions, edited(logs.runs, 2, run_id="1", unit="3"))
    assert (found.rule, found.position, found.run_id) == ("run_ids", 3, "1")
    assert found.problem == "its id was recorded before"


def test_two_tenants_may_have_a_run_of_one_id() -> None:
    """Red when `RunIds` forgets the tenant."""
    with connect("memory:") as allocations:
        for tenant in ("acme", "beta"):
            workflow = allocations.workflow(tenant, "triage")
            workflow.start("v1")
            workflow.spawn_run("1")
        assert list(findings(allocations.decisions(), allocations.runs())) == []


def test_a_run_whose_position_does_not_rise_is_found(logs: Logs) -> None:
    """Red when only decisions have to be in order."""
    first, second, *rest = logs.runs
    found = list(findings(logs.decisions, [second, first, *rest]))
    assert ("order", "it lies behind position 2") in [(each.rule, each.problem) for each in found]
    assert {each.position for each in found} == {1}


def test_a_run_that_was_put_behind_later_ones_is_found(logs: Logs) -> None:
    """Red when it is believed at which position of the decisions it was verified: a forger puts
    it behind runs that were verified later, as the log takes events at its end alone.
    """
    last = logs.runs[-1]
    early = next(each for each in logs.runs if each.generation < last.generation)
    late = early.event.model_copy(update={"run_id": "late"})
    found = list(findings(logs.decisions, [*logs.runs, stored(last.position + 1, late)]))
    assert [(each.rule, each.run_id) for each in found] == [("newest", "late")]
    said = f"it was verified at position {late.decision_position}, and one before it at"
    assert found[0].problem == f"{said} {last.event.decision_position}"


def test_a_run_that_was_verified_before_its_beginning_is_found(logs: Logs) -> None:
    """Red when `begun` compares with anything but the run's own beginning."""
    began_behind = {each.event.originator_id: 4 for each in logs.runs}
    found = [each for each in findings(*logs, began_behind) if each.rule == "begun"]
    assert [each.run_id for each in found] == ["1", "2"]
    assert found[0].problem == "it began behind position 4 and was verified at 2"


@pytest.mark.parametrize(
    ("began_behind", "verified_at", "is_found"),
    [
        # A run on v2 whose call began while v2 served, or before it came back.
        (3, 3, False),
        (3, 4, False),
        (4, 5, False),
        # It began behind the rejection, and v2 was not back when it was verified.
        (4, 4, True),
        # The same, and it was verified even before the rejection.
        (4, 3, True),
        # It began and was verified before v2 was ever registered.
        (2, 2, True),
    ],
)
def test_a_run_on_a_version_that_was_out_of_service_is_found(
    logs: Logs, began_behind: int, verified_at: int, is_found: bool
) -> None:
    """Red when `service` forgets that a version may come back, or may have been gone."""
    runs = edited(logs.runs, 1, decision_position=verified_at)
    found = findings(logs.decisions, runs, {runs[1].event.originator_id: began_behind})
    assert ("service" in {each.rule for each in found}) is is_found
