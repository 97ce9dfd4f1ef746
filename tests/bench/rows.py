"""The hand-written rivals: a row with a version column, as one writes it without a ledger."""

import sqlite3

import psycopg

from tests.bench.rivals import ACTOR, CHALLENGER, CURRENT, REASON, TENANT, LostRace, Rival

_BUSY_SECONDS = 60.0

_TABLES = (
    """
    CREATE TABLE IF NOT EXISTS bench_allocations (
        id TEXT PRIMARY KEY,
        current_version TEXT NOT NULL,
        challenger TEXT,
        share_bps INTEGER NOT NULL,
        actor TEXT NOT NULL,
        reason TEXT NOT NULL,
        version BIGINT NOT NULL
    )
    """,
    """
    CREATE TABLE IF NOT EXISTS bench_runs (
        id TEXT PRIMARY KEY,
        allocation_id TEXT NOT NULL,
        workflow_version TEXT NOT NULL,
        actor TEXT NOT NULL
    )
    """,
)


class PsycopgRow(Rival):
    """A row in PostgreSQL, by psycopg on one held connection in autocommit mode."""

    def __init__(self, url: str) -> None:
        self._connection = psycopg.connect(url, autocommit=True)
        self._connection.execute("SELECT pg_advisory_lock(1)")
        self._connection.execute("SET client_min_messages = warning")
        for table in _TABLES:
            self._connection.execute(table)
        self._connection.execute("SELECT pg_advisory_unlock(1)")

    def fill(self, key: str, generations: int) -> None:
        """Insert the row; what came before leaves no trace in it."""
        self._connection.execute(
            "INSERT INTO bench_allocations VALUES (%s, %s, %s, %s, %s, %s, %s)",
            _row(key, generations),
        )

    def commit(self, key: str, share_bps: int, expected: int) -> int:
        """SELECT the row, compare, and UPDATE it where the version is still the same."""
        if self.read(key) != expected or not self._update(key, share_bps, expected):
            raise LostRace
        return expected + 1

    def contend(self, key: str, share_bps: int) -> None:
        """SELECT and UPDATE until one hits."""
        while not self._update(key, share_bps, self.read(key)):
            pass

    def _update(self, key: str, share_bps: int, expected: int) -> bool:
        done = self._connection.execute(
            "UPDATE bench_allocations SET share_bps = %s, actor = %s, reason = %s,"
            " version = version + 1 WHERE id = %s AND version = %s",
            (share_bps, ACTOR, REASON, _id(key), expected),
        )
        return done.rowcount == 1

    def read(self, key: str) -> int:
        """SELECT the row."""
        row = self._connection.execute(
            "SELECT current_version, challenger, share_bps, version"
            " FROM bench_allocations WHERE id = %s",
            (_id(key),),
        ).fetchone()
        assert row is not None
        return int(row[3])

    def insert_run(self, key: str, run_id: str) -> None:
        """INSERT, with a version that the caller already knows."""
        self._connection.execute(
            "INSERT INTO bench_runs VALUES (%s, %s, %s, %s)", (run_id, _id(key), CURRENT, ACTOR)
        )

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


class SqliteRow(Rival):
    """A row in SQLite, by sqlite3 on one held connection, as durable as alloc-es sets it."""

    def __init__(self, path: str) -> None:
        self._connection = sqlite3.connect(path, timeout=_BUSY_SECONDS, isolation_level=None)
        self._connection.execute("PRAGMA journal_mode = WAL")
        self._connection.execute("PRAGMA synchronous = FULL")
        for table in _TABLES:
            self._connection.execute(table)

    def fill(self, key: str, generations: int) -> None:
        """Insert the row; what came before leaves no trace in it."""
        self._connection.execute(
            "INSERT INTO bench_allocations VALUES (?, ?, ?, ?, ?, ?, ?)", _row(key, generations)
        )

    def commit(self, key: str, share_bps: int, expected: int) -> int:
        """SELECT the row, compare, and UPDATE it where the version is still the same."""
        if self.read(key) != expected or not self._update(key, share_bps, expected):
            raise LostRace
        return expected + 1

    def contend(self, key: str, share_bps: int) -> None:
        """SELECT and UPDATE until one hits."""
        while not self._update(key, share_bps, self.read(key)):
            pass

    def _update(self, key: str, share_bps: int, expected: int) -> bool:
        done = self._connection.execute(
            "UPDATE bench_allocations SET share_bps = ?, actor = ?, reason = ?,"
            " version = version + 1 WHERE id = ? AND version = ?",
            (share_bps, ACTOR, REASON, _id(key), expected),
        )
        return done.rowcount == 1

    def read(self, key: str) -> int:
        """SELECT the row."""
        row = self._connection.execute(
            "SELECT current_version, challenger, share_bps, version"
            " FROM bench_allocations WHERE id = ?",
            (_id(key),),
        ).fetchone()
        return int(row[3])

    def insert_run(self, key: str, run_id: str) -> None:
        """INSERT, with a version that the caller already knows."""
        self._connection.execute(
            "INSERT INTO bench_runs VALUES (?, ?, ?, ?)", (run_id, _id(key), CURRENT, ACTOR)
        )

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


def _id(key: str) -> str:
    return f"{TENANT}/{key}"


def _row(key: str, generations: int) -> tuple[str, str, str, int, str, str, int]:
    return _id(key), CURRENT, CHALLENGER, 500, ACTOR, REASON, generations
