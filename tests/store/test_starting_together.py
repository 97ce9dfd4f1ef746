"""Processes that start together on an empty database: one makes the tables, all go on."""

from typing import Any

import pytest

from alloc_es import Allocations, connect
from alloc_es.store.postgres import _MIGRATION_LOCK, Factory
from alloc_es.store.schema import SCHEMA_VERSION
from tests.support.overlap import in_threads
from tests.support.raw import Raw, raw, until


@pytest.mark.postgresql
def test_who_waited_for_anothers_migration_finds_its_tables(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Red when `Factory._version` asks `to_regclass`, or `_migrate` does not ask again.

    `to_regclass` answers from the session's catalog cache, which a wait for an advisory
    lock does not refresh: the second process would make the tables once more, and fail.
    """
    with raw(postgres_url) as observer:
        hold_the_first_migration(monkeypatch, observer)
        opened = in_threads(lambda: connect(postgres_url), lambda: connect(postgres_url))
        applied = observer.execute("SELECT version FROM alloc_es_schema ORDER BY version")
        assert applied == [(version,) for version in range(1, SCHEMA_VERSION + 1)]
    for each in opened:
        assert isinstance(each, Allocations), each
        each.close()


def hold_the_first_migration(monkeypatch: pytest.MonkeyPatch, observer: Raw) -> None:
    """Let the first migration commit only when another process waits for it."""
    genuine = Factory._migrate
    first = iter([True])

    def migrate(self: Factory, cursor: Any) -> None:
        genuine(self, cursor)
        # Who comes here first has the lock: the other one is let on at the commit only.
        if next(first, False):
            until(lambda: somebody_waits(observer), "another process waits to migrate")

    monkeypatch.setattr(Factory, "_migrate", migrate)


def somebody_waits(observer: Raw) -> bool:
    waits = "SELECT 1 FROM pg_locks WHERE NOT granted AND objid = ?"
    return bool(observer.execute(waits, _MIGRATION_LOCK))
