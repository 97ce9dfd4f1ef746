"""What `decision_log` and `run_log` show to plain SQL is what the library reads."""

import hashlib
import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from typing import Any, NamedTuple

import psycopg
import pytest

from alloc_es import Allocations, DecisionEvent, Recorded, RunSpawned, connect
from alloc_es.codec import encode
from alloc_es.events import Event
from tests.docs.test_blocks import schema_of, server_of

TENANT, WORKFLOW = 'acme "ü"', "triage/100%"
NOON = datetime(2026, 3, 1, 12, 0, 0, 120_000, tzinfo=UTC)


class Psql(NamedTuple):
    """The rows of a view by the names of its columns, as a client of the database sees them."""

    kind: str
    rows: dict[str, list[dict[str, Any]]]


@pytest.fixture
def allocations(durable_url: str) -> Iterator[Allocations]:
    """A store in which every kind of decision was made, and runs of both arms."""
    settings: Any = {"actor": "ada", "max_challengers": 2, "clock": lambda: NOON}
    with connect(durable_url, **settings) as opened:
        opened.workflow("beta", "other").start("w1")
        workflow = opened.workflow(TENANT, WORKFLOW)
        workflow.start("v1", reason="it's time")
        workflow.register_challenger('v"2"', 9_999)
        for number in range(3):
            workflow.spawn_run(f"run/{number}", unit=None if number else "kunde-ü")
        workflow.register_challenger("v3", 0)
        workflow.commit_allocation({"v3": 1_000, 'v"2"': 2_000})
        workflow.reject_challenger("v3", replacement="v4")
        workflow.reject_challenger("v4", reason="worse")
        workflow.promote_challenger('v"2"')
        workflow.roll_back(to_generation=1)
        yield opened


def look(durable_url: str) -> Psql:
    if durable_url.startswith("sqlite:///"):
        with closing(sqlite3.connect(durable_url.removeprefix("sqlite:///"))) as connection:
            rows = {view: read(connection, view) for view in ("decision_log", "run_log")}
        return Psql("sqlite", rows)
    with psycopg.connect(server_of(durable_url)) as connection:
        connection.execute("SET TIME ZONE 'Asia/Tokyo'")
        schema = schema_of(durable_url)
        rows = {view: read(connection, view, schema) for view in ("decision_log", "run_log")}
    return Psql("postgresql", rows)


def read(connection: Any, view: str, schema: str | None = None) -> list[dict[str, Any]]:
    place = view if schema is None else f"{schema}.{view}"
    cursor = connection.execute(f"SELECT * FROM {place} ORDER BY position")
    names = [column[0] for column in cursor.description]
    return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


def shown(psql: Psql, event: Event, digest: str) -> dict[str, Any]:
    """What the columns that both views have must hold, each in the database's own type."""
    state = encode(event)[1]
    is_sqlite = psql.kind == "sqlite"
    own: dict[str, Any] = {} if is_sqlite else {"digest": hashlib.sha256(state).hexdigest()}
    assert own.get("digest", digest) == digest
    return own | {
        "generation": event.generation,
        "actor": "ada",
        "recorded_at": "2026-03-01T12:00:00.120000Z" if is_sqlite else NOON,
        "event": state.decode() if is_sqlite else json.loads(state),
    }


def test_every_column_of_decision_log_is_that_of_the_event(
    allocations: Allocations, durable_url: str
) -> None:
    """Red when a column is taken from another field, or is text that should be a number."""
    psql = look(durable_url)
    expected = [decision_row(psql, each) for each in allocations.decisions()]
    rows = psql.rows["decision_log"]
    for row in rows:
        if psql.kind == "sqlite":
            row["split"] = json.loads(row["split"])
    assert rows == expected
    assert [row["type"] for row in rows[1:4]] == ["AllocationCommitted"] + [
        "ChallengerRegistered"
    ] * 2
    assert {row["decision"] for row in rows} == {
        None,
        "start",
        "split",
        "replacement",
        "promotion",
        "rollback",
    }


def decision_row(psql: Psql, each: Recorded[DecisionEvent]) -> dict[str, Any]:
    event: Any = each.event
    return shown(psql, event, each.digest) | {
        "position": each.position,
        "tenant_id": event.key.tenant_id,
        "workflow_id": event.key.workflow_id,
        "type": type(event).__name__,
        "decision": getattr(event, "decision", None),
        "version": event.version,
        "current_version": event.allocation.current,
        "split": event.allocation.split,
        "episode": event.allocation.episode,
        "max_challengers": 2,
        "reason": event.reason,
        "command_id": event.command_id,
        "previous_digest": event.previous_digest,
    }


def test_every_column_of_run_log_is_that_of_the_run(
    allocations: Allocations, durable_url: str
) -> None:
    """Red when a field of a run has no column, or another one's."""
    psql = look(durable_url)
    expected = [run_row(psql, each) for each in allocations.runs()]
    assert psql.rows["run_log"] == expected
    assert {row["arm"] for row in expected} == {"challenger"}
    fields = set(RunSpawned.model_fields) - {"replayed", "slot"} | {"slot_first", "slot_end"}
    assert fields <= expected[0].keys()


def run_row(psql: Psql, each: Recorded[RunSpawned]) -> dict[str, Any]:
    run = each.event
    first, end = run.slot
    return (
        run.model_dump(exclude={"slot", "recorded_at"})
        | shown(psql, run, each.digest)
        | {
            "position": each.position,
            "slot_first": first,
            "slot_end": end,
        }
    )
