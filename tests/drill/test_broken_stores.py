"""A drill can fail: it finds each kind of broken store, and nothing on a healthy one."""

import pytest

import alloc_es
from alloc_es.drill.drill import drill
from alloc_es.drill.settings import Settings
from alloc_es.drill.verdict import Verdict
from tests.drill.broken import unprotected

DOUBLE = {"acknowledged", "one winner", "linearizable"}


def drilled(url: str, opener: str) -> Verdict:
    settings = Settings(
        url=url,
        opener=f"tests.drill.broken:{opener}",
        mode="thread",
        rounds=12,
        workflows=1,
        faults={"crowd": 1, "clock step": 2},
    )
    return drill(settings)


@pytest.mark.parametrize(
    ("opener", "rules"),
    [
        ("taken_and_acknowledged", DOUBLE),
        ("last_write_wins", DOUBLE),
        ("decisions_swallowed", {"acknowledged", "linearizable"}),
        ("decisions_doubled", {"asked for", "transitions"}),
        ("lost_replies_refused", {"refused"}),
        ("runs_swallowed", {"runs"}),
        ("runs_doubled", {"asked for"}),
        ("without_fence", {"newest"}),
        ("stamped_old", {"begun"}),
        ("without_incarnations", {"one life"}),
        ("commands_forgotten", {"again"}),
        ("nothing_let_through", {"let through"}),
    ],
)
def test_a_broken_store_is_found_by_the_promise_that_it_breaks(
    sqlite_url: str, opener: str, rules: set[str]
) -> None:
    """Red when a promise, or a rule of the logs, is not held against them."""
    alloc_es.connect(sqlite_url).close()
    if opener == "last_write_wins":
        unprotected(sqlite_url)
    verdict = drilled(sqlite_url, opener)
    assert rules <= {problem.rule for problem in verdict.problems}
    assert not verdict.passed
    assert bool(verdict.lost) == bool(rules & {"acknowledged", "runs"})
    assert verdict.doubled or not rules & {"one winner", "again"}


def test_a_healthy_store_is_found_to_be_one(durable_url: str) -> None:
    """Red when something that was kept is reported, or when the drill does not race."""
    alloc_es.connect(durable_url).close()
    verdict = drilled(durable_url, "healthy")
    assert verdict.problems == ()
    assert verdict.passed
    assert (verdict.rounds, sum(score.won for score in verdict.scores.values())) == (12, 12)
    assert (verdict.conflicts, verdict.lost_at_commit) == (12, 12)
    assert verdict.runs == 12 * 5 + 64 + 1
    assert verdict.decisions == 2 + 12 + 1
    assert verdict.rerouted
