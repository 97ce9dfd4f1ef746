"""Opening a store: what is made, what is refused in words, and what is left alone."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from alloc_es import (
    Allocations,
    InvalidSetting,
    SchemaTooNew,
    StoreNotInitialised,
    StoreUnavailable,
    connect,
)
from alloc_es.store.schema import SCHEMA_VERSION
from tests.support.raw import DECISIONS, raw

UNSAFE = "POSTGRES_ENABLE_DB_FUNCTIONS"


def test_a_store_is_still_there_after_it_was_closed(durable_url: str) -> None:
    """Red when SQLite's transactions are rolled back."""
    with connect(durable_url) as allocations:
        workflow = allocations.workflow("acme", "triage")
        workflow.start("v1")
        workflow.register_challenger("v2")
        run = workflow.spawn_run("run-1")
        left = (workflow.allocation(), workflow.history())
    with connect(durable_url, migrate=False) as allocations:
        workflow = allocations.workflow("acme", "triage")
        assert (workflow.allocation(), workflow.history()) == left
        assert [each.event for each in allocations.runs()] == [run]


def test_a_store_in_memory_begins_empty_each_time() -> None:
    """Red when `memory.Factory` hands out a recorder twice."""
    with connect("memory:") as one, connect("memory://") as other:
        one.workflow("acme", "triage").start("v1")
        assert (len(one.list()), other.list()) == (1, [])


def test_without_migration_an_empty_database_is_refused_and_stays_empty(durable_url: str) -> None:
    """Red when a connection is made, which makes the file, before the schema is checked."""
    with pytest.raises(StoreNotInitialised) as refused:
        connect(durable_url, migrate=False)
    assert (refused.value.found, refused.value.wanted) == (0, SCHEMA_VERSION)
    assert "alloc-es init" in str(refused.value)
    if durable_url.startswith("sqlite"):
        file = Path(durable_url.removeprefix("sqlite:///"))
        assert list(file.parent.iterdir()) == []
    else:
        with raw(durable_url) as database:
            assert database.tables() == []


def test_a_newer_schema_is_refused_in_words_and_left_alone(durable_url: str) -> None:
    """Red when only an older schema version counts as another one."""
    with connect(durable_url) as allocations:
        allocations.workflow("acme", "triage").start("v1")
    newer = SCHEMA_VERSION + 1
    with raw(durable_url) as database:
        database.execute("INSERT INTO alloc_es_schema (version) VALUES (?)", newer)
        before = (database.tables(), database.rows(DECISIONS))
        for migrate in (True, False):
            with pytest.raises(SchemaTooNew) as refused:
                connect(durable_url, migrate=migrate)
            assert (refused.value.found, refused.value.known) == (newer, SCHEMA_VERSION)
            assert "upgrade alloc-es" in str(refused.value)
        assert (database.tables(), database.rows(DECISIONS)) == before
        versions = database.execute("SELECT version FROM alloc_es_schema ORDER BY 1")
    assert versions == [(version,) for version in range(1, newer + 1)]


@pytest.mark.parametrize("prefix", ["", "ALLOC_ES_"])
@pytest.mark.parametrize("value", ["yes", "1", "TRUE", "on"])
def test_the_librarys_unsafe_option_is_refused_at_start(
    store_url: str, monkeypatch: pytest.MonkeyPatch, prefix: str, value: str
) -> None:
    """Red when `open_store` does not look at the environment."""
    monkeypatch.setenv(prefix + UNSAFE, value)
    with pytest.raises(InvalidSetting) as refused:
        connect(store_url)
    assert refused.value.setting == prefix + UNSAFE
    assert "unset it" in str(refused.value)


