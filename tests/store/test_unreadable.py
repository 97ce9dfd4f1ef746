"""A stored event that this release can't read stops whoever meets it, with its place."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from alloc_es import Allocations, UnreadableEvent, connect
from tests.support.raw import DECISIONS, RUNS, Raw, raw

Tamper = Callable[[dict[str, Any]], object]

UNROUTABLE = "allocation: Value error, its slots are not all buckets, each once"

TAMPERED: dict[str, tuple[Tamper, str]] = {
    "a schema version from the future": (
        lambda fields: fields.update(schema_version=3),
        "its schema version is 3, known is 2",
    ),
    "no schema version": (
        lambda fields: fields.pop("schema_version"),
        "its schema version is None, not a number from 1 up",
    ),
    "an unknown field": (
        lambda fields: fields.update(priority=1),
        "priority: Extra inputs are not permitted",
    ),
    "a missing field": (lambda fields: fields.pop("actor"), "actor: Field required"),
    "another generation": (
        lambda fields: fields["allocation"].update(generation=3),
        "it says that it is event 3 of allocation/acme/triage",
    ),
    "another tenant": (
        lambda fields: fields["allocation"].update(tenant_id="beta"),
        "it says that it is event 2 of allocation/beta/triage",
    ),
    "an unknown hash": (
        lambda fields: fields["allocation"].update(hash_version=99),
        "allocation: Value error, hash version 99 is not known here",
    ),
    "no slots": (lambda fields: give_slots(fields, []), UNROUTABLE),
    "slots with a hole": (lambda fields: give_slots(fields, [[0, 400]]), UNROUTABLE),
    "slots of two arms": (lambda fields: give_slots(fields, [[0, 600]]), UNROUTABLE),
    "an empty slot": (lambda fields: give_slots(fields, [[0, 500], [500, 500]]), UNROUTABLE),
}


def give_slots(fields: dict[str, Any], slots: list[list[int]]) -> None:
    """Let the challenger, which has the first 500 buckets, have others."""
    fields["allocation"]["arms"][1]["slots"] = slots


@pytest.mark.parametrize("how", TAMPERED)
def test_a_tampered_decision_is_unreadable_and_named(durable_url: str, how: str) -> None:
    """Red when `codec.decode` takes an event wherever it lies."""
    tamper, problem = TAMPERED[how]
    with connect(durable_url) as allocations, raw(durable_url) as database:
        plant(allocations, database, "ChallengerRegistered", tamper)
        assert unreadable(allocations).unreadable == problem


def test_an_unknown_decision_is_unreadable_and_named(durable_url: str) -> None:
    """Red when `codec.decode` takes a name that it does not know for any it knows."""
    with connect(durable_url) as allocations, raw(durable_url) as database:
        plant(allocations, database, "ChallengerPaused", lambda _: None)
        error = unreadable(allocations)
    assert (error.topic, error.unreadable) == ("ChallengerPaused", "its type is not known here")
    assert not error.retryable


def test_an_unreadable_decision_stops_commands_and_runs(durable_url: str) -> None:
    """Red when `codec.decode` takes an event wherever it lies."""
    with connect(durable_url) as allocations, raw(durable_url) as database:
        plant(allocations, database, "ChallengerRegistered", TAMPERED["another tenant"][0])
        workflow = allocations.workflow("acme", "triage")
        before = database.rows(DECISIONS)
        for call in (lambda: workflow.promote_challenger("v2"), lambda: workflow.spawn_run("r")):
            with pytest.raises(UnreadableEvent):
                call()
        assert (database.rows(DECISIONS), database.rows(RUNS)) == (before, [])


def test_a_tampered_run_is_unreadable_and_named(durable_url: str) -> None:
    """Red when a run's event is taken for the one that was asked for, wherever it lies."""
    with connect(durable_url) as allocations, raw(durable_url) as database:
        workflow = allocations.workflow("acme", "triage")
        workflow.start("v1")
        workflow.spawn_run("run-1")
        (row,) = database.rows(RUNS)
        database.insert(RUNS, ("run/acme/run-2", 1, *row[3:]))
        with pytest.raises(UnreadableEvent) as raised:
            workflow.spawn_run("run-2")
        with pytest.raises(UnreadableEvent):
            list(allocations.runs())
    error = raised.value
    assert (error.stream, error.version, error.topic) == ("run/acme/run-2", 1, "RunSpawned")
    assert error.unreadable == "it says that it is event 1 of run/acme/run-1"


def plant(allocations: Allocations, database: Raw, topic: str, tamper: Tamper) -> None:
    """Put an event made from a genuine one, and tampered with, at generation 2."""
    with connect("memory:") as elsewhere:
        workflow = elsewhere.workflow("acme", "triage")
        workflow.start("v1")
        event = workflow.register_challenger("v2").event
    assert event is not None
    allocations.workflow("acme", "triage").start("v1")
    fields = event.model_dump(mode="json") | {"schema_version": 2}
    tamper(fields)
    database.insert(DECISIONS, (event.originator_id, 2, topic, json.dumps(fields).encode()))


def unreadable(allocations: Allocations) -> UnreadableEvent:
    """What every way to read the event at generation 2 raises, which is the same for all."""
    workflow = allocations.workflow("acme", "triage")
    ways: list[Callable[[], object]] = [
        workflow.allocation,
        workflow.history,
        allocations.list,
        lambda: list(allocations.decisions()),
    ]
    errors = []
    for way in ways:
        with pytest.raises(UnreadableEvent) as raised:
            way()
        errors.append(raised.value)
    assert len({str(error) for error in errors}) == 1
    assert (errors[0].stream, errors[0].version) == (workflow.key.stream, 2)
    return errors[0]
