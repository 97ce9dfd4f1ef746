"""What is appended is read back, in order, whole, and once."""

from collections.abc import Callable
from datetime import datetime
from functools import partialmethod
from itertools import pairwise

import pytest
from eventsourcing.persistence import RecordConflictError

from alloc_es import (
    AllocationCommitted,
    Allocations,
    GenerationConflict,
    InvalidSetting,
    Routing,
    RunSpawned,
    UnknownWorkflow,
    Workflow,
    connect,
)
from alloc_es.clock import Patience
from alloc_es.store import log, open_store


def decide_everything(workflow: Workflow) -> list[object]:
    """Send one command of every kind to a workflow at generation 1; the events they made."""
    return [
        committed.event
        for committed in (
            workflow.register_challenger("v2", share_bps=500, reason="a\n“reason” with 🦜"),
            workflow.commit_allocation({"v2": 1_000}),
            workflow.reject_challenger("v2", replacement="v3"),
            workflow.promote_challenger("v3"),
            workflow.register_challenger("v4"),
            workflow.reject_challenger("v4"),
            workflow.roll_back(to_generation=1),
        )
    ]


def test_every_kind_of_decision_is_read_back_equal_and_in_order(workflow: Workflow) -> None:
    """Red when `EventLog.stream` reads newest first."""
    (started,) = [recorded.event for recorded in workflow.history()]
    events = decide_everything(workflow)
    assert [recorded.event for recorded in workflow.history()] == [started, *events]


def test_generations_are_contiguous_and_the_newest_is_the_allocation(workflow: Workflow) -> None:
    """Red when `newest` reads the first event of a stream instead of the last."""
    decide_everything(workflow)
    history = workflow.history()
    assert [recorded.generation for recorded in history] == list(range(1, 9))
    assert workflow.allocation() == history[-1].event.allocation


def test_a_run_is_read_back_equal(workflow: Workflow, allocations: Allocations) -> None:
    """Red when `Spawner.find` does not mark what it found as recorded before."""
    workflow.register_challenger("v2")
    spawned = [workflow.spawn_run(f"run-{i}", unit=f"unit-{i}") for i in range(3)]
    assert [recorded.event for recorded in allocations.runs()] == spawned
    assert workflow.find_run("run-1") == spawned[1].model_copy(update={"replayed": True})


def test_positions_rise_in_commit_order_across_streams(allocations: Allocations) -> None:
    """Red when SQLite reads a page in any other order than that of positions."""
    keys = [("acme", "z"), ("acme", "a"), ("beta", "z"), ("acme", "m")]
    workflows = [allocations.workflow(*key) for key in keys]
    events = [workflow.start("v1").event for workflow in workflows]
    events += [workflow.register_challenger("v2").event for workflow in reversed(workflows)]
    recorded = list(allocations.decisions())
    assert [each.event for each in recorded] == events
    assert all(one.position < next_.position for one, next_ in pairwise(recorded))
    assert allocations.position() == recorded[-1].position


def test_runs_and_decisions_have_positions_of_their_own(
    workflow: Workflow, allocations: Allocations
) -> None:
    """Red when both logs of a store get the recorder of one table."""
    workflow.spawn_run("run-1")
    workflow.spawn_run("run-2")
    assert [each.event.generation for each in allocations.decisions()] == [1]
    assert [each.event.run_id for each in allocations.runs()] == ["run-1", "run-2"]


