"""Mistakes of a projection's author: told as such, alike on every store, never as an outage."""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

import pytest

from alloc_es import Allocations, Projection, ProjectionStopped, Recorded, Rows, StoreUnavailable
from alloc_es.tables import Column, Table
from tests.projections.models import SEEN, note, seen

KEY = ("acme", "triage")
TIMED = Table(
    "timed",
    "Rows of all kinds.",
    (*SEEN.columns, Column("at", "time", "When."), Column("said", "text", "What.", optional=True)),
    key=SEEN.key,
)
NOON = datetime.fromisoformat("2026-03-01T12:00:00+00:00")


def timed(*row: object) -> Projection:
    """A projection that writes one row of all kinds."""

    def apply(_: Sequence[Recorded[Any]], rows: Rows) -> None:
        rows.put("timed", [row])

    return seen(apply, tables=(TIMED,))


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ((*KEY, True, NOON, None), "position is True, not an integer"),
        ((*KEY, 1.5, NOON, None), "position is 1.5, not an integer"),
        ((*KEY, None, NOON, None), "position is None, not an integer"),
        ((*KEY, 1, NOON.replace(tzinfo=None), None), "not one with its time zone"),
        ((*KEY, 1, "2026-03-01", None), "at is '2026-03-01', not a time"),
        ((*KEY, 1, NOON, ["q"]), "said is ['q'], not a text"),
        ((*KEY, 1, NOON, b"q"), "said is b'q', not a text"),
        ((*KEY, 1, NOON, "a\0b"), "with a NUL character"),
    ],
)
def test_a_value_that_is_none_of_its_column_is_refused_in_the_same_words(
    allocations: Allocations, row: tuple[object, ...], problem: str
) -> None:
    """Red when a database converts it, or says in its own words what is wrong."""
    assert problem in error_of(allocations, timed(*row))


def test_what_a_column_takes_is_given_back(allocations: Allocations) -> None:
    """Red when a value comes back as another one."""
    allocations.workflow(*KEY).start("v1")
    projections = allocations.projections(timed(*KEY, 2**63 - 1, NOON, None))
    projections.catch_up("seen")
    (row,) = projections.rows("timed")
    assert tuple(row.values()) == (*KEY, 2**63 - 1, NOON, None)
    assert projections.verify("seen").difference is None


def asking_in_parts(_: Any, rows: Rows) -> None:
    rows.of("seen", [("acme", "triage", "more")])  # type: ignore[list-item]


def asking_for_numbers(_: Any, rows: Rows) -> None:
    rows.remove("seen", [(1, 2)])  # type: ignore[list-item]


def adding_too_much(_: Any, rows: Rows) -> None:
    rows.add("seen", {(*KEY, 1, 2): ()})


def adding_to_a_time(_: Any, rows: Rows) -> None:
    rows.add("timed", {(*KEY, 1): (NOON, "a")})


def generating(_: Any, rows: Rows) -> Any:
    yield rows


def saying_nothing_that_can_be_said(*_: object) -> None:
    raise ValueError("bad \0 and \ud800")


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError


def failing_to_say(*_: object) -> None:
    raise Unspeakable


def meeting_another_store(*_: object) -> None:
    raise StoreUnavailable("theirs is down")


@pytest.mark.parametrize(
    ("apply", "problem"),
    [
        (asking_in_parts, "TypeError"),
        (asking_for_numbers, "can't be a tenant id"),
        (adding_too_much, "4 values of a key and 0 to add, for 3 and 0"),
        (adding_to_a_time, "only integers can be added"),
        (generating, "it must be a plain function"),
        (saying_nothing_that_can_be_said, "bad \\0 and \\ud800"),
        (failing_to_say, "Unspeakable: it can't be told"),
        (meeting_another_store, "apply met theirs is down"),
    ],
)
def test_a_mistake_stops_the_projection_and_is_noted(
    allocations: Allocations, apply: Callable[..., Any], problem: str
) -> None:
    """Red when it is taken for an outage, ends a thread, or can't be written down."""
    mistaken = seen(apply, tables=(SEEN, TIMED))
    assert problem in error_of(allocations, mistaken)
    (status,) = [s for s in allocations.projections(mistaken).status() if s.name == "seen"]
    assert status.failure is not None
    assert problem in status.failure.error


def test_any_number_of_workflows_can_be_asked_for(allocations: Allocations) -> None:
    """Red when all of them go into one statement, which takes 65,535 values at most."""

    def apply(events: Sequence[Recorded[Any]], rows: Rows) -> None:
        many = [type(events[0].event.key)("acme", f"w{n}") for n in range(40_000)]
        assert rows.of("seen", many) == []
        rows.remove("seen", many)
        note(events, rows)

    allocations.workflow(*KEY).start("v1")
    projections = allocations.projections(seen(apply))
    projections.catch_up("seen")
    assert len(projections.rows("seen")) == 1


def test_what_a_projection_does_to_an_event_reaches_no_other(allocations: Allocations) -> None:
    """Red when the run that others are read by is the one that was handed out."""

    def vandal(events: Sequence[Recorded[Any]], rows: Rows) -> None:
        for entry in events:
            entry.event.__dict__["version"] = "other"
        note(events, rows)

    workflow = allocations.workflow(*KEY)
    workflow.start("v1")
    for number in range(3):
        workflow.spawn_run(str(number))
    projections = allocations.projections(seen(vandal, logs=("runs",)))
    projections.catch_up("seen")
    projections.catch_up("run_ledger")
    assert {row["version"] for row in projections.rows("run_ledger")} == {"v1"}


def test_a_percent_sign_and_a_question_mark_stand_in_views_as_they_are(
    allocations: Allocations,
) -> None:
    """Red when a view's text is taken for a statement with parameters."""
    select = "SELECT tenant_id FROM seen WHERE workflow_id LIKE 't%' AND '?' <> '%s'"
    allocations.workflow(*KEY).start("v1")
    projections = allocations.projections(seen(views={"like_t": select}))
    projections.catch_up("seen")
    with allocations._store.desk.reading() as session:
        assert session.rows("SELECT * FROM like_t") == [("acme",)]


def error_of(allocations: Allocations, projection: Projection) -> str:
    """What stops a projection at the first decision."""
    allocations.workflow(*KEY).start("v1")
    with pytest.raises(ProjectionStopped) as stopped:
        allocations.projections(projection).catch_up("seen")
    assert stopped.value.position == 1
    return stopped.value.error
