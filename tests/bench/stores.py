"""Where the rivals of one kind of store keep what they write."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path

import psycopg
from psycopg.sql import SQL, Identifier

import alloc_es
from tests.bench.bare import BareOpener, BarePostgres, BareSqlite
from tests.bench.ledger import AllocEs
from tests.bench.library import Library, on_postgres, on_sqlite
from tests.bench.plain import PlainOpener, PlainPostgres, PlainSqlite
from tests.bench.rivals import Opener
from tests.bench.rows import PsycopgRow, SqliteRow
from tests.support.postgres import with_schema


@dataclass(frozen=True, slots=True)
class Stores:
    """The rivals on one kind of store, each with tables, or a file, of its own."""

    kind: str
    url: str
    ledger: Opener
    row: Opener
    library: Opener
    snapshotting: Opener
    bare: BareOpener
    plain: PlainOpener
    base: str
    """Where a benchmark that needs a ledger of its own makes one: a server, or a directory."""


def postgres_stores(url: str) -> Stores:
    """The rivals on a PostgreSQL server."""
    schemas = "library_plain", "library_snapshots"
    with psycopg.connect(url, autocommit=True) as connection:
        for schema in schemas:
            connection.execute(SQL("CREATE SCHEMA {0}").format(Identifier(schema)))
    plain, snapshotting = (on_postgres(url, schema) for schema in schemas)
    ledger = with_schema(url, "alloc_es")
    alloc_es.connect(ledger).close()
    return Stores(
        "PostgreSQL",
        ledger,
        partial(AllocEs, ledger),
        partial(PsycopgRow, url),
        _library(plain, snapshots=False),
        _library(snapshotting, snapshots=True),
        partial(BarePostgres, url, "alloc_es"),
        partial(PlainPostgres, url, "alloc_es"),
        url,
    )


def sqlite_stores(directory: Path) -> Stores:
    """The rivals on files in a directory."""
    path = str(directory / "alloc.db")
    ledger = f"sqlite:///{path}"
    alloc_es.connect(ledger).close()
    return Stores(
        "SQLite",
        ledger,
        partial(AllocEs, ledger),
        partial(SqliteRow, str(directory / "row.db")),
        _library(on_sqlite(str(directory / "library.db")), snapshots=False),
        _library(on_sqlite(str(directory / "snapshots.db")), snapshots=True),
        partial(BareSqlite, path),
        partial(PlainSqlite, str(directory / "plain.db"), path),
        str(directory),
    )


def _library(settings: dict[str, str], *, snapshots: bool) -> Opener:
    # Processes that all make the package's tables at their start fail.
    Library(settings, snapshots=snapshots).close()
    return partial(Library, {**settings, "CREATE_TABLE": "no"}, snapshots=snapshots)
