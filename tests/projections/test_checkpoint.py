"""Rows and checkpoint move together, up to the event that can't be handled and no further."""

import pickle
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from alloc_es import (
    AllocationError,
    Allocations,
    Column,
    ProjectionBehind,
    ProjectionNotBuilt,
    ProjectionOutdated,
    ProjectionStopped,
    Recorded,
    Rows,
    TriggerLost,
)
from alloc_es.applying import Changes
from tests.projections.models import SEEN, refusing, seen
from tests.projections.reading import folded, model, query, rows
from tests.projections.writing import spawn
from tests.support.raw import DECISIONS, raw

COUNTED = Column("counted", "integer", "A number.")


def decide(allocations: Allocations, *workflows: str) -> None:
    for name in workflows:
        allocations.workflow("acme", name).start("v1")


def positions(allocations: Allocations, name: str) -> list[tuple[Any, ...]]:
    statement = "SELECT decisions_position, runs_position FROM projection_builds WHERE name = ?"
    return query(allocations, statement, name)


def test_a_checkpoint_stays_where_its_rows_were_not_written(
    allocations: Allocations, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Red when the checkpoint moves in a transaction of its own: what was not written would
    be missing for ever.
    """
    models = allocations.projections(seen())
    decide(allocations, "a", "b")
    models.catch_up("seen")
    before = positions(allocations, "seen"), rows(allocations, "seen")
    decide(allocations, "c")

    def broken(self: Changes, session: Any) -> None:
        make(self, session)
        raise KeyboardInterrupt

    make = Changes.make
    with monkeypatch.context() as patch:
        patch.setattr(Changes, "make", broken)
        with pytest.raises(KeyboardInterrupt):
            models.catch_up("seen")
        assert (positions(allocations, "seen"), rows(allocations, "seen")) == before
    models.catch_up("seen")
    assert model(allocations, seen()) == folded(allocations, seen())


def test_what_comes_before_a_bad_event_is_applied_and_others_go_on(
    allocations: Allocations,
) -> None:
    """Red when a bad event fails its whole batch, or every projection behind it."""
    bad = seen(refusing(lambda entry: entry.event.key.workflow_id == "f"))
    decide(allocations, *"abcdefghij")
    with pytest.raises(ProjectionStopped) as raised:
        allocations.projections(bad).catch_up()
    stopped = raised.value
    assert (stopped.name, stopped.log, stopped.position) == ("seen", "decisions", 6)
    assert stopped.event == "event 1 of allocation/acme/f"
    assert stopped.error.startswith("LookupError: no rate for f at models.py:")
    status = {each.name: each for each in allocations.projections(bad).status()}
    assert status["seen"].standing == "stopped"
    assert str(status["seen"].failure) == str(stopped)
    assert status["seen"].rebuilding == {"decisions": 5}
    assert status["current_split"].standing == "live"
    assert len(rows(allocations, "current_split")) == 10
    assert len(rows(allocations, "seen__1")) == 5


def test_a_live_model_that_is_stopped_goes_on_when_its_code_is_mended(
    allocations: Allocations,
) -> None:
    """Red when a failure is kept behind the event that it was of."""
    decide(allocations, *"ab")
    allocations.projections(seen()).catch_up("seen")
    decide(allocations, *"cdef")
    bad = seen(refusing(lambda entry: entry.event.key.workflow_id == "e"))
    for _ in range(2):
        with pytest.raises(ProjectionStopped, match="position 5 of the decisions"):
            allocations.projections(bad).catch_up("seen")
        assert [row[1] for row in rows(allocations, "seen", "position")] == [*"abcd"]
    (status,) = (s for s in allocations.projections(bad).status() if s.name == "seen")
    assert (status.standing, status.positions, status.behind) == (
        *("stopped", {"decisions": 4}, {"decisions": 2}),
    )
    allocations.projections(seen()).catch_up("seen")
    assert model(allocations, seen()) == folded(allocations, seen())
    (status,) = (s for s in allocations.projections(seen()).status() if s.name == "seen")
    assert (status.standing, status.failure, status.behind) == ("live", None, {"decisions": 0})


BAD_ROWS: dict[str, Any] = {
    "a key that is taken": lambda e: [(*e.event.key, e.position)] * 2,
    "nothing where something must be": lambda e: [(*e.event.key, None)],
    "too few values": lambda e: [e.event.key],
    "a number that is too large": lambda e: [(*e.event.key, 2**70)],
}


@pytest.mark.parametrize("how", BAD_ROWS)
def test_a_row_that_the_database_refuses_stops_the_projection_that_made_it(
    allocations: Allocations, how: str
) -> None:
    """Red when a row's fault is taken for the store's, which would be waited for in vain."""

    def apply(events: Sequence[Recorded[Any]], rows: Rows) -> None:
        for entry in events:
            is_bad = entry.event.key.workflow_id == "b"
            rows.insert("seen", BAD_ROWS[how](entry) if is_bad else [_row(entry)])

    decide(allocations, *"abc")
    with pytest.raises(ProjectionStopped) as raised:
        allocations.projections(seen(apply)).catch_up("seen")
    assert raised.value.position == 2
    assert [row[1] for row in rows(allocations, "seen__1")] == ["a"]


def _row(entry: Recorded[Any]) -> tuple[Any, ...]:
    return (*entry.event.key, entry.position)


def test_an_event_that_can_not_be_read_stops_a_projection_in_front_of_it(
    durable: Allocations, durable_url: str
) -> None:
    """Red when an unreadable event is passed over, or hides those before it."""
    decide(durable, *"ab")
    with raw(durable_url) as database:
        database.insert(DECISIONS, ("allocation/acme/c", 1, "Unheard", b"{}"))
    with pytest.raises(ProjectionStopped) as raised:
        durable.projections().catch_up()
    stopped = raised.value
    assert (stopped.log, stopped.position, stopped.event) == (
        *("decisions", 3, "event 1 of allocation/acme/c"),
    )
    assert "its type is not known here" in stopped.error
    standings = {each.name: each for each in durable.projections().status()}
    assert standings["run_ledger"].standing == "live"
    assert standings["current_split"].standing == "stopped"
    assert standings["current_split"].rebuilding == {"decisions": 2}


def test_an_unreadable_event_leaves_a_live_model_with_all_that_came_before(
    durable: Allocations, durable_url: str
) -> None:
    """Red when readers lose the rows of a model that is stopped."""
    decide(durable, *"ab")
    durable.projections().catch_up()
    with raw(durable_url) as database:
        database.insert(DECISIONS, ("allocation/acme/c", 1, "Unheard", b"{}"))
    with pytest.raises(ProjectionStopped):
        durable.projections().catch_up("current_split")
    with pytest.raises(ProjectionStopped):
        durable.projections().rebuild("current_split")
    assert [row[1] for row in rows(durable, "current_split")] == [*"ab"]
    assert durable.projections().verify("current_split").difference is None


def test_a_purged_tenants_bad_event_stops_nobody(allocations: Allocations) -> None:
    """Red when the events of a tenant that is left out are applied before they are."""
    decide(allocations, "a")
    allocations.projections(seen()).catch_up("seen")
    bad = seen(refusing(lambda entry: entry.event.key.workflow_id == "b"))
    decide(allocations, "b", "c")
    models = allocations.projections(bad)
    with pytest.raises(ProjectionStopped):
        models.catch_up("seen")
    models.purge("seen", "acme")
    models.catch_up("seen")
    assert rows(allocations, "seen") == []


def test_a_batch_of_a_thousand_is_not_the_end(allocations: Allocations) -> None:
    """Red when what is read ahead is applied twice, left out, or believed to be the end."""
    workflow = allocations.workflow("acme", "triage")
    workflow.start("v1")
    spawn(allocations, workflow, [str(number) for number in range(2_000)])
    models = allocations.projections()
    models.catch_up("run_ledger")
    assert query(allocations, "SELECT count(*), sum(runs) FROM run_counts") == [(1, 2_000)]
    spawn(allocations, workflow, ["one more"])
    models.catch_up("run_ledger")
    assert query(allocations, "SELECT count(*) FROM run_ledger") == [(2_001,)]


def test_put_add_and_remove_do_what_they_say(allocations: Allocations) -> None:
    """Red when an order of changes, or of columns, is not that in which they were asked for."""
    table = replace(
        SEEN,
        columns=(COUNTED, *SEEN.columns, Column("at", "time", "When.", optional=True)),
        key=("tenant_id", "workflow_id"),
    )
    sums = replace(SEEN, name="sums", columns=(COUNTED, *SEEN.columns[:2]), key=("tenant_id",))
    sums = replace(sums, key=("tenant_id", "workflow_id"))
    when = datetime(2026, 3, 1, 12, tzinfo=UTC)

    def apply(events: Sequence[Recorded[Any]], rows: Rows) -> None:
        for entry in events:
            key, gone = entry.event.key, entry.event.key._replace(workflow_id="a")
            rows.insert("seen", [(1, *key, entry.position, None)])
            rows.put("seen", [(2, *key, 9, None), (3, *key, entry.position, when)])
            rows.add("sums", {key: (entry.position,)})
            rows.add("sums", {key: (100,)})
            if key.workflow_id == "b":
                rows.remove("seen", [gone])
                rows.remove("sums", [])
            assert {row[2] for row in rows.of("seen", [gone, gone])} <= {"a"}

    own = seen(apply, tables=(table, sums))
    decide(allocations, *"abc")
    allocations.projections(own).catch_up("seen")
    text = "2026-03-01T12:00:00.000000Z"
    assert rows(allocations, "seen") == [(3, "acme", "b", 2, text), (3, "acme", "c", 3, text)]
    assert rows(allocations, "sums") == [(100 + p, "acme", n) for p, n in enumerate("abc", start=1)]


@pytest.mark.parametrize(
    "error",
    [
        ProjectionStopped("p", log="runs", position=3, event="event 1 of run/a/b", error="no"),
        ProjectionOutdated("p", built=1, known=2),
        ProjectionOutdated("p", built=2, known=1),
        ProjectionNotBuilt("p"),
        ProjectionBehind("p", log="runs", position=3, reached=None, seconds=10.0),
        ProjectionBehind("p", log="runs", position=3, reached=2, seconds=0.5),
        TriggerLost("loop", 3),
    ],
    ids=lambda error: type(error).__name__,
)
def test_errors_of_the_read_side_survive_pickling(error: AllocationError) -> None:
    """Red when a fact is not a field, or the message alone is restored."""
    copy = pickle.loads(pickle.dumps(error))
    assert (type(copy), str(copy), copy.__dict__) == (type(error), str(error), error.__dict__)
    assert error.__dict__.keys() >= {"name"} or isinstance(error, TriggerLost)
