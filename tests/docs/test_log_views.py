"""The reference has every column of the views of the logs, with its type in each database."""

import re
import sqlite3
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

import alloc_es
from tests.docs.test_blocks import schema_of, server_of
from tests.docs.test_reference import section

VIEWS = ("decision_log", "run_log")


def told(view: str, database: int) -> list[tuple[str, str]]:
    """The columns that a view has in a database, and their types."""
    rows = re.findall(r"^\| `(\w+)` \|([^|]*)\|([^|]*)\|", section("stores.md", view), re.M)
    return [(row[0], row[database].strip()) for row in rows if row[database].strip()]


@pytest.mark.parametrize("view", VIEWS)
def test_the_columns_in_postgresql_are_those_that_are_told(postgres_url: str, view: str) -> None:
    """Red when a column is added, moved, or gets another type, in either place."""
    alloc_es.connect(postgres_url).close()
    columns = """
        SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute
        WHERE attrelid = %s::regclass AND attnum > 0 ORDER BY attnum
    """
    with psycopg.connect(server_of(postgres_url)) as connection:
        found = connection.execute(columns, [f"{schema_of(postgres_url)}.{view}"]).fetchall()
    assert found == told(view, 2)


@pytest.mark.parametrize("view", VIEWS)
def test_the_columns_in_sqlite_are_those_that_are_told(tmp_path: Path, view: str) -> None:
    """Red when a column is added, moved, or holds what has another type, in either place."""
    path = tmp_path / "alloc.db"
    with alloc_es.connect(f"sqlite:///{path}") as allocations:
        workflow = allocations.workflow("acme", "triage")
        workflow.start("v1")
        workflow.spawn_run("run-1")
    with closing(sqlite3.connect(path)) as connection:
        cursor = connection.execute(f"SELECT * FROM {view}")
        names = [column[0] for column in cursor.description]
        types = ", ".join(f"typeof({name})" for name in names)
        (found,) = connection.execute(f"SELECT {types} FROM {view}")
    assert list(zip(names, found, strict=True)) == told(view, 1)
