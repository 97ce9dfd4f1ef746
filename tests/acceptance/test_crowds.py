"""Plus: more processes than two, at once, on one store."""

import pytest

from alloc_es import connect
from alloc_es.identity import Version
from alloc_es.store.schema import SCHEMA_VERSION
from tests.acceptance import crowd
from tests.support.children import run_together
from tests.support.raw import DECISIONS, raw

V2 = Version("v2")
NAMES = [f"scheduler-{number}" for number in range(8)]


def test_16_processes_register_different_challengers_and_one_wins(durable_url: str) -> None:
    """Red when a loser gives up, or takes the event at its place for its own."""
    versions = [f"v{number}" for number in range(2, 18)]
    with connect(durable_url) as allocations:
        workflow = allocations.workflow("acme", "triage")
        workflow.start("v1")
        outcomes = run_together(crowd.register, [(durable_url, each) for each in versions])
        winner = workflow.allocation().challenger
        assert [each.event.actor for each in workflow.history()] == ["application", winner]
    assert outcomes == [("won" if each == winner else "refused", winner) for each in versions]


def test_8_processes_start_on_an_empty_database_10_times(empty_urls: list[str]) -> None:
    """Red on PostgreSQL when `_migrate` takes no lock."""
    outcomes = run_together(crowd.start_on_empty, [(empty_urls, name) for name in NAMES])
    for number, url in enumerate(empty_urls):
        assert sorted(each[number] for each in outcomes) == ["started"] + ["was started"] * 7
        with raw(url) as database, connect(url, migrate=False) as allocations:
            applied = database.execute("SELECT version FROM alloc_es_schema ORDER BY version")
            assert applied == [(version,) for version in range(1, SCHEMA_VERSION + 1)]
            assert sorted(run.event.run_id for run in allocations.runs()) == [
                f"run-{name}" for name in NAMES
            ]


@pytest.mark.sqlite
def test_8_processes_commit_200_times_each_on_one_sqlite_file(sqlite_url: str) -> None:
    """Red when a loser gives up after a few attempts."""
    commit_together(sqlite_url, commits=200)


@pytest.mark.postgresql
def test_8_processes_commit_50_times_each_on_postgresql(postgres_url: str) -> None:
    """Red when a loser gives up after a few attempts."""
    commit_together(postgres_url, commits=50)


def commit_together(url: str, *, commits: int) -> None:
    """Eight processes commit shares that no other commits; every one of them must be there."""
    shares = {
        name: list(range(1 + number * commits, 1 + (number + 1) * commits))
        for number, name in enumerate(NAMES)
    }
    with connect(url) as allocations:
        workflow = allocations.workflow("acme", "triage")
        workflow.start("v1")
        workflow.register_challenger("v2")
        answers = run_together(crowd.commit, [(url, *each) for each in shares.items()])
        history = workflow.history()[2:]
    assert [each.generation for each in history] == list(range(3, 3 + 8 * commits))
    told = {
        generation: (name, share)
        for (name, own), answer in zip(shares.items(), answers, strict=True)
        for share, (generation, _) in zip(own, answer, strict=True)
    }
    held = [(each.actor, each.event.allocation.split[V2]) for each in history]
    assert held == [told[each.generation] for each in history]
    attempts = [attempt for answer in answers for _, attempt in answer]
    assert max(attempts) > 1, "no command was ever decided again: the processes never overlapped"
    with raw(url) as database:
        assert len(database.rows(DECISIONS)) == 2 + 8 * commits
