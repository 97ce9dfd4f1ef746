"""A database of an older schema version becomes one of today's, once, and loses nothing."""

from collections.abc import Iterator
from importlib.resources import files
from threading import Barrier
from typing import Any

import pytest

from alloc_es import Allocations, StoreNotInitialised, connect
from alloc_es.codec import digest, encode_as
from alloc_es.rules import findings
from alloc_es.store import postgres, sqlite
from alloc_es.store.schema import SCHEMA_VERSION
from tests.core.test_codec import LOGS, decoded
from tests.support.children import run_together
from tests.support.overlap import in_threads
from tests.support.raw import DECISIONS, REFUSED, RUNS, Raw, raw

KEY = ("acme", "triage/\u00e9")
"""The workflow of the golden log."""

VERSIONS = [(version,) for version in range(1, SCHEMA_VERSION + 1)]
PROCESSES = 4
GOLDEN_RUNS = [line for line in LOGS[1] if line["topic"] == "RunSpawned"]
GOLDEN_DECISIONS = [line for line in LOGS[1] if line["topic"] != "RunSpawned"]


@pytest.fixture
def version_1_url(durable_url: str) -> str:
    """A database as the first release left it: its tables, and the golden log in them."""
    return filled(durable_url, 1, [(line, line["state"].encode()) for line in GOLDEN_RUNS])


@pytest.fixture
def version_4_url(durable_url: str) -> str:
    """A database as release 0.4 left it, whose runs were verified and carry no digests."""
    runs = [line for line in LOGS[2] if line["topic"] == "RunSpawned"]
    return filled(durable_url, 4, [(line, encode_as(decoded(line), 1)) for line in runs])


def filled(url: str, version: int, runs: list[tuple[dict[str, Any], bytes]]) -> str:
    """A new database of a schema version with the golden decisions and some runs."""
    if url.startswith("postgresql"):
        with raw(url) as database:
            database.execute(f"CREATE SCHEMA {url.rpartition('schema=')[2]}")
    decisions = [(line, line["state"].encode()) for line in GOLDEN_DECISIONS]
    with raw(url) as database:
        for number in range(1, version + 1):
            make_version(database, number)
        for table, lines in ((DECISIONS, decisions), (RUNS, runs)):
            for line, state in lines:
                database.insert(table, (line["stream"], line["version"], line["topic"], state))
    return url


def make_version(database: Raw, version: int) -> None:
    kind = "sqlite" if database.kind == "sqlite" else "postgres"
    script = files("alloc_es.store").joinpath(f"{kind}-{version}.sql").read_text()
    if database.kind == "sqlite":
        database._connection.executescript(script)
    else:
        database.execute(script.replace("%", "%%"))
    database.execute("INSERT INTO alloc_es_schema (version) VALUES (?)", version)


def contents(url: str) -> tuple[list[Any], list[Any], list[Any]]:
    with raw(url) as database:
        versions = database.execute("SELECT version FROM alloc_es_schema ORDER BY version")
        return versions, database.rows(DECISIONS), database.rows(RUNS)


def test_a_database_of_version_1_is_brought_up_to_date_and_loses_nothing(
    version_1_url: str,
) -> None:
    """Red when a migration begins at the first script, or touches a row."""
    before = contents(version_1_url)
    assert before[0] == [(1,)]
    assert (len(before[1]), len(before[2])) == (len(GOLDEN_DECISIONS), len(GOLDEN_RUNS))
    with connect(version_1_url) as allocations:
        runs = [each.event for each in allocations.runs()]
        assert [run.run_id for run in runs] == ["run-1", "run-2", "run-3"]
        assert {run.decision_position for run in runs} == {None}
        assert [run.model_copy(update={"replayed": True}) for run in runs] == [
            allocations.workflow(*KEY).spawn_run(run.run_id, unit="another") for run in runs
        ]
    assert contents(version_1_url) == (VERSIONS, *before[1:])


def test_a_database_of_version_4_keeps_its_bytes_and_is_chained_from_there_on(
    version_4_url: str,
) -> None:
    """Red when old rows are written anew, or what comes behind them is not chained to them."""
    before = contents(version_4_url)
    assert before[0] == VERSIONS[:4]
    last = digest(before[1][-1][-1])
    with connect(version_4_url) as allocations:
        workflow = allocations.workflow(*KEY)
        old = workflow.spawn_run("run-4")
        workflow.register_challenger("v9")
        workflow.spawn_run("run-5")
        decisions, runs = list(allocations.decisions()), list(allocations.runs())
    versions, *logs = contents(version_4_url)
    assert versions == VERSIONS
    assert [log[:-added] for log, added in zip(logs, (1, 2), strict=True)] == [*before[1:]]
    assert [each.event.previous_digest for each in decisions] == [None] * 10 + [last]
    assert old.decision_digest == last
    assert [each.event.decision_digest for each in runs] == [
        *(None, None, None),
        *(last, decisions[-1].digest),
    ]
    assert list(findings(decisions, runs)) == []


