"""Runs as plain rows: an equal table without triggers, and the driver alone."""

import sqlite3
from abc import abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, closing
from datetime import UTC, datetime
from uuid import uuid4

import psycopg
from psycopg.sql import SQL, Identifier

from alloc_es import codec
from alloc_es.events import RunSpawned
from alloc_es.identity import Actor, RunId, TenantId, Unit, Version, WorkflowId, run_stream
from tests.bench.bare import Row
from tests.bench.held import Held
from tests.bench.rivals import ACTOR, CURRENT, TENANT

_TABLE = "bench_plain_runs"
_COLUMNS = "originator_id, originator_version, topic, state"


def ready_rows(count: int) -> list[Row]:
    """New rows of the run log, in the order of their streams as the ledger inserts them."""
    name, form = codec.encode(_SAMPLE)
    ids = sorted(uuid4().hex for _ in range(count))
    blank = _BLANK.encode()
    return [
        (run_stream(TenantId(TENANT), RunId(id_)), 1, name, form.replace(blank, id_.encode()))
        for id_ in ids
    ]


class PlainRuns(Held):
    """One held connection to a table with the run log's columns, checks and indexes."""

    @abstractmethod
    def insert(self, row: Row) -> None:
        """A row in a transaction of its own."""

    @abstractmethod
    def insert_many(self, rows: Sequence[Row]) -> None:
        """Rows in one transaction, by `executemany`."""


PlainOpener = Callable[[], AbstractContextManager[PlainRuns]]


class PlainPostgres(PlainRuns):
    """By psycopg, in the schema of a ledger that was made."""

    def __init__(self, url: str, schema: str) -> None:
        self._connection = psycopg.connect(url, autocommit=True)
        self._connection.execute(SQL("SET search_path TO {0}").format(Identifier(schema)))
        self._connection.execute("SET client_min_messages = warning")
        self._connection.execute("SELECT pg_advisory_lock(1)")
        self._connection.execute(
            f"CREATE TABLE IF NOT EXISTS {_TABLE} (LIKE run_events INCLUDING ALL)"
        )
        self._connection.execute("SELECT pg_advisory_unlock(1)")
        self._insert = f"INSERT INTO {_TABLE} ({_COLUMNS}) VALUES (%s, %s, %s, %s)"

    def insert(self, row: Row) -> None:
        """INSERT."""
        self._connection.execute(self._insert, row)

    def insert_many(self, rows: Sequence[Row]) -> None:
        """INSERT, many times in a pipeline, as psycopg's `executemany` sends it."""
        with self._connection.transaction(), self._connection.cursor() as cursor:
            cursor.executemany(self._insert, rows)

    def copy(self, rows: Sequence[Row]) -> None:
        """COPY."""
        with (
            self._connection.transaction(),
            self._connection.cursor() as cursor,
            cursor.copy(f"COPY {_TABLE} ({_COLUMNS}) FROM STDIN") as copy,
        ):
            for row in rows:
                copy.write_row(row)

    def insert_arrays(self, rows: Sequence[Row]) -> None:
        """INSERT from an array for each column."""
        self._connection.execute(
            f"INSERT INTO {_TABLE} ({_COLUMNS})"
            " SELECT * FROM unnest(%s::text[], %s::bigint[], %s::text[], %s::bytea[])",
            [list(column) for column in zip(*rows, strict=True)],
        )

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


class PlainSqlite(PlainRuns):
    """By sqlite3, in a file beside that of a ledger that was made, as durable as that."""

    def __init__(self, path: str, ledger: str) -> None:
        with closing(sqlite3.connect(ledger)) as connection:
            (made,) = connection.execute(
                "SELECT sql FROM sqlite_master WHERE type = 'table' AND name = 'run_events'"
            ).fetchone()
        self._connection = sqlite3.connect(path, timeout=60, isolation_level=None)
        self._connection.execute("PRAGMA journal_mode = WAL")
        self._connection.execute("PRAGMA synchronous = FULL")
        self._connection.execute(
            str(made).replace("CREATE TABLE run_events", f"CREATE TABLE IF NOT EXISTS {_TABLE}")
        )
        self._insert = f"INSERT INTO {_TABLE} ({_COLUMNS}) VALUES (?, ?, ?, ?)"

    def insert(self, row: Row) -> None:
        """INSERT."""
        self._connection.execute(self._insert, row)

    def insert_many(self, rows: Sequence[Row]) -> None:
        """INSERT, many times by `executemany`."""
        self._connection.execute("BEGIN IMMEDIATE")
        self._connection.executemany(self._insert, rows)
        self._connection.execute("COMMIT")

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


_BLANK = uuid4().hex
_SAMPLE = RunSpawned(
    tenant_id=TenantId(TENANT),
    workflow_id=WorkflowId(uuid4().hex),
    run_id=RunId(_BLANK),
    unit=Unit(_BLANK),
    version=Version(CURRENT),
    arm="control",
    generation=2,
    bucket=4_711,
    slot=(500, 10_000),
    episode=1,
    salt=uuid4().hex,
    hash_version=1,
    actor=Actor(ACTOR),
    recorded_at=datetime(2026, 1, 1, 12, 0, 0, 123_456, tzinfo=UTC),
    decision_position=1_000,
)
