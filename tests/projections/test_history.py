"""`decision_history`: what was decided, and the tenures that came of it."""

import pytest

from alloc_es import Allocations, Workflow
from alloc_es.store.session import Row
from tests.projections.reading import rows
from tests.projections.test_rows import second
from tests.projections.writing import spawn


@pytest.fixture
def workflow(allocations: Allocations) -> Workflow:
    """A workflow that runs v1, started at second 1."""
    handle = allocations.workflow("acme", "a/b")
    handle.start("v1")
    return handle


def tenures(allocations: Allocations) -> list[Row]:
    """Version, since and until which generation, role, outcome and runs of each tenure."""
    allocations.projections().catch_up("decision_history")
    found = rows(allocations, "tenures", "tenant_id, since_generation, version")
    return [(row[2], row[3], row[6], row[4], row[8], row[9]) for row in found]


def test_each_decision_is_told_with_what_was_before_and_behind_it(
    allocations: Allocations, workflow: Workflow
) -> None:
    """Red when the split before is another workflow's, or that of a batch before."""
    workflow.register_challenger("v2", 1_000, reason="cheaper", command_id="mine")
    other = allocations.workflow("beta", "a/b")
    other.start("w1")
    workflow.promote_challenger("v2", actor="bob")
    workflow.roll_back(to_generation=1)
    allocations.projections().catch_up("decision_history")
    history = rows(allocations, "decision_history", "tenant_id, generation")
    assert [row[2:6] for row in history] == [
        (1, 1, "start", "started with v1"),
        (2, 2, "registration", "registered v2"),
        (3, 4, "promotion", "promoted v2"),
        (4, 5, "rollback", "rolled back to v1"),
        (1, 3, "start", "started with w1"),
    ]
    assert [row[6:12] for row in history] == [
        (None, "v1", None, "v1 100%", "ada", ""),
        ("v1", "v1", "v1 100%", "v1 90%, v2 10%", "ada", "cheaper"),
        ("v1", "v2", "v1 90%, v2 10%", "v2 100%", "bob", ""),
        ("v2", "v1", "v2 100%", "v1 100%", "ada", ""),
        (None, "w1", None, "w1 100%", "ada", ""),
    ]
    assert [row[0] for row in history] == ["acme"] * 4 + ["beta"]
    assert [row[12] for row in history] == [second(number) for number in (1, 2, 4, 5, 3)]
    assert history[1][13] == "mine"


def test_a_promotion_ends_two_tenures_and_begins_one(
    allocations: Allocations, workflow: Workflow
) -> None:
    """Red when the challenger's and the current version's tenure are taken for one."""
    workflow.register_challenger("v2")
    workflow.promote_challenger("v2")
    assert tenures(allocations) == [
        ("v1", 1, 3, "current", "superseded", 0),
        ("v2", 2, 3, "challenger", "promoted", 0),
        ("v2", 3, None, "current", None, 0),
    ]


def test_a_rejection_a_replacement_and_a_drop_are_told_apart(
    allocations: Allocations, workflow: Workflow
) -> None:
    """Red when an outcome is told by the kind of event alone."""
    workflow.register_challenger("v2")
    workflow.reject_challenger("v2")
    workflow.register_challenger("v2")
    workflow.reject_challenger("v2", replacement="v3")
    workflow.promote_challenger("v3")
    workflow.register_challenger("v4")
    workflow.roll_back(drop=["v4"])
    assert tenures(allocations) == [
        ("v1", 1, 6, "current", "superseded", 0),
        ("v2", 2, 3, "challenger", "rejected", 0),
        ("v2", 4, 5, "challenger", "replaced", 0),
        ("v3", 5, 6, "challenger", "promoted", 0),
        ("v3", 6, 8, "current", "rolled back", 0),
        ("v4", 7, 8, "challenger", "dropped", 0),
        ("v1", 8, None, "current", None, 0),
    ]


def test_a_challenger_that_lives_on_behind_a_promotion_keeps_its_tenure(
    allocations: Allocations, workflow: Workflow
) -> None:
    """Red when every decision ends the tenures of all challengers."""
    workflow.register_challenger("v2")
    workflow.register_challenger("v3")
    workflow.commit_allocation({"v2": 100, "v3": 200})
    workflow.promote_challenger("v2")
    lasting = [row for row in tenures(allocations) if row[2] is None]
    live = workflow.allocation().challengers
    assert lasting == [
        *[("v3", 3, None, "challenger", None, 0) for version in live if version == "v3"],
        ("v2", 5, None, "current", None, 0),
    ]
    assert [row[4] for row in tenures(allocations) if row[0] == "v2"] == ["promoted", None]


def test_each_tenure_is_told_how_many_runs_it_served(
    allocations: Allocations, workflow: Workflow
) -> None:
    """Red when runs of another generation, role or tenant are counted in a tenure."""
    other = allocations.workflow("beta", "a/b")
    other.start("v1")
    spawn(allocations, workflow, [f"first {number}" for number in range(3)])
    spawn(allocations, other, [f"first {number}" for number in range(7)])
    workflow.register_challenger("v2", 5_000)
    spawn(allocations, workflow, [f"second {number}" for number in range(20)])
    workflow.promote_challenger("v2")
    spawn(allocations, workflow, [f"third {number}" for number in range(5)])
    versions = [e.event.version for e in allocations.runs() if e.event.run_id.startswith("second")]
    served = {name: sum(name == version for version in versions) for name in ("v1", "v2")}
    assert min(served.values()) > 0
    assert tenures(allocations) == [
        ("v1", 1, 3, "current", "superseded", 3 + served["v1"]),
        ("v2", 2, 3, "challenger", "promoted", served["v2"]),
        ("v2", 3, None, "current", None, 5),
        ("v1", 1, None, "current", None, 7),
    ]


def test_open_and_closed_tenures_make_up_all_tenures_whatever_the_batches(
    allocations: Allocations, workflow: Workflow
) -> None:
    """Red when a tenure that a batch before has begun is not found again when it ends."""
    for version in ("v2", "v3"):
        workflow.register_challenger(version)
        assert tenures(allocations)[-1] == (
            *(version, workflow.allocation().generation, None, "challenger", None, 0),
        )
        workflow.reject_challenger(version)
        assert tenures(allocations)[-1][2:5] == (
            *(workflow.allocation().generation, "challenger", "rejected"),
        )
    assert len(rows(allocations, "tenures_open")) == 1
    assert len(rows(allocations, "tenures_closed")) == 2
