"""A log that was changed in one place, and not from there to its end, breaks its chain."""

from collections.abc import Callable
from typing import NamedTuple

import pytest

from alloc_es import Recorded, RunSpawned, connect
from alloc_es.codec import digest
from alloc_es.rules import findings
from tests.rules.given import KEY, Decisions, edited, of_before, rechained, rechained_runs

Runs = list[Recorded[RunSpawned]]


class Logs(NamedTuple):
    """The two logs of a store."""

    decisions: Decisions
    runs: Runs


@pytest.fixture
def logs() -> Logs:
    """Another workflow's start at position 1; then five generations, each at the next position.

    At each position of the other log is a run of the decision that lies there in this one.
    """
    with connect("memory:") as allocations:
        other = allocations.workflow("acme", "other")
        other.start("w1")
        other.spawn_run("run-1")
        workflow = allocations.workflow(*KEY)
        workflow.start("v1")
        workflow.spawn_run("run-2")
        workflow.register_challenger("v2", 500)
        workflow.spawn_run("run-3")
        for position, share in ((4, 600), (5, 700), (6, 800)):
            workflow.commit_allocation({"v2": share})
            workflow.spawn_run(f"run-{position}")
        return Logs(list(allocations.decisions()), list(allocations.runs()))


def broken(decisions: Decisions, runs: Runs) -> list[tuple[str | None, int | None]]:
    """Where the chain is broken; the rules find nothing else."""
    found = list(findings(decisions, runs))
    assert {each.rule for each in found} <= {"chain"}, found
    return [(each.log, each.position) for each in found]


def test_what_a_store_holds_is_chained(logs: Logs) -> None:
    """Red when the first decisions, or the runs, carry no digest, or one that they do not owe."""
    decisions, runs = logs
    assert [each.event.previous_digest for each in decisions] == [
        digest(b"allocation/acme/other"),
        digest(b"allocation/acme/triage"),
        *(each.digest for each in decisions[1:-1]),
    ]
    assert [each.event.decision_digest for each in runs] == [each.digest for each in decisions]
    assert broken(decisions, runs) == []


def test_an_edited_decision_is_found_at_the_next_one_and_at_its_runs(logs: Logs) -> None:
    """Red when the digest that is owed is not that of the bytes: no other rule reads a reason."""
    decisions, runs = logs
    forged = edited(decisions, 3, reason="somebody else's wish")
    assert broken(forged, runs) == [("decisions", 5), ("runs", 4)]
    assert {each.problem for each in findings(forged, runs)} == {
        f"it carries {decisions[3].digest}, and the digest of generation 3 is {forged[3].digest}"
    }


def test_an_edit_breaks_the_chain_until_whatever_lies_behind_it_is_made_anew(logs: Logs) -> None:
    """Red when a run's chain ends at its generation's number.

    The last line is what a chain alone does not prove, and a seal does.
    """
    decisions, runs = logs
    forged = rechained(edited(decisions, 3, reason="somebody else's wish"), first=4)
    assert broken(forged, runs) == [("runs", 4), ("runs", 5), ("runs", 6)]
    assert broken(forged, rechained_runs(forged, runs)) == []


def test_a_decision_taken_out_is_found_though_those_behind_it_were_renumbered(logs: Logs) -> None:
    """Red when the chain is compared with what a decision says of its place."""
    decisions = [*logs.decisions[:3], *logs.decisions[4:]]
    for place in (3, 4):
        decisions = edited(decisions, place, generation=place)
    assert broken(decisions, logs.runs[:3]) == [("decisions", 5), ("decisions", 6)]
    assert broken(rechained(decisions, first=4), logs.runs[:3]) == [("decisions", 5)]


@pytest.mark.parametrize("stream", [b"allocation/acme/other", b"run/acme/triage", b""])
def test_a_first_decision_that_is_chained_to_another_stream_is_found(
    logs: Logs, stream: bytes
) -> None:
    """Red when a first decision may carry any digest: it may be another log's."""
    forged = rechained(edited(logs.decisions, 1, previous_digest=digest(stream)), first=2)
    ((log, position),) = broken(forged, rechained_runs(forged, logs.runs))
    assert (log, position) == ("decisions", 2)
    (found,) = findings(forged[:2], [])
    assert found.problem.endswith(f"its stream's name is {digest(b'allocation/acme/triage')}")


@pytest.mark.parametrize(
    "strip",
    [
        lambda decisions: edited(decisions, 4, previous_digest=None),
        lambda decisions: [*decisions[:4], of_before(decisions[4]), *decisions[5:]],
    ],
)
def test_a_digest_that_was_stripped_behind_a_chained_decision_is_found(
    logs: Logs, strip: Callable[[Decisions], Decisions]
) -> None:
    """Red when a decision without a digest is taken for an old one wherever it lies."""
    forged = rechained(strip(logs.decisions), first=5)
    assert broken(forged, rechained_runs(forged, logs.runs)) == [("decisions", 5)]
    (found,) = findings(forged, [])
    assert found.problem == "it carries no digest, and the decision before it does"


def since_0_5(logs: Logs, first: int) -> Logs:
    """The logs if a release before 0.5 had written what lies before a place."""
    decisions = [*map(of_before, logs.decisions[:first]), *logs.decisions[first:]]
    decisions = rechained(decisions, first)
    runs = rechained_runs(decisions, logs.runs)
    return Logs(decisions, [*map(of_before, runs[:first]), *runs[first:]])


@pytest.mark.parametrize("first", range(7))
def test_a_log_that_an_older_release_began_is_clean(logs: Logs, first: int) -> None:
    """Red when old events owe a digest, or the first chained one is not chained to them."""
    decisions, runs = since_0_5(logs, first)
    assert [each.event.previous_digest for each in decisions[:first]] == [None] * first
    assert broken(decisions, runs) == []


def test_the_first_chained_decision_is_held_to_the_last_unchained_one(logs: Logs) -> None:
    """Red when nothing is owed behind a decision without a digest."""
    decisions, _ = since_0_5(logs, 4)
    forged = edited(decisions, 3, reason="somebody else's wish")
    assert broken(forged, []) == [("decisions", 5)]


def test_a_run_with_the_digest_of_another_decision_is_found(logs: Logs) -> None:
    """Red when any decision's digest will do, or an unchained decision's runs may carry any."""
    for decisions, runs in (logs, since_0_5(logs, 3)):
        again = rechained_runs(decisions, runs)
        assert broken(decisions, again) == []
        forged = edited(again, 2, decision_digest=decisions[3].digest)
        assert broken(decisions, forged) == [("runs", 3)]


def test_a_run_without_a_digest_of_a_chained_decision_is_found(logs: Logs) -> None:
    """Red when a run without a digest is taken for an old one whatever allotted it."""
    decisions, runs = logs
    for forged in (
        edited(runs, 3, decision_digest=None),
        [*runs[:3], of_before(runs[3]), *runs[4:]],
    ):
        assert broken(decisions, forged) == [("runs", 4)]
        (found,) = findings(decisions, forged)
        assert found.problem == "it carries no digest, and its decision does"
