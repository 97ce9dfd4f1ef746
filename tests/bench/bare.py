"""The ledger's own rows by the driver alone: what is left of a commit without our code."""

import sqlite3
from abc import abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager

import psycopg
from psycopg.sql import SQL, Identifier

from tests.bench.held import Held

LEDGER_TABLE = "decision_events"
KEYED_TABLE = "bench_keyed_events"

Row = tuple[str, int, str, bytes]
"""Stream, place, name and bytes of an event."""


class Bare(Held):
    """One held connection that commits each statement on its own."""

    @abstractmethod
    def newest(self, stream: str) -> object:
        """The newest row of a stream in the ledger's table."""

    @abstractmethod
    def insert(self, table: str, row: Row) -> None:
        """A row into the ledger's table, or into one with the same columns and one key."""

    @abstractmethod
    def hurry(self) -> None:
        """From now on, do not wait for the disk."""


BareOpener = Callable[[], AbstractContextManager[Bare]]


class BarePostgres(Bare):
    """By psycopg."""

    def __init__(self, url: str, schema: str) -> None:
        self._connection = psycopg.connect(url, autocommit=True)
        self._connection.execute(SQL("SET search_path TO {0}").format(Identifier(schema)))
        self._connection.execute("SET client_min_messages = warning")
        self._connection.execute(
            "CREATE TABLE IF NOT EXISTS bench_keyed_events (originator_id text,"
            " originator_version bigint, topic text NOT NULL, state bytea NOT NULL,"
            " PRIMARY KEY (originator_id, originator_version))"
        )

    def newest(self, stream: str) -> object:
        """SELECT."""
        return self._connection.execute(
            "SELECT notification_id, originator_id, originator_version, topic, state"
            " FROM decision_events WHERE originator_id = %s"
            " ORDER BY originator_version DESC LIMIT 1",
            (stream,),
        ).fetchone()

    def insert(self, table: str, row: Row) -> None:
        """INSERT."""
        if table == LEDGER_TABLE:
            self._connection.execute(
                "INSERT INTO decision_events (originator_id, originator_version, topic, state)"
                " VALUES (%s, %s, %s, %s) RETURNING notification_id",
                row,
            )
        else:
            self._connection.execute("INSERT INTO bench_keyed_events VALUES (%s, %s, %s, %s)", row)

    def hurry(self) -> None:
        """Turn synchronous_commit off."""
        self._connection.execute("SET synchronous_commit = off")

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


class BareSqlite(Bare):
    """By sqlite3."""

    def __init__(self, path: str) -> None:
        self._connection = sqlite3.connect(path, timeout=60, isolation_level=None)
        self._connection.execute("PRAGMA journal_mode = WAL")
        self._connection.execute("PRAGMA synchronous = FULL")
        self._connection.execute(
            "CREATE TABLE IF NOT EXISTS bench_keyed_events (originator_id TEXT,"
            " originator_version INTEGER, topic TEXT NOT NULL, state BLOB NOT NULL,"
            " PRIMARY KEY (originator_id, originator_version))"
        )

    def newest(self, stream: str) -> object:
        """SELECT."""
        return self._connection.execute(
            "SELECT notification_id, originator_id, originator_version, topic, state"
            " FROM decision_events WHERE originator_id = ?"
            " ORDER BY originator_version DESC LIMIT 1",
            (stream,),
        ).fetchone()

    def insert(self, table: str, row: Row) -> None:
        """INSERT."""
        if table == LEDGER_TABLE:
            self._connection.execute(
                "INSERT INTO decision_events (originator_id, originator_version, topic, state)"
                " VALUES (?, ?, ?, ?)",
                row,
            )
        else:
            self._connection.execute("INSERT INTO bench_keyed_events VALUES (?, ?, ?, ?)", row)

    def hurry(self) -> None:
        """Turn synchronous off."""
        self._connection.execute("PRAGMA synchronous = OFF")

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()
