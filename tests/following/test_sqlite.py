"""A follower of a SQLite file: writers in other processes, a file that is away, a full disk."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import alloc_es
from tests.faults.commands import KEY
from tests.faults.conftest import SHORT
from tests.following.child import decide
from tests.following.tracing import NAME, PATIENCE, TRACE, Told, expected, traced, tracing
from tests.support.children import start_child

AN_HOUR = 3_600.0
pytestmark = pytest.mark.sqlite


@pytest.fixture
def path(sqlite_url: str) -> Path:
    return Path(sqlite_url.removeprefix("sqlite:///"))


def test_a_follower_hears_of_writers_in_other_processes_and_keeps_up_with_them(
    sqlite_url: str,
) -> None:
    """Two processes commit while this one applies, and all write to one file.

    Red if `_listen` rings for nobody.
    """
    decisions = tracing("decisions")
    with alloc_es.connect(sqlite_url, timeout=PATIENCE) as allocations:
        projections = allocations.projections(decisions)
        with projections.follow(decisions.name, poll=AN_HOUR):
            projections.wait_for(decisions.name, timeout=PATIENCE)
            writers = [start_child(decide, sqlite_url, name, 20) for name in ("one", "other")]
            for number in range(20):
                for _, pipe in writers:
                    assert pipe.poll(PATIENCE)
                    assert pipe.recv() == number
                projections.wait_for(decisions.name, timeout=PATIENCE)
            for process, _ in writers:
                process.join()
        assert len(traced(allocations, decisions)) == 44
        assert traced(allocations, decisions) == expected(allocations, decisions)


def test_a_file_that_is_away_is_waited_for_and_none_is_made_in_its_place(
    sqlite_url: str, path: Path, told: Told
) -> None:
    """Red if `watch` opens a file that is not there, which makes an empty one."""
    with alloc_es.connect(sqlite_url, timeout=SHORT) as client:
        workflow = client.workflow(*KEY)
        workflow.start("v1")
        projections = client.projections(TRACE)
        with projections.follow(NAME, poll=0.01, tell=told) as follower:
            projections.wait_for(NAME, timeout=PATIENCE)
            kept = path.rename(path.with_name("kept.db"))
            told.await_about(f"{NAME}: waits for the store")
            with pytest.raises(alloc_es.StoreUnavailable):
                client._store.watch()
            assert not path.exists()
            assert follower.states == {NAME: "waiting for the store"}
            kept.rename(path)
            told.await_about(f"{NAME}: the store is back")
            workflow.spawn_run("run-1")
            projections.wait_for(NAME, timeout=PATIENCE)
        assert traced(client) == expected(client)
    assert "removed or replaced" in told.sentences[0]
    assert len(told.about(NAME)) == 2


def test_a_locked_file_is_waited_for(sqlite_url: str, path: Path, told: Told) -> None:
    """Another process writes for longer than the follower waits in a try.

    Red if a store that is away ends a follower.
    """
    with alloc_es.connect(sqlite_url, timeout=SHORT) as client:
        workflow = client.workflow(*KEY)
        workflow.start("v1")
        projections = client.projections(TRACE)
        projections.catch_up(NAME)
        workflow.spawn_run("run-1")
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            with projections.follow(NAME, tell=told):
                told.await_about(f"{NAME}: waits for the store")
                assert traced(client) == []
                other.execute("ROLLBACK")
                projections.wait_for(NAME, timeout=PATIENCE)
                told.await_about(f"{NAME}: the store is back")
        assert traced(client) == expected(client)
    assert "locked" in told.sentences[0]
    assert len(told.sentences) == 2


def test_a_full_disk_keeps_the_checkpoint_where_the_rows_are(
    sqlite_url: str, told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLite is given no more pages, and later it is given some.

    Red if a full disk counts as an event that can't be handled.
    """
    connections: list[sqlite3.Connection] = []
    with alloc_es.connect(sqlite_url) as early:
        workflow = early.workflow(*KEY)
        workflow.start("v1")
        early.projections(TRACE).catch_up(NAME)
        early.spawn_runs([alloc_es.SpawnRequest(*KEY, f"run-{n}") for n in range(2_000)])
    connect = sqlite3.connect

    def without_room(*arguments: Any, **options: Any) -> sqlite3.Connection:
        connection: sqlite3.Connection = connect(*arguments, **options)
        pages = connection.execute("PRAGMA page_count").fetchone()[0]
        connection.execute(f"PRAGMA max_page_count = {pages}")
        connections.append(connection)
        return connection

    monkeypatch.setattr(sqlite3, "connect", without_room)
    with alloc_es.connect(sqlite_url) as client:
        projections = client.projections(TRACE)
        with projections.follow(NAME, poll=0.01, listen=False, tell=told) as follower:
            told.await_about(f"{NAME}: waits for the store")
            assert len(traced(client)) < 2_000
            assert follower.states == {NAME: "waiting for the store"}
            monkeypatch.setattr(sqlite3, "connect", connect)
            for connection in connections:
                _make_room(connection)
            projections.wait_for(NAME, timeout=PATIENCE)
            told.await_about(f"{NAME}: the store is back")
        assert traced(client) == expected(client)
    assert "full" in told.sentences[0]
    assert len(told.sentences) == 2


def _make_room(connection: sqlite3.Connection) -> None:
    try:
        connection.execute("PRAGMA max_page_count = 1000000").fetchall()
    except sqlite3.ProgrammingError:
        # One that was closed before, and needs none.
        return
