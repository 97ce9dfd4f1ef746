"""A run id stands for one run of one workflow inside its tenant."""

from datetime import UTC, datetime

import pytest

from alloc_es import Allocations, RunIdTaken, RunSpawned, Workflow, connect
from tests.support.overlap import in_threads
from tests.support.recorders import meet_before_recording


def test_a_known_run_id_returns_the_recorded_allotment_marked_as_such(
    workflow: Workflow, allocations: Allocations
) -> None:
    """Red when a run's answer is what was routed instead of what was found recorded."""
    first = workflow.spawn_run("run-1", unit="unit-1", actor="ada")
    workflow.register_challenger("v2")
    workflow.promote_challenger("v2")
    again = workflow.spawn_run("run-1", unit="unit-2", actor="bea")
    assert (first.replayed, again.replayed) == (False, True)
    assert again == first.model_copy(update={"replayed": True})
    assert (again.version, again.generation, again.unit, again.actor) == ("v1", 1, "unit-1", "ada")
    assert [each.event for each in allocations.runs()] == [first]


def test_a_run_id_is_unique_in_its_tenant_and_free_in_others(allocations: Allocations) -> None:
    """Red when a run's stream is named without its tenant."""
    mine, sibling, other = (
        allocations.workflow(*key) for key in [("acme", "a"), ("acme", "b"), ("beta", "a")]
    )
    for workflow in (mine, sibling, other):
        workflow.start("v1")
    run = mine.spawn_run("run-1")
    with pytest.raises(RunIdTaken) as refused:
        sibling.spawn_run("run-1")
    assert (refused.value.recorded.run_id, refused.value.recorded.key) == ("run-1", mine.key)
    assert refused.value.asked == sibling.key
    assert not other.spawn_run("run-1").replayed
    assert [each.event.key for each in allocations.runs()] == [run.key, other.key]


def test_a_run_of_another_workflow_is_not_found_but_refused(allocations: Allocations) -> None:
    """Red when `Spawner.find` returns a run whatever workflow it belongs to."""
    mine, sibling = (allocations.workflow("acme", each) for each in "ab")
    mine.start("v1")
    mine.spawn_run("run-1")
    with pytest.raises(RunIdTaken):
        sibling.find_run("run-1")


def test_spawning_moves_no_generation(workflow: Workflow, allocations: Allocations) -> None:
    """Red when both logs of a store get the recorder of one table."""
    before = allocations.position()
    for index in range(5):
        workflow.spawn_run(f"run-{index}")
    assert (workflow.allocation().generation, allocations.position()) == (1, before)


def test_a_unit_is_the_run_itself_unless_given(workflow: Workflow) -> None:
    """Red when the default unit is anything but the run id."""
    run = workflow.spawn_run("run-1")
    assert (run.unit, run.bucket) == ("run-1", workflow.peek("run-1").bucket)


def test_two_connections_that_race_with_one_run_id_record_one_run(
    durable_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Red when the loser of a race returns the run that it routed itself."""
    with connect(durable_url) as one, connect(durable_url) as other:
        handles = [each.workflow("acme", "triage") for each in (one, other)]
        handles[0].start("v1")
        barrier = meet_before_recording(monkeypatch, parties=2)
        runs = in_threads(
            lambda: handles[0].spawn_run("run-1", unit="unit-0"),
            lambda: handles[1].spawn_run("run-1", unit="unit-1"),
        )
        assert not barrier.broken
        (recorded,) = [each.event for each in one.runs()]
    assert all(isinstance(run, RunSpawned) for run in runs), runs
    replayed = recorded.model_copy(update={"replayed": True})
    assert runs in ([recorded, replayed], [replayed, recorded])


def test_a_known_run_is_marked_as_such_though_the_clock_stands_still(store_url: str) -> None:
    """Red when a run is taken for new because it equals the one that was recorded."""
    with connect(store_url, clock=lambda: datetime(2026, 3, 1, tzinfo=UTC)) as allocations:
        workflow = allocations.workflow("acme", "triage")
        workflow.start("v1")
        assert [workflow.spawn_run("run-1").replayed for _ in range(3)] == [False, True, True]
