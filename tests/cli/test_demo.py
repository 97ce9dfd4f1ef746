"""The demo: its claims are checked on the store, and a claim that does not hold ends it."""

import json

import pytest
import typer

import alloc_es
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


def test_the_demo_is_told_line_by_line_and_leaves_nothing_behind(sqlite_url: str) -> None:
    done = Terminal(sqlite_url).run("demo", "--rounds", "2", "--runs", "10")
    assert (done.returncode, done.stderr) == (0, "")
    assert "one trigger" in done.stdout
    assert "10 of 10 recomputed" in done.stdout
    assert sqlite_url.removeprefix("sqlite:///") not in done.stdout


def test_a_claim_that_does_not_hold_ends_the_demo(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Red when a check is only told and not made."""

    def two_winners(*args: object, **options: object) -> Race:
        run = race(*args, **options)  # type: ignore[arg-type]
        first = run.attempts[0]
        return Race((first, first, *run.attempts[2:]))

    monkeypatch.setattr(demo, "race", two_winners)
    with pytest.raises(typer.Exit) as end:
        demo.demo(store=sqlite_url, rounds=2, runs=5)
    assert end.value.exit_code == 6
    assert "each round has one winner" in capsys.readouterr().err