def test_a_scan_goes_on_behind_any_position_and_over_every_page(
    workflow: Workflow, allocations: Allocations, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Red when `scan` stops after its first page."""
    monkeypatch.setattr(log.EventLog, "batch", partialmethod(log.EventLog.batch, limit=3))
    decide_everything(workflow)
    recorded = list(allocations.decisions())
    assert [each.generation for each in recorded] == list(range(1, 9))
    for index, each in enumerate(recorded):
        assert list(allocations.decisions(after=each.position)) == recorded[index + 1 :]


def test_a_conflict_is_typed_and_nothing_is_stored(
    workflow: Workflow, allocations: Allocations
) -> None:
    """Red when `Committer` decides on the state it finds in spite of a stale expectation."""
    winner = workflow.register_challenger("v2", actor="bea").event
    before = list(allocations.decisions())
    with pytest.raises(GenerationConflict) as refused:
        workflow.commit_allocation({"v2": 700}, expected_generation=1)
    conflict = refused.value
    assert (conflict.expected, conflict.actual, conflict.winner) == (1, 2, winner)
    assert (conflict.still_legal, conflict.lost_at_commit) == (True, False)
    assert list(allocations.decisions()) == before


def test_an_expectation_from_the_future_is_a_conflict_too(workflow: Workflow) -> None:
    """Red when only a smaller expected generation counts as stale."""
    with pytest.raises(GenerationConflict) as refused:
        workflow.register_challenger("v2", expected_generation=7)
    assert (refused.value.expected, refused.value.actual) == (7, 1)
    assert len(workflow.history()) == 1


def test_a_taken_place_is_refused_by_the_log_itself(store_url: str) -> None:
    """Red when PostgreSQL's table loses its key on stream and version."""
    with pytest.raises(RecordConflictError):
        append_twice(store_url, version=1, command_id="another")


def test_a_taken_command_id_is_refused_by_the_log_itself(store_url: str) -> None:
    """Red when PostgreSQL's index on stream and command id is not unique."""
    with pytest.raises(RecordConflictError):
        append_twice(store_url, version=2, command_id="first")


def append_twice(url: str, *, version: int, command_id: str) -> None:
    """Append an event with command id "first", then one like it at this version."""
    store = open_store(url, patience=Patience(5), migrate=True)
    try:
        event = started_event()
        store.decisions.append(event)
        allocation = event.allocation.model_copy(update={"generation": version})
        changes = {"allocation": allocation, "command_id": command_id}
        try:
            store.decisions.append(event.model_copy(update=changes))
        finally:
            assert [each.event for each in store.decisions.batch(0).events] == [event]
    finally:
        store.close()


def started_event() -> AllocationCommitted:
    with connect("memory:") as allocations:
        event = allocations.workflow("acme", "triage").start("v1", command_id="first").event
    assert isinstance(event, AllocationCommitted)
    return event


def test_a_list_holds_the_newest_allocation_of_each_workflow_of_the_tenant_alone(
    allocations: Allocations,
) -> None:
    """Red when a tenant's prefix loses its closing slash."""
    keys = [("acme", "a"), ("acme", "b"), ("acme2", "a"), ("acme/a", "a"), ("ac_e", "a")]
    for key in keys:
        allocations.workflow(*key).start("v1")
        allocations.workflow(*key).register_challenger("v2")
    everything = [allocations.workflow(*key).allocation() for key in keys]
    assert allocations.list("acme") == everything[:2]
    assert allocations.list("ac_e") == everything[4:]
    assert allocations.list() == sorted(everything, key=lambda each: each.key)
    assert allocations.list("nobody") == []


def test_what_was_never_started_is_unknown_and_asking_creates_nothing(
    allocations: Allocations,
) -> None:
    """Red when a question about an unknown workflow answers with an empty list."""
    workflow = allocations.workflow("acme", "triage")
    questions: list[Callable[[], object]] = [
        workflow.allocation,
        workflow.history,
        lambda: workflow.peek("unit"),
    ]
    for question in questions:
        with pytest.raises(UnknownWorkflow):
            question()
    with pytest.raises(UnknownWorkflow):
        workflow.spawn_run("run-1")
    assert workflow.find_run("run-1") is None
    assert (allocations.position(), list(allocations.runs()), allocations.list()) == (0, [], [])


def test_a_peek_routes_as_a_run_would_and_records_nothing(
    workflow: Workflow, allocations: Allocations
) -> None:
    """Red when `Spawner` routes a run by its id instead of its unit."""
    workflow.register_challenger("v2", share_bps=5_000)
    peeked = [workflow.peek(f"unit-{i}") for i in range(20)]
    assert not list(allocations.runs())
    spawned = [workflow.spawn_run(f"run-{i}", unit=f"unit-{i}") for i in range(20)]
    assert [allotment(each) for each in spawned] == [allotment(each) for each in peeked]


def allotment(routed: RunSpawned | Routing) -> tuple[object, ...]:
    return (routed.version, routed.arm, routed.bucket, routed.slot, routed.salt, routed.generation)


@pytest.mark.parametrize("now", [None, 17, "2026-03-01", datetime(2026, 3, 1)])  # noqa: DTZ001
def test_a_clock_that_says_no_time_with_its_zone_is_refused(store_url: str, now: object) -> None:
    """Red when `connect` hands a clock on as it is."""
    with connect(store_url, clock=lambda: now) as allocations:  # type: ignore[arg-type,return-value]
        workflow = allocations.workflow("acme", "triage")
        with pytest.raises(InvalidSetting) as refused:
            workflow.start("v1")
        assert refused.value.setting == "clock"
        assert allocations.position() == 0
