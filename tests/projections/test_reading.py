"""What readers are given: rows by their names, and never those of a build they can't see."""

from collections.abc import Sequence
from typing import Any

import psycopg
import pytest

from alloc_es import (
    Allocations,
    Column,
    InvalidSetting,
    ProjectionNotBuilt,
    ProjectionOutdated,
    ProjectionStopped,
    Recorded,
    Rows,
    Table,
)
from tests.projections.models import SEEN, seen
from tests.projections.reading import builds, relations
from tests.projections.writing import opened
from tests.support.raw import raw

KEYWORDS = Table(
    "order",
    "Named by words of SQL.",
    (
        Column("tenant_id", "text", "The tenant."),
        Column("workflow_id", "text", "The workflow."),
        Column("group", "integer", "The generation."),
        Column("select", "time", "When that was."),
        Column("from", "text", "Nothing.", optional=True),
    ),
    key=("tenant_id", "workflow_id", "group"),
    indexes=(("select",),),
)


def test_rows_are_given_by_the_names_of_their_columns_in_the_order_of_the_key(
    allocations: Allocations,
) -> None:
    """Red when rows come in the order in which they are stored, or of all tenants."""
    projections = allocations.projections(seen())
    for tenant, workflow in (("b", "z"), ("a", "z"), ("b", "A"), ("a", "é")):
        allocations.workflow(tenant, workflow).start("v1")
        projections.catch_up("seen")
    everything = [
        {"tenant_id": "a", "workflow_id": "z", "position": 2},
        {"tenant_id": "a", "workflow_id": "é", "position": 4},
        {"tenant_id": "b", "workflow_id": "A", "position": 3},
        {"tenant_id": "b", "workflow_id": "z", "position": 1},
    ]
    assert projections.rows("seen") == everything
    assert projections.rows("seen", tenant_id="b") == everything[2:]
    assert projections.rows("seen", tenant_id="nobody") == []


def test_rows_of_one_workflow_are_those_of_its_tenant_and_its_id(allocations: Allocations) -> None:
    """Red when one of the two is dropped."""
    projections = allocations.projections(seen())
    for tenant, workflow in (("a", "x"), ("b", "x"), ("b", "y")):
        allocations.workflow(tenant, workflow).start("v1")
    projections.catch_up("seen")
    rows = projections.rows("seen", tenant_id="b", workflow_id="x")
    assert rows == [{"tenant_id": "b", "workflow_id": "x", "position": 2}]
    assert len(projections.rows("seen", workflow_id="x")) == 2


def test_rows_that_can_not_be_given_are_refused(allocations: Allocations) -> None:
    """Red when an unknown table is looked for in the database."""
    allocations.workflow("acme", "triage").start("v1")
    projections = allocations.projections(seen())
    with pytest.raises(ProjectionNotBuilt):
        projections.rows("seen")
    projections.catch_up("seen")
    with pytest.raises(InvalidSetting) as refused:
        projections.rows("decision_events")
    assert refused.value.setting == "table"
    with pytest.raises(ProjectionOutdated):
        allocations.projections(seen(version=2)).rows("seen")


def test_any_word_may_name_a_table_and_its_columns(allocations: Allocations) -> None:
    """Red when names stand in statements as they are."""

    def apply(events: Sequence[Recorded[Any]], rows: Rows) -> None:
        rows.put("order", [(*e.event.key, e.generation, e.time, None) for e in events])

    named = seen(apply, name="named", tables=(KEYWORDS,))
    projections = allocations.projections(named)
    workflow = allocations.workflow("acme", "triage")
    workflow.start("v1")
    projections.catch_up("named")
    workflow.register_challenger("v2")
    projections.catch_up("named")
    projections.rebuild("named")
    rows = [(row["group"], row["select"], row["from"]) for row in projections.rows("order")]
    assert rows == [(d.generation, d.time, None) for d in allocations.decisions()]
    assert projections.verify("named").difference is None


@pytest.mark.parametrize("value", ["text", 1.5, b"bytes"], ids=["text", "fraction", "bytes"])
def test_a_value_of_another_kind_stops_the_projection_on_every_store(
    allocations: Allocations, value: object
) -> None:
    """Red when rows are not looked at, and SQLite takes any value for any column."""

    def apply(events: Sequence[Recorded[Any]], rows: Rows) -> None:
        rows.insert("seen", [(*e.event.key, value) for e in events])

    allocations.workflow("acme", "triage").start("v1")
    projections = allocations.projections(seen(apply))
    with pytest.raises(ProjectionStopped, match="in front of position 1"):
        projections.catch_up("seen")


def test_a_transaction_of_one_moment_is_told_to_begin_again_behind_a_swap(
    postgres_url: str,
) -> None:
    """Red when its view shows it the new build, of which it sees no rows."""
    with opened(postgres_url) as allocations:
        allocations.workflow("acme", "triage").start("v1")
        projections = allocations.projections()
        projections.catch_up("current_split")
        with raw(postgres_url) as reader:
            reader.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
            assert reader.execute("SELECT count(*) FROM decision_events") == [(1,)]
            projections.rebuild("current_split")
            with pytest.raises(psycopg.errors.SerializationFailure, match="begin it again"):
                reader.execute("SELECT * FROM current_split")
            reader.execute("ROLLBACK")
            reader.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
            assert reader.execute("SELECT current FROM current_split") == [("v1",)]
            reader.execute("ROLLBACK")


def test_tables_that_somebody_read_at_the_swap_are_dropped_by_whoever_follows(
    postgres_url: str,
) -> None:
    """Red when only a swap drops old tables: then a tenant's rows may lie there for ever."""
    with opened(postgres_url) as allocations:
        allocations.workflow("acme", "triage").start("v1")
        projections = allocations.projections(seen())
        projections.catch_up("seen")
        with raw(postgres_url) as reader:
            reader.execute("BEGIN")
            reader.execute("SELECT * FROM seen__1")
            projections.rebuild("seen")
            assert builds(allocations, "seen") == [(1, "old"), (2, "live")]
            reader.execute("ROLLBACK")
        with projections.follow("seen", poll=0.01, listen=False):
            while builds(allocations, "seen") != [(2, "live")]:
                # The test's own time limit ends this if it never comes to pass.
                pass
        assert "seen__1" not in relations(allocations)


def test_a_first_build_of_a_newer_version_is_left_to_it(allocations: Allocations) -> None:
    """Red when runners of two versions give up each other's builds."""
    allocations.workflow("acme", "triage").start("v1")
    newer = allocations.projections(seen(version=2))
    newer._rebuilding(newer.known["seen"]).begin()
    with pytest.raises(ProjectionOutdated) as refused:
        allocations.projections(seen()).catch_up("seen")
    assert (refused.value.built, refused.value.known) == (2, 1)
    assert builds(allocations, "seen") == [(1, "building")]
    newer.catch_up("seen")
    assert newer.rows(SEEN.name)