@pytest.mark.parametrize("value", ["", "no", "0", "False", " off "])
def test_the_librarys_unsafe_option_may_be_off(
    store_url: str, monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    """Red when the option is refused whatever it says."""
    monkeypatch.setenv(UNSAFE, value)
    connect(store_url).close()


@pytest.mark.sqlite
def test_a_file_that_is_no_database_is_refused_and_left_alone(tmp_path: Path) -> None:
    """Red when SQLite's NOTADB is not among the errors that waiting can't mend."""
    file = tmp_path / "notes.txt"
    file.write_text("not a database\n" * 100)
    with pytest.raises(StoreUnavailable) as refused:
        connect(f"sqlite:///{file}")
    assert (refused.value.retryable, str(file) in str(refused.value)) == (False, True)
    assert file.read_text() == "not a database\n" * 100
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.sqlite
def test_a_missing_directory_is_named_and_not_made(tmp_path: Path) -> None:
    """Red when SQLite is left to say "unable to open"."""
    directory = tmp_path / "missing"
    with pytest.raises(StoreUnavailable) as refused:
        connect(f"sqlite:///{directory / 'alloc.db'}")
    assert f"there is no directory {directory}" in str(refused.value)
    assert (refused.value.retryable, list(tmp_path.iterdir())) == (False, [])


@pytest.mark.sqlite
def test_a_directory_is_no_database(tmp_path: Path) -> None:
    """Red when SQLite's CANTOPEN is not among the errors that waiting can't mend."""
    with pytest.raises(StoreUnavailable) as refused:
        connect(f"sqlite:///{tmp_path}")
    assert not refused.value.retryable


@pytest.mark.parametrize(
    "url",
    [
        "",
        "alloc.db",
        "mysql://host/database",
        "sqlite://",
        "sqlite:///",
        "sqlite:///:memory:",
        "sqlite:///alloc.db?mode=ro",
        "memory:///alloc",
        "postgresql://host/db?schema=No-Name",
        "postgresql://host/db?no_such_option=1",
    ],
)
def test_what_is_no_store_is_refused_at_once(url: str) -> None:
    """Red when anything behind `memory:` is let through."""
    with pytest.raises(InvalidSetting):
        connect(url)


def test_a_password_in_a_url_is_in_no_message() -> None:
    """Red when `open_store` shows the URL as it was given."""
    with pytest.raises(InvalidSetting) as refused:
        connect("mysql://ada:s3cret@host/database")
    assert "s3cret" not in str(refused.value)


@pytest.fixture
def closed(store_url: str) -> Allocations:
    """A store with one workflow that was closed, twice."""
    allocations = connect(store_url)
    allocations.workflow("acme", "triage").start("v1")
    allocations.close()
    allocations.close()
    return allocations


def test_a_closed_store_refuses_everything_in_words(closed: Allocations) -> None:
    """Red when `_check_usable` does not ask whether it was closed."""
    workflow = closed.workflow("acme", "triage")
    calls: list[Callable[[], object]] = [
        lambda: workflow.start("v1"),
        lambda: workflow.register_challenger("v2"),
        lambda: workflow.commit_allocation({"v2": 1}),
        lambda: workflow.promote_challenger("v2"),
        lambda: workflow.reject_challenger("v2"),
        lambda: workflow.roll_back(),
        lambda: workflow.roll_back(to_generation=1),
        lambda: workflow.spawn_run("run-1"),
        lambda: workflow.find_run("run-1"),
        lambda: workflow.peek("unit"),
        workflow.allocation,
        workflow.newest,
        workflow.history,
        closed.list,
        closed.position,
        lambda: list(closed.decisions()),
        lambda: list(closed.runs()),
    ]
    for call in calls:
        with pytest.raises(StoreUnavailable, match="was closed") as refused:
            call()
        assert not refused.value.retryable


@pytest.mark.parametrize("script", ["", "CREATE TABLE theirs (id INTEGER); VACUUM;"])
def test_a_sqlite_file_that_is_not_ours_is_refused_and_not_touched(
    tmp_path: Path, script: str
) -> None:
    """Red when the schema version is read through the pool, which turns the file into WAL mode."""
    path = tmp_path / "theirs.db"
    path.touch()
    with closing(sqlite3.connect(path)) as theirs:
        theirs.executescript(script)
    before = path.read_bytes()
    with pytest.raises(StoreNotInitialised):
        connect(f"sqlite:///{path}", migrate=False)
    assert path.read_bytes() == before
    assert [each.name for each in tmp_path.iterdir()] == ["theirs.db"]
