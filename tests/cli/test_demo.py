"""The demo: its claims are checked on the store, and a claim that does not hold ends it."""

import json
import re
import shlex
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import alloc_es
from alloc_es import Allocations, DecisionEvent, Recorded, RunSpawned, Workflow
from alloc_es.cli import demo
from alloc_es.cli.race import Race, race
from tests.cli.terminal import Terminal


def test_the_demo_does_what_it_says(durable_url: str) -> None:
    with alloc_es.connect(durable_url):
        pass
    done = Terminal(durable_url).run(
        "demo", "--store", durable_url, "--rounds", "12", "--runs", "60", "--json"
    )
    assert done.returncode == 0, done.stderr
    facts = json.loads(done.stdout)
    assert sum(facts["wins"].values()) == facts["conflicts"] == 12
    assert (facts["commits"], facts["runs"], facts["recomputed"]) == (24, 60, 60)
    assert facts["triggers"] == 1
    tenant, workflow = facts["workflow"].split("/")
    with alloc_es.connect(durable_url, migrate=False) as allocations:
        found = allocations.workflow(tenant, workflow)
        assert found.allocation().generation == facts["generation"]
        assert facts["split"] == found.allocation().split == {"v1": 10_000}
        assert len(list(allocations.runs())) == 60


def test_the_demo_is_told_line_by_line_and_leaves_nothing_behind(
    sqlite_url: str, tmp_path: Path
) -> None:
    """Red when the store of a demo that names none is left in the temporary directory."""
    done = Terminal(sqlite_url).process(
        "demo", "--rounds", "2", "--runs", "10", TMPDIR=str(tmp_path)
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "one trigger" in done.stdout
    assert "10 of 10 recomputed" in done.stdout
    assert "the store is removed now; --keep keeps it" in done.stdout
    assert list(tmp_path.iterdir()) == []


def test_a_demo_that_is_kept_says_how_to_look_at_it(sqlite_url: str, tmp_path: Path) -> None:
    """Red when `--keep` removes the store, or the command that is shown does not find it."""
    terminal = Terminal(sqlite_url)
    done = terminal.process("demo", "--keep", "--rounds", "1", "--runs", "5", TMPDIR=str(tmp_path))
    look = re.search(r"^look at it: alloc-es (show .*), or", done.stdout, re.M)
    assert look, done
    assert "generation 6" in terminal.ok(*shlex.split(look[1]))


def test_two_demos_on_one_store_are_two_workflows(sqlite_url: str) -> None:
    terminal = Terminal(sqlite_url)
    for _ in range(2):
        terminal.ok("demo", "--store", sqlite_url, "--rounds", "1", "--runs", "2")
    assert [found["generation"] for found in terminal.json("list", "demo")] == [6, 6]


def test_a_password_is_not_told(sqlite_url: str) -> None:
    """Red when the demo shows a URL with its password."""
    with alloc_es.connect(sqlite_url) as allocations:
        workflow = allocations.workflow("demo", "w")
    for url in ("postgresql://me:hush@host/db", "postgresql://me@host/db?password=hush"):
        assert "hush" not in demo._afterwards(url, workflow, kept=True)


def two_winners(real: Race) -> Race:
    first = real.attempts[0]
    return Race((first, first, *real.attempts[2:]))


def loser_is_told_of_itself(real: Race) -> Race:
    lies = [replace(a, winner=None if a.won else a.scheduler) for a in real.attempts]
    return Race(tuple(lies))


def one_commit_untold(real: Race) -> Race:
    return Race(real.attempts[:-2])


def scheduler_died(_: Race) -> Race:
    raise RuntimeError("a scheduler went silent")


@pytest.mark.parametrize(
    ("forge", "claim"),
    [
        (two_winners, "each round has one winner"),
        (loser_is_told_of_itself, "each loser is told who won"),
        (one_commit_untold, "each round has one winner"),
        (scheduler_died, "both schedulers finish (a scheduler went silent)"),
    ],
)
def test_a_race_that_went_wrong_ends_the_demo(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch, forge: Callable[[Race], Race], claim: str
) -> None:
    """Red when a check of the race is only told and not made."""
    monkeypatch.setattr(demo, "race", lambda *a, **k: forge(race(*a, **k, mode="thread")))
    assert claim in ends(sqlite_url)


def test_a_commit_behind_the_demos_back_ends_it(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Red when the demo does not count the generations."""

    def race_and_more(*args: Any, **options: Any) -> Race:
        done = race(*args, **options, mode="thread")
        with alloc_es.connect(sqlite_url) as allocations:
            allocations.workflow(*args[1:]).commit_allocation({"v2": 777})
        return done

    monkeypatch.setattr(demo, "race", race_and_more)
    assert "each commit made one generation" in ends(sqlite_url)


def test_runs_that_all_go_to_the_challenger_end_the_demo(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Red when the observed share is not held against the split."""
    real = Workflow.spawn_run

    def to_the_challenger(*args: Any, **options: Any) -> RunSpawned:
        return real(*args, **options).model_copy(update={"arm": "challenger"})

    monkeypatch.setattr(Workflow, "spawn_run", to_the_challenger)
    assert "100.00% of the runs, 5.00% +- 14.07% expected" in ends(sqlite_url, runs=60)


def test_a_run_that_its_event_does_not_explain_ends_the_demo(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Red when the recomputed bucket is not compared with the recorded one."""

    def neighbour(unit: str, **options: Any) -> int:
        return alloc_es.bucket_of(unit, **options) ^ 1

    monkeypatch.setattr(demo, "bucket_of", neighbour)
    assert "each run's event explains its version" in ends(sqlite_url)


@pytest.mark.parametrize("seen", [[], [0, 0]])
def test_a_trigger_that_is_not_there_once_ends_the_demo(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch, seen: list[int]
) -> None:
    """Red when the trigger is not counted."""
    real = Allocations.decisions

    def decisions(self: Allocations, *, after: int) -> Iterator[Recorded[DecisionEvent]]:
        found = list(real(self, after=after))
        return iter([found[index] for index in seen])

    monkeypatch.setattr(Allocations, "decisions", decisions)
    assert "the rejection is one trigger" in ends(sqlite_url)


def test_a_process_that_sees_something_else_ends_the_demo(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Red when the fresh process is only started."""
    real = subprocess.run

    def older(command: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
        done = real(command, **options)
        done.stdout = done.stdout.replace('"generation": 6', '"generation": 5')
        return done

    monkeypatch.setattr(subprocess, "run", older)
    assert "a fresh process sees the same allocation" in ends(sqlite_url)


def ends(store: str, runs: int = 5) -> str:
    """What the demo says when it ends itself."""
    arguments = ["--store", store, "--rounds", "1", "--runs", str(runs)]
    return str(Terminal(store).error(6, "demo", *arguments)["message"])
