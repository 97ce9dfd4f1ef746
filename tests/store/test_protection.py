"""The database itself refuses whatever would change, remove or misplace an event."""

import sqlite3
from collections.abc import Iterator

import psycopg
import pytest

from alloc_es import connect
from tests.support.raw import DECISIONS, REFUSED, RUNS, Raw, raw

COLUMNS = "originator_id, originator_version, topic, state"
ON_PLACE = "ON CONFLICT (originator_id, originator_version) DO"

CHANGES = {
    "an update": "UPDATE {0} SET topic = 'changed'",
    "an update of a position": "UPDATE {0} SET notification_id = notification_id + 100",
    "a delete": "DELETE FROM {0}",
    "a delete of one row": "DELETE FROM {0} WHERE originator_version = 1",
    "an upsert": "INSERT INTO {0} ({1}) SELECT {1} FROM {0} WHERE true"
    f" {ON_PLACE} UPDATE SET topic = 'changed'",
    "a second row at a place": "INSERT INTO {0} ({1}) SELECT {1} FROM {0}",
}

SQLITE_CHANGES = {
    "a replacement": "INSERT OR REPLACE INTO {0} ({1}) SELECT {1} FROM {0}",
    "a replacement at a position": "INSERT OR REPLACE INTO {0} (notification_id, {1})"
    " SELECT notification_id, 'elsewhere', 1, topic, state FROM {0}",
    "REPLACE": "REPLACE INTO {0} ({1}) SELECT {1} FROM {0}",
    "an update that ignores errors": "UPDATE OR IGNORE {0} SET topic = 'changed'",
    "an update that replaces": "UPDATE OR REPLACE {0} SET originator_version = 1",
}

POSTGRES_CHANGES = {
    "a truncation": "TRUNCATE {0}",
    "a truncation with what depends on it": "TRUNCATE {0} CASCADE",
    "an update of no row": "UPDATE {0} SET topic = 'changed' WHERE false",
    "a merge": "MERGE INTO {0} AS held USING (SELECT 1) AS new ON true WHEN MATCHED THEN DELETE",
}


@pytest.fixture
def filled_url(durable_url: str) -> str:
    """A store with two decisions and one run."""
    return _fill(durable_url)


def _fill(url: str) -> str:
    with connect(url, actor="ada") as allocations:
        workflow = allocations.workflow("acme", "triage")
        workflow.start("v1", command_id="c-1", reason="“first” 🦜")
        workflow.register_challenger("v2", command_id="c-2")
        workflow.spawn_run("run-1")
    return url


@pytest.fixture
def database(filled_url: str) -> Iterator[Raw]:
    """A driver's connection to that store."""
    with raw(filled_url) as connection:
        yield connection


@pytest.mark.parametrize("table", [DECISIONS, RUNS])
@pytest.mark.parametrize("change", CHANGES)
def test_no_row_of_a_log_is_changed_or_removed(database: Raw, table: str, change: str) -> None:
    """Red when the triggers `…_no_update`, `…_no_delete` or `refuse_change` are missing."""
    refused(database, CHANGES[change].format(table, COLUMNS))


@pytest.mark.parametrize("table", [DECISIONS, RUNS])
@pytest.mark.parametrize("change", SQLITE_CHANGES)
def test_sqlite_has_no_way_around_it(sqlite_url: str, table: str, change: str) -> None:
    """Red when `…_append` leaves a taken place to the key, which OR REPLACE removes."""
    with raw(_fill(sqlite_url)) as database:
        refused(database, SQLITE_CHANGES[change].format(table, COLUMNS))


@pytest.mark.parametrize("table", [DECISIONS, RUNS])
@pytest.mark.parametrize("change", POSTGRES_CHANGES)
def test_postgresql_has_no_way_around_it(postgres_url: str, table: str, change: str) -> None:
    """Red when `refuse_change` is not fired by TRUNCATE, or fires for each row only."""
    with raw(_fill(postgres_url)) as database:
        refused(database, POSTGRES_CHANGES[change].format(table))


