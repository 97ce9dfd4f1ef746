"""The reference of the read models has every table, view and column, with its meaning."""

import re
import sqlite3
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

import alloc_es
from alloc_es.projection import installed
from tests.docs.test_blocks import schema_of, server_of
from tests.docs.test_reference import read, section

PAGE = "read-models.md"
PROJECTIONS, _ = installed()
TABLES = [table for projection in PROJECTIONS for table in projection.tables]
ACCOUNTS = (
    "projection_builds",
    "projection_purges",
    "trigger_consumers",
    "trigger_deliveries",
    "trigger_workers",
)
TYPES = {
    "text": "text",
    "integer": "bigint",
    "time": "timestamp with time zone",
    "number": "double precision",
}

Described = list[tuple[str, str, bool]]


def rows_of(heading: str) -> list[tuple[str, str, str]]:
    """The rows of the table under a heading: a column, its kind, its meaning."""
    text = _of_relation(heading)
    return re.findall(r"^\| `(\w+)` \| ([^|]+) \| ([^|]+) \|$", text, re.M)


def _of_relation(heading: str) -> str:
    """What stands under the heading of a table or a view, which a projection may share."""
    found = re.search(rf"^### {heading}\n(?P<text>.*?)(?=^##|\Z)", read(PAGE), re.M | re.S)
    assert found, f"{PAGE} has no heading {heading!r}"
    return found["text"]


def columns(heading: str) -> Described:
    """The columns of a table as the page shows them: name, type, and whether optional."""
    return [
        (name, TYPES[kind.removesuffix(", optional")], kind.endswith(", optional"))
        for name, kind, _ in rows_of(heading)
    ]


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_every_column_of_a_read_model_has_the_words_that_the_code_has_for_it(
    table: alloc_es.Table,
) -> None:
    """Red if a column is added, moved, or gets another kind or meaning, in either place."""
    told = [
        (column.name, f"{column.kind}{', optional' if column.optional else ''}", column.meaning)
        for column in table.columns
    ]
    assert rows_of(table.name) == told
    key = ", ".join(f"`{name}`" for name in table.key)
    assert _of_relation(table.name).strip().startswith(f"{table.meaning} Key: {key}.\n")


@pytest.mark.parametrize("projection", PROJECTIONS, ids=lambda projection: projection.name)
def test_every_read_model_is_told_with_its_meaning_its_logs_and_its_version(
    projection: alloc_es.Projection,
) -> None:
    """Red if a projection is added, follows another log, or has a new version that is not told."""
    logs, name = ", ".join(projection.logs), projection.name
    line = f"| [`{name}`](#projection-{name}) | {logs} | {projection.meaning} |"
    assert line in read(PAGE)
    assert f"Version {projection.version}.\n" in section(PAGE, f"Projection {name}")


def test_every_view_has_the_columns_that_are_told_on_sqlite(tmp_path: Path) -> None:
    """Red if a view gets another column, or a place in its order, that the page does not show."""
    path = tmp_path / "alloc.db"
    with alloc_es.connect(f"sqlite:///{path}") as allocations:
        allocations.projections().catch_up()
    with closing(sqlite3.connect(path)) as connection:
        made = connection.execute("SELECT name FROM sqlite_master WHERE type = 'view'").fetchall()
        views = {name for (name,) in made} - {"decision_log", "run_log"}
        assert views == {name for each in PROJECTIONS for name in each.relations}
        for name in sorted(views | set(ACCOUNTS)):
            found = [row[1] for row in connection.execute(f"PRAGMA table_info({name})")]
            assert [column for column, _, _ in columns(name)] == found, name


def test_every_view_has_the_types_that_are_told_on_postgresql(postgres_url: str) -> None:
    """Red if a view has another type, or an account of the read side a column that is not told."""
    with alloc_es.connect(postgres_url) as allocations:
        allocations.projections().catch_up()
    wanted = """
        SELECT column_name, data_type, is_nullable = 'YES' FROM information_schema.columns
        WHERE table_schema = %s AND table_name = %s ORDER BY ordinal_position
    """
    schema = schema_of(postgres_url)
    with psycopg.connect(server_of(postgres_url)) as connection:
        for name in (name for each in PROJECTIONS for name in each.relations):
            found = connection.execute(wanted, [schema, name]).fetchall()
            assert [row[:2] for row in columns(name)] == [row[:2] for row in found], name
        for name in ACCOUNTS:
            assert columns(name) == connection.execute(wanted, [schema, name]).fetchall(), name
