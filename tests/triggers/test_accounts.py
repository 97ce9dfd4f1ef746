"""What a store says of its deliveries is in order, and what is wrong with it is found."""

import pytest

from alloc_es import Allocations
from alloc_es.delivered import read_accounts
from alloc_es.identity import TenantId
from alloc_es.rules import Account, Finding, delivery_findings
from tests.triggers.workers import Office, acknowledge_all, reject


def accounts(allocations: Allocations, tenant: str | None = None) -> list[Account]:
    with allocations._store.desk.snapshot() as session:
        return read_accounts(session, None if tenant is None else TenantId(tenant))


def findings(allocations: Allocations) -> list[Finding]:
    read = accounts(allocations)
    return list(delivery_findings(allocations.decisions(), read, allocations.position()))


def change(allocations: Allocations, statement: str, *values: object) -> None:
    """Change the accounts by hand."""
    with allocations._store.desk.writing() as session:
        assert session.run(statement, *values) == 1


def test_whatever_workers_do_is_no_finding(allocations: Allocations, office: Office) -> None:
    """Red when a state that workers leave behind is found, or the wrong rows are read."""
    assert findings(allocations) == []
    first = reject(allocations, "v2", "v3", "v4")
    worker = office.hire()
    acknowledged, released, held = (next(worker) for _ in range(3))
    worker.acknowledge(acknowledged)
    worker.release(released)
    late = office.hire("late", begin="now")
    (fourth,) = reject(allocations, "v5", tenant="beta")
    assert next(late).position == fourth
    assert findings(allocations) == []
    reject(allocations, "v6")
    assert findings(allocations) == []
    mine, other = accounts(allocations)
    assert (mine.consumer, other.consumer) == ("late", "loop")
    assert other.begins_after == 0
    states = {each.position: (each.acknowledged, each.attempts) for each in other.deliveries}
    assert states == {acknowledged.position: (True, 1)} | {
        each.position: (False, 1) for each in (released, held)
    }
    assert sorted(states) == first


def test_one_tenant_s_deliveries_can_be_read_alone(
    allocations: Allocations, office: Office
) -> None:
    """Red when the tenant is not asked for."""
    reject(allocations, "v2")
    (position,) = reject(allocations, "v2", tenant="beta")
    acknowledge_all(office.hire())
    (account,) = accounts(allocations, "beta")
    assert [each.position for each in account.deliveries] == [position]
    decisions = [each for each in allocations.decisions() if each.event.key.tenant_id == "beta"]
    assert list(delivery_findings(decisions, [account], allocations.position())) == []


@pytest.mark.parametrize(
    ("statement", "problem"),
    [
        ("DELETE FROM trigger_deliveries WHERE position = ?", "consumer loop was not given it"),
        (
            "UPDATE trigger_deliveries SET generation = 9 WHERE position = ?",
            "consumer loop was given it as generation 9 of acme/triage",
        ),
        (
            "UPDATE trigger_deliveries SET worker = NULL WHERE position = ?",
            "consumer loop has acknowledged it, and it was handed to nobody",
        ),
        (
            "UPDATE trigger_deliveries SET consumer = 'stranger' WHERE position = ?",
            "consumer loop was not given it",
        ),
    ],
)
def test_a_row_that_was_changed_by_hand_is_found(
    allocations: Allocations, office: Office, statement: str, problem: str
) -> None:
    """Red when a column is not read, or read as another."""
    _, position, _ = reject(allocations, "v2", "v3", "v4")
    acknowledge_all(office.hire())
    change(allocations, statement, position)
    found = findings(allocations)
    assert (found[0].rule, found[0].position, found[0].problem) == ("deliveries", position, problem)
    strangers = [each.problem for each in found[1:]]
    expected = ["consumer stranger was given what is no trigger of its own"]
    assert strangers == (expected if "stranger" in statement else [])
