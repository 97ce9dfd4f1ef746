"""The rule of the triggers finds the one thing that was planted for it, and nothing else."""

from dataclasses import replace
from typing import Any

import pytest

from alloc_es import DecisionEvent, Recorded
from alloc_es.rules import Account, Delivered, Finding, delivery_findings
from tests.rules.given import Decisions, decided, register, reject

END = 8


@pytest.fixture
def log() -> Decisions:
    """Three triggers of acme/triage: generations 3, 5 and 7, at the next positions each."""
    acts = [act for version in ("v2", "v3", "v4") for act in (register(version), reject(version))]
    decisions = decided(*acts)
    assert decisions[-1].position == END
    return decisions


def given(position: int, **fields: Any) -> Delivered:
    """A delivery as it should be, but for some fields; it was acknowledged."""
    return Delivered(position, "acme", "triage", position - 1, 1, "w", True)._replace(**fields)


def account(*deliveries: Delivered, begins_after: int = 0, scanned_to: int = END) -> Account:
    return Account("loop", begins_after, scanned_to, deliveries)


def findings(log: Decisions, *accounts: Account, end: int = END) -> list[Finding]:
    return list(delivery_findings(log, accounts, end))


ALL = given(4), given(6), given(8)


def test_deliveries_that_are_due_and_made_once_are_no_finding(log: Decisions) -> None:
    """Red when what is pending, released, held or behind the scan is found."""
    pending = given(6, attempts=0, worker=None, acknowledged=False)
    released = given(6, attempts=3, worker=None, acknowledged=False)
    held = given(6, acknowledged=False)
    accounts = [account(given(4), each, given(8)) for each in (pending, released, held)]
    accounts += [
        account(begins_after=8),
        account(given(6), given(8), begins_after=4),
        account(given(4), scanned_to=5),
        account(given(4), given(6), scanned_to=6),
    ]
    assert findings(log, *accounts, account(*ALL)) == []
    assert findings([], account(scanned_to=0), end=0) == []


def test_a_trigger_that_was_passed_over_is_found(log: Decisions) -> None:
    """Red when only what was delivered is looked at."""
    (finding,) = findings(log, account(*ALL), account(given(4), given(8)))
    trigger = log[5]
    assert finding == Finding(
        rule="deliveries",
        log="decisions",
        position=6,
        generation=5,
        tenant_id="acme",
        workflow_id="triage",
        command_id=trigger.event.command_id,
        run_id=None,
        problem="consumer loop was not given it",
    )
    assert "Each consumer of triggers" in str(finding)


def test_the_trigger_at_the_position_up_to_which_was_scanned_is_due(log: Decisions) -> None:
    """Red when the scanned position counts as one that is still to come."""
    (finding,) = findings(log, account(given(4), scanned_to=6))
    assert (finding.position, finding.problem) == (6, "consumer loop was not given it")


def test_a_trigger_that_was_given_twice_is_found(log: Decisions) -> None:
    """Red when deliveries are looked at one by one."""
    (finding,) = findings(log, account(*ALL, given(6, attempts=2)))
    assert (finding.position, finding.problem) == (6, "consumer loop was given it 2 times")


@pytest.mark.parametrize("position", [1, 3, 5])
def test_a_delivery_of_a_decision_that_is_no_trigger_is_found(
    log: Decisions, position: int
) -> None:
    """Red when every decision may be delivered."""
    (finding,) = findings(log, account(*ALL, given(position)))
    assert (finding.position, finding.generation) == (position, position - 1)
    assert (finding.tenant_id, finding.workflow_id) == ("acme", "triage")
    assert (finding.command_id, finding.log) == (None, "decisions")
    assert finding.problem == "consumer loop was given what is no trigger of its own"


@pytest.mark.parametrize("of", [account(*ALL, begins_after=4), account(*ALL, scanned_to=6)])
def test_a_delivery_of_what_is_not_the_consumer_s_is_found(log: Decisions, of: Account) -> None:
    """Red when a consumer may be given triggers from before its beginning, or not yet scanned."""
    (finding,) = findings(log, of)
    assert finding.position in {4, 8}
    assert finding.problem == "consumer loop was given what is no trigger of its own"
    assert finding.command_id is not None


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        ({"generation": 4}, "was given it as generation 4 of acme/triage"),
        ({"tenant_id": "beta"}, "was given it as generation 5 of beta/triage"),
        ({"workflow_id": "other"}, "was given it as generation 5 of acme/other"),
        ({"attempts": 0}, "has acknowledged it, and it was handed to nobody"),
        ({"worker": None}, "has acknowledged it, and it was handed to nobody"),
        ({"attempts": 0, "acknowledged": False}, "holds it, and it was handed to nobody"),
    ],
)
def test_a_delivery_that_says_something_else_is_found(
    log: Decisions, wrong: dict[str, Any], problem: str
) -> None:
    """Red when a row is believed."""
    (finding,) = findings(log, account(given(4), given(6, **wrong), given(8)))
    assert (finding.position, finding.problem) == (6, f"consumer loop {problem}")


def test_a_consumer_that_has_seen_more_than_there_is_is_found(log: Decisions) -> None:
    """Red when the log may be shorter than what was seen of it."""
    short: list[Recorded[DecisionEvent]] = log[:7]
    (finding,) = findings(short, account(given(4), given(6)), end=7)
    assert finding.problem == "consumer loop has seen position 8, and the log ends at 7"
    assert (finding.position, finding.log, finding.tenant_id) == (None, None, None)
    (finding,) = findings(log, account(begins_after=9))
    assert finding.problem == "consumer loop has seen position 9, and the log ends at 8"


def test_a_rejection_that_became_another_decision_is_found(log: Decisions) -> None:
    """Red when the log is not asked whether it still has the trigger."""
    changed = [replace(log[4], position=6) if each.position == 6 else each for each in log]
    (finding,) = findings(changed, account(*ALL))
    assert finding.problem == "consumer loop was given what is no trigger of its own"