@pytest.mark.parametrize("generation", [4, 5, 0, -1])
def test_a_gap_between_generations_is_refused(database: Raw, generation: int) -> None:
    """Red when `decision_events_append`, or `refuse_gap`, lets any free generation through."""
    stream = database.rows(DECISIONS)[0][1]
    refused_row(database, DECISIONS, (stream, generation, "AllocationCommitted", b"{}"))


def test_a_stream_begins_with_generation_1(database: Raw) -> None:
    """Red when the check for gaps knows only streams that exist."""
    refused_row(database, DECISIONS, ("allocation/x/y", 2, "AllocationCommitted", b"{}"))


def test_a_gap_is_refused_inside_one_statement_too(database: Raw) -> None:
    """Red when `refuse_gap` fires once for a statement."""
    rows = "('s', 1, 'T', ?), ('s', 3, 'T', ?)"
    insert = f"INSERT INTO {DECISIONS} ({COLUMNS}) VALUES {rows}"
    refused(database, insert, b'{"command_id":"x"}', b'{"command_id":"y"}')


def test_a_command_id_is_refused_the_second_time(database: Raw) -> None:
    """Red when the index on command ids is not unique, or names no stream."""
    stream = database.rows(DECISIONS)[0][1]
    refused_row(database, DECISIONS, (stream, 3, "AllocationCommitted", b'{"command_id":"c-1"}'))
    database.insert(DECISIONS, ("another", 1, "AllocationCommitted", b'{"command_id":"c-1"}'))
    assert len(database.rows(DECISIONS)) == 3


def test_a_run_has_one_event(database: Raw) -> None:
    """Red when `run_events` takes any version."""
    stream = database.rows(RUNS)[0][1]
    refused_row(database, RUNS, (stream, 2, "RunSpawned", b"{}"))


@pytest.mark.parametrize("table", [DECISIONS, RUNS])
@pytest.mark.parametrize("position", [1, 3, 1_000, 0, -7])
def test_a_position_is_given_by_the_database_alone(
    database: Raw, table: str, position: int
) -> None:
    """Red when SQLite's trigger or CHECK, or PostgreSQL's GENERATED ALWAYS, is missing."""
    statement = f"INSERT INTO {table} (notification_id, {COLUMNS}) VALUES (?, 'new', 1, 'T', ?)"
    refused(database, statement, position, b'{"command_id":"new"}')


def test_bytes_that_are_no_json_are_refused(database: Raw) -> None:
    """Red when PostgreSQL's `command_id` reads no JSON."""
    before = database.rows(DECISIONS)
    with pytest.raises((*REFUSED, sqlite3.OperationalError, psycopg.DataError)):
        database.insert(DECISIONS, ("new", 1, "AllocationCommitted", b"no json"))
    assert database.rows(DECISIONS) == before


def test_events_are_json_that_plain_sql_reads(database: Raw) -> None:
    """Red when states are compressed, pickled or ciphered, or written with \\u escapes."""
    field = (
        "json_extract(CAST(state AS TEXT), '$.{}')"
        if database.kind == "sqlite"
        else "(convert_from(state, 'UTF8')::jsonb ->> '{}')"
    )
    columns = ", ".join(field.format(name) for name in ("actor", "reason", "command_id"))
    rows = database.execute(f"SELECT topic, {columns} FROM {DECISIONS} ORDER BY notification_id")
    assert rows == [
        ("AllocationCommitted", "ada", "“first” 🦜", "c-1"),
        ("ChallengerRegistered", "ada", "", "c-2"),
    ]
    assert database.execute(f"SELECT {field.format('version')} FROM {RUNS}") in (
        [("v1",)],
        [("v2",)],
    )
    assert "“first” 🦜".encode() in database.rows(DECISIONS)[0][4]


def refused(database: Raw, statement: str, *values: object) -> None:
    """The database refuses a statement and holds what it held."""
    before = database.rows(DECISIONS), database.rows(RUNS)
    with pytest.raises(REFUSED):
        database.execute(statement, *values)
    assert (database.rows(DECISIONS), database.rows(RUNS)) == before


def refused_row(database: Raw, table: str, row: tuple[object, ...]) -> None:
    before = database.rows(table)
    with pytest.raises(REFUSED):
        database.insert(table, row)
    assert database.rows(table) == before
