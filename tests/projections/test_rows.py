"""The rows of the installed projections for small histories, column by column."""

import json

import pytest

from alloc_es import Allocations
from tests.projections.reading import columns, plain, rows
from tests.projections.writing import at_second, spawn

COLUMNS = {
    "current_split": "tenant_id workflow_id generation position current current_share_bps"
    " challengers episode last_decision decided_by reason decided_at",
    "current_arms": "tenant_id workflow_id version arm share_bps since_generation since",
    "run_ledger": "tenant_id workflow_id run_id version arm generation episode unit bucket actor"
    " recorded_at position decision_position",
    "run_counts": "tenant_id workflow_id episode generation arm version runs",
    "decisions": "tenant_id workflow_id generation position decision what current split"
    " decided_by reason decided_at command_id",
    "tenures_open": "tenant_id workflow_id version since_generation role since",
    "tenures_closed": "tenant_id workflow_id version since_generation role since"
    " until_generation until outcome",
    "tenure_runs": "tenant_id workflow_id version generation runs",
    "decision_history": "tenant_id workflow_id generation position decision what current_before"
    " current_after split_before split_after decided_by reason decided_at command_id",
    "tenures": "tenant_id workflow_id version since_generation role since until_generation until"
    " outcome runs",
    "rejections": "tenant_id workflow_id generation position version reason rejected_by"
    " rejected_at remaining remaining_challengers",
    "generate_triggers": "tenant_id workflow_id generation position version reason rejected_by"
    " rejected_at remaining remaining_challengers consumer delivery attempts worker"
    " acknowledged_at",
}
"""What people and tools query by: a column that is renamed or moved breaks them."""


def second(number: int) -> str:
    """What a time of the tests' clock is told as."""
    (text,) = plain([at_second(number)])
    return str(text)


def test_the_columns_of_the_public_views_stay_what_they_are(allocations: Allocations) -> None:
    """Red when a column is renamed, moved, added or left out without a thought."""
    allocations.projections().catch_up()
    known = allocations.projections().known.values()
    assert {name for projection in known for name in projection.relations} == COLUMNS.keys()
    for relation, names in COLUMNS.items():
        assert columns(allocations, relation) == names.split()


@pytest.fixture
def tournament(allocations: Allocations) -> Allocations:
    """Two tenants with a workflow of one name; seconds 1 to 4 and 5 to 8 by the clock."""
    for tenant, current in (("acme", "v1"), ("beta", "w1")):
        workflow = allocations.workflow(tenant, "a/b")
        workflow.start(current)
        workflow.register_challenger("v2", 1_000, reason="cheaper")
        workflow.register_challenger("v3", 500, actor="bob")
        workflow.commit_allocation({"v2": 0, "v3": 2_500})
    return allocations


def test_current_split_has_the_newest_decision_of_each_workflow(tournament: Allocations) -> None:
    """Red when a column holds another field, or a row is that of an older decision."""
    tournament.projections().catch_up("current_split")
    assert rows(tournament, "current_split", "tenant_id") == [
        ("acme", "a/b", 4, 4, "v1", 7_500, 2, 1, "gave v2 0%, v3 25%", "ada", "", second(4)),
        ("beta", "a/b", 4, 8, "w1", 7_500, 2, 1, "gave v2 0%, v3 25%", "ada", "", second(8)),
    ]
    assert rows(tournament, "current_arms", "tenant_id, arm DESC, version")[:3] == [
        ("acme", "a/b", "v1", "control", 7_500, 1, second(1)),
        ("acme", "a/b", "v2", "challenger", 0, 2, second(2)),
        ("acme", "a/b", "v3", "challenger", 2_500, 3, second(3)),
    ]


