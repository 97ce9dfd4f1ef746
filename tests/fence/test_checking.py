"""Each check of the logs finds the one thing that was planted for it."""

from dataclasses import replace
from typing import Any, NamedTuple

import pytest

from alloc_es import Recorded, RunSpawned, connect
from tests.fence import checking
from tests.fence.checking import Decisions, Finding

KEY = ("acme", "triage")


class Logs(NamedTuple):
    """The two logs of a store."""

    decisions: Decisions
    runs: list[Recorded[RunSpawned]]


@pytest.fixture
def logs() -> Logs:
    """v1 alone; v2 beside it; v2 rejected; v2 registered again. A run at each generation.

    The runs' ids are their generations; those of 2 and 4 are on v2, the others on v1.
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


def edited(logs: Logs, number: int, **fields: object) -> list[Recorded[RunSpawned]]:
    """The runs, with other fields in the event of one."""
    runs = list(logs.runs)
    chosen = runs[number - 1]
    runs[number - 1] = replace(chosen, event=chosen.event.model_copy(update=fields))
    return runs


def test_the_logs_of_a_store_hold_no_finding(logs: Logs) -> None:
    """Red when a check finds fault with what is right."""
    decisions, runs = logs
    positions = {each.event.originator_id: each.event.decision_position or 0 for each in runs}
    assert [each.event.version for each in runs] == ["v1", "v2", "v1", "v2"]
    assert checking.superseded(decisions, runs) == []
    assert checking.misrouted(decisions, runs) == []
    assert checking.doubled(runs) == []
    assert checking.verified_too_early(runs, positions) == []
    assert checking.out_of_service(decisions, runs, positions) == []


@pytest.mark.parametrize(
    ("position", "problem"),
    [
        (2, "at position 2 generation 1 was the newest"),
        (4, "at position 4 generation 3 was the newest"),
        (1, "nothing was decided on acme/triage at position 1"),
        (None, "it was not verified"),
    ],
)
def test_a_run_of_another_generation_than_the_newest_is_found(
    logs: Logs, position: int | None, problem: str
) -> None:
    """Red when `superseded` looks at one side of the run's generation only."""
    (found,) = checking.superseded(logs.decisions, edited(logs, 2, decision_position=position))
    assert (found.position, found.run_id) == (2, "2")
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
        {"generation": 3},
        {"generation": 5},
    ],
)
def test_a_run_that_does_not_follow_from_its_generation_is_found(
    logs: Logs, fields: dict[str, object]
) -> None:
    """Red when `misrouted` leaves out any field that follows from unit and generation."""
    (found,) = checking.misrouted(logs.decisions, edited(logs, 2, **fields))
    assert (found.position, found.run_id) == (2, "2")


def test_a_run_id_that_comes_twice_is_found(logs: Logs) -> None:
    """Red when `doubled` does not count."""
    found = checking.doubled(edited(logs, 3, run_id="1"))
    assert found == [Finding(3, "1", "its id was recorded before")]


def test_a_run_that_was_verified_before_its_beginning_is_found(logs: Logs) -> None:
    """Red when `verified_too_early` compares with anything but the run's own beginning."""
    began_behind = {each.event.originator_id: 4 for each in logs.runs}
    found = checking.verified_too_early(logs.runs, began_behind)
    assert [each.run_id for each in found] == ["1", "2"]


@pytest.mark.parametrize(
    ("began_behind", "verified_at", "findings"),
    [
        # A run on v2 whose call began while v2 served, or before it came back.
        (3, 3, []),
        (3, 4, []),
        (4, 5, []),
        # It began behind the rejection, and v2 was not back when it was verified.
        (4, 4, ["2"]),
        # The same, and it was verified even before the rejection.
        (4, 3, ["2"]),
        # It began and was verified before v2 was ever registered.
        (2, 2, ["2"]),
    ],
)
def test_a_run_on_a_version_that_was_out_of_service_is_found(
    logs: Logs, began_behind: int, verified_at: int, findings: list[str]
) -> None:
    """Red when `out_of_service` forgets that a version may come back, or may have been gone."""
    runs = edited(logs, 2, decision_position=verified_at)
    found = checking.out_of_service(
        logs.decisions, runs, {runs[1].event.originator_id: began_behind}
    )
    assert [each.run_id for each in found] == findings
