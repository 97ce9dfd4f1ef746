"""A driver's own connection to a store's tables, past everything that alloc-es checks."""

import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg

DECISIONS = "decision_events"
RUNS = "run_events"

_QUESTIONS = 50_000

REFUSED = (sqlite3.IntegrityError, psycopg.IntegrityError, psycopg.errors.GeneratedAlways)
"""What a database answers with when a rule of its tables refuses something."""


class Raw:
    """One connection in autocommit mode. Statements are written with `?` for their values."""

    def __init__(self, connection: Any, kind: str, schema: str) -> None:
        self.kind = kind
        self.schema = schema
        self._connection = connection

    def execute(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        """Run a statement and return its rows, if it has any."""
        if self.kind == "postgresql":
            statement = statement.replace("?", "%s")
        cursor = self._connection.execute(statement, values)
        return list(cursor.fetchall()) if cursor.description else []

    def insert(self, table: str, row: tuple[Any, ...]) -> None:
        """Append a row of stream, version, topic and bytes, as the library does."""
        self.execute(
            f"INSERT INTO {table} (originator_id, originator_version, topic, state)"
            " VALUES (?, ?, ?, ?)",
            *row,
        )

    def rows(self, table: str) -> list[tuple[Any, ...]]:
        """All rows of a log in the order of their positions, which come first."""
        return [
            (*row[:4], bytes(row[4]))
            for row in self.execute(
                "SELECT notification_id, originator_id, originator_version, topic, state"
                f" FROM {table} ORDER BY notification_id"
            )
        ]

    def fields(self, table: str) -> list[dict[str, Any]]:
        """What each row's bytes say, read with nothing but a JSON parser."""
        return [json.loads(row[4]) for row in self.rows(table)]

    def tables(self) -> list[str]:
        """The names of everything in the store's schema, with the schema's own existence."""
        found = self.execute(
            "SELECT name FROM sqlite_master"
            if self.kind == "sqlite"
            else "SELECT nspname FROM pg_namespace WHERE nspname = current_schema()"
            " UNION ALL SELECT relname FROM pg_class WHERE relnamespace ="
            " (SELECT oid FROM pg_namespace WHERE nspname = current_schema())"
        )
        return sorted(name for (name,) in found)


@contextmanager
def raw(url: str) -> Iterator[Raw]:
    """A connection to the database of a store's URL, whose tables need no qualification."""
    if url.startswith("sqlite"):
        connection: Any = sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None)
        try:
            yield Raw(connection, "sqlite", "main")
        finally:
            connection.close()
        return
    server, _, schema = url.rpartition("schema=")
    options = f"-c search_path={schema}"
    with psycopg.connect(server[:-1], autocommit=True, options=options) as connection:
        yield Raw(connection, "postgresql", schema)


def waiting(observer: Raw, table: str) -> int:
    """How many PostgreSQL backends wait for the lock that orders a log's commits."""
    ((count,),) = observer.execute(
        "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
        " AND objid = ?::regclass::oid",
        table,
    )
    return int(count)


def until(holds: Callable[[], object], what: str) -> None:
    """Ask the database until something holds; each question is a round trip.

    Fails, naming `what` never held, after `_QUESTIONS` of them, which take seconds.
    """
    if not any(holds() for _ in range(_QUESTIONS)):
        raise AssertionError(f"it never held that {what}")


def until_one_waits(observer: Raw, table: str) -> None:
    """Ask until a backend waits for the lock that orders a log's commits."""
    until(lambda: waiting(observer, table), f"somebody waits to append to {table}")