def test_current_split_follows_a_promotion_that_leaves_a_challenger(
    tournament: Allocations,
) -> None:
    """Red when the arms of an earlier decision stay beside those of the newest."""
    tournament.projections().catch_up("current_split")
    workflow = tournament.workflow("acme", "a/b")
    workflow.promote_challenger("v3", reason="it won", actor="bob")
    (time,) = plain([workflow.newest().time])
    state = workflow.allocation()
    tournament.projections().catch_up("current_split")
    assert rows(tournament, "current_split", "tenant_id")[0] == (
        *(
            "acme",
            "a/b",
            5,
            9,
            "v3",
            state.control.share_bps,
            len(state.challengers),
            state.episode,
        ),
        *("promoted v3", "bob", "it won", time),
    )
    assert [row[2:6] for row in rows(tournament, "current_arms") if row[0] == "acme"] == sorted(
        (arm.version, arm.name, arm.share_bps, arm.since_generation) for arm in state.arms
    )


def test_run_ledger_has_a_row_for_each_run_and_counts_them_by_arm(tournament: Allocations) -> None:
    """Red when a column holds another field, a run is counted twice, or two tenants' are mixed."""
    for tenant in ("acme", "beta"):
        workflow = tournament.workflow(tenant, "a/b")
        spawn(tournament, workflow, [f"run {number}" for number in range(12)])
    tournament.workflow("acme", "a/b").spawn_run("éé", unit="customer 1", actor="bob")
    tournament.projections().catch_up("run_ledger")
    expected, counts = [], dict[tuple[object, ...], int]()
    for entry in tournament.runs():
        run = entry.event
        (time,) = plain([run.recorded_at])
        expected.append(
            (
                *(run.tenant_id, run.workflow_id, run.run_id, run.version, run.arm),
                *(run.generation, run.episode, run.unit, run.bucket, run.actor, time),
                *(entry.position, run.decision_position),
            )
        )
        place = (*run.key, run.episode, run.generation, run.arm, run.version)
        counts[place] = counts.get(place, 0) + 1
    ledger = rows(tournament, "run_ledger", "position")
    assert ledger == expected
    assert ledger[-1][:3] + ledger[-1][7:8] == ("acme", "a/b", "éé", "customer 1")
    assert {row[4] for row in ledger} == {"control", "challenger"}
    assert rows(tournament, "run_counts") == sorted((*p, n) for p, n in counts.items())
    assert sum(counts.values()) == 25


def test_generate_triggers_has_each_rejection_and_who_was_handed_it(
    tournament: Allocations,
) -> None:
    """Red when a replaced or promoted challenger is a trigger, or a delivery is another's."""
    workflow = tournament.workflow("acme", "a/b")
    workflow.reject_challenger("v2", reason="worse", actor="bob")
    workflow.reject_challenger("v3", replacement="v4")
    workflow.reject_challenger("v4")
    tournament.workflow("beta", "a/b").promote_challenger("v2")
    models = tournament.projections()
    models.catch_up("generate_triggers")
    first = ("acme", "a/b", 5, 9, "v2", "worse", "bob", second(9), 1, json.dumps(["v3"]))
    then = ("acme", "a/b", 7, 11, "v4", "", "ada", second(11), 0, "[]")
    assert rows(tournament, "rejections", "position") == [first, then]
    nobody = (None, None, 0, None, None)
    assert rows(tournament, "generate_triggers", "position") == [first + nobody, then + nobody]
    with tournament.triggers("loop", follow=False) as triggers:
        (trigger, _) = triggers
        triggers.acknowledge(trigger)
        handed = rows(tournament, "generate_triggers", "position")
    assert [row[10:13] for row in handed] == [("loop", "acknowledged", 1), ("loop", "held", 1)]
    with tournament.triggers("late", begin="now", follow=False):
        pass
    workflow.register_challenger("v5")
    workflow.reject_challenger("v5")
    models.catch_up("generate_triggers")
    told = {(row[3], *row[10:12]) for row in rows(tournament, "generate_triggers", "position")}
    assert {each for each in told if each[1] == "late"} == {(14, "late", "pending")}
    assert (14, "loop", "pending") in told