def test_a_database_of_version_1_is_refused_where_nothing_may_be_made(version_1_url: str) -> None:
    """Red when an older schema is taken for today's, or changed though nobody asked for it."""
    before = contents(version_1_url)
    with pytest.raises(StoreNotInitialised) as refused:
        connect(version_1_url, migrate=False)
    assert (refused.value.found, refused.value.wanted) == (1, SCHEMA_VERSION)
    assert "alloc-es init" in str(refused.value)
    assert contents(version_1_url) == before


def test_the_fence_holds_in_a_database_that_was_brought_up_to_date(version_1_url: str) -> None:
    """Red when a migrated database records a run by what was superseded."""
    with connect(version_1_url) as mine, connect(version_1_url, migrate=False) as others:
        workflow = mine.workflow(*KEY)
        before = workflow.allocation()
        first = workflow.spawn_run("run-4")
        assert (first.generation, first.decision_position) == (before.generation, mine.position())
        decided = others.workflow(*KEY).register_challenger("v9", share_bps=5_000)
        second = workflow.spawn_run("run-5")
        assert second.generation == decided.generation == before.generation + 1
        assert second.decision_position == mine.position() > (first.decision_position or 0)
        assert mine.spawn_counts().rerouted == 1


def test_a_run_of_the_release_before_is_refused_once_the_database_is_up_to_date(
    version_1_url: str,
) -> None:
    """Red when a connection from before the migration still records runs without the fence."""
    connect(version_1_url).close()
    old = GOLDEN_RUNS[0]
    unverified = old["state"].replace("run-1", "run-9").encode()
    verified = unverified.replace(b'"decision_position":null', b'"decision_position":1')
    before = contents(version_1_url)
    with raw(version_1_url) as database:
        with pytest.raises(REFUSED):
            database.insert(RUNS, ("run/acme/run-9", 1, old["topic"], unverified))
        assert contents(version_1_url) == before
        database.insert(RUNS, ("run/acme/run-9", 1, old["topic"], verified))


def test_an_id_that_reads_like_an_unverified_run_is_recorded(version_1_url: str) -> None:
    """Red when what is refused is looked for in a way that an id can imitate."""
    name = '"decision_position":null'
    with connect(version_1_url) as allocations:
        run = allocations.workflow(*KEY).spawn_run(name, unit=f"\\{name}", actor=name)
        assert (run.run_id, run.replayed) == (name, False)


def test_processes_that_migrate_together_do_it_once(version_1_url: str) -> None:
    """Red when a migration begins with the first script, or leaves its lock too early."""
    before = contents(version_1_url)
    opened = run_together(open_and_count, [(version_1_url,)] * PROCESSES)
    assert opened == [(len(GOLDEN_DECISIONS), len(GOLDEN_RUNS))] * PROCESSES
    assert contents(version_1_url) == (VERSIONS, *before[1:])


def open_and_count(barrier: Any, url: str) -> tuple[int, int]:
    """Open a store together with others; how many decisions and runs it holds."""
    barrier.wait()
    with connect(url) as allocations:
        return len(list(allocations.decisions())), len(list(allocations.runs()))


def test_who_waited_for_anothers_migration_of_version_1_finds_it_done(
    version_1_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Red on PostgreSQL when who waited goes on from the version that it had found before.

    Both have found version 1 when they meet; then one of them has the lock.
    """
    barrier = Barrier(2, timeout=30)
    arrivals = iter(range(2))
    for factory in (postgres.Factory, sqlite.Factory):
        monkeypatch.setattr(factory, "_migrate", after_meeting(arrivals, barrier, factory._migrate))
    opened = in_threads(*[lambda: connect(version_1_url)] * 2)
    for each in opened:
        assert isinstance(each, Allocations), each
        each.close()
    assert not barrier.broken
    assert contents(version_1_url)[0] == VERSIONS


def after_meeting(arrivals: Iterator[int], barrier: Barrier, migrate: Any) -> Any:
    def meet(*arguments: Any) -> None:
        # On SQLite who lost the race begins again, alone.
        if next(arrivals, None) is not None:
            barrier.wait()
        migrate(*arguments)

    return meet
