"""The schema version of a database, and what to do about one that is not this release's."""

import sqlite3
from collections.abc import Iterator
from importlib.resources import files

from alloc_es.errors import SchemaTooNew, StoreNotInitialised

SCHEMA_VERSION = 5


def check_version(found: int, where: str, *, migrate: bool) -> bool:
    """Whether a database at schema version `found` (0: no tables) is to be migrated.

    Raises `SchemaTooNew` for a version from the future, and `StoreNotInitialised` when a
    migration is needed and not wanted.
    """
    if found > SCHEMA_VERSION:
        raise SchemaTooNew(where, found=found, known=SCHEMA_VERSION)
    if found < SCHEMA_VERSION and not migrate:
        raise StoreNotInitialised(where, found=found, wanted=SCHEMA_VERSION)
    return found < SCHEMA_VERSION


def migrations(store: str, found: int) -> Iterator[tuple[int, str]]:
    """The scripts that bring a kind of store from version `found` to today's, with theirs."""
    for version in range(found + 1, SCHEMA_VERSION + 1):
        script = files(__package__).joinpath(f"{store}-{version}.sql")
        yield version, script.read_text(encoding="utf-8")


def statements(script: str) -> Iterator[str]:
    """The statements of a script for SQLite; `executescript` would commit the open transaction."""
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
