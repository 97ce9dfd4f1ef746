"""2. Two live schedulers, real concurrency, 100 rounds: one wins each, the other decides again."""

import pytest

from alloc_es import AllocationCommitted, connect
from alloc_es.cli.race import Attempt, Race, race
from alloc_es.harness import Mode
from alloc_es.identity import Version
from tests.acceptance.contest import one_behind_the_other, require_overlap
from tests.support.raw import DECISIONS, raw

ROUNDS = 100
V2 = Version("v2")
NAMES = ("scheduler-a", "scheduler-b")


@pytest.mark.parametrize("mode", ["process", "thread"])
def test_exactly_one_of_two_live_schedulers_wins_each_round(durable_url: str, mode: Mode) -> None:
    """Red when a loser takes the event that it finds at its place for its own, or when the
    schedulers of `race` run one behind the other.
    """
    prepare(durable_url)
    outcome = race(durable_url, "acme", "triage", rounds=ROUNDS, schedulers=NAMES, mode=mode)
    assert len(outcome.rounds) == ROUNDS
    for number, attempts in enumerate(outcome.rounds):
        one_won_and_the_other_committed_behind(attempts, 2 + 2 * number)
    assert sum(outcome.wins.values()) == outcome.conflicts == ROUNDS
    require_overlap(outcome)
    log_holds_these_commits_and_no_other(durable_url, outcome)


def one_won_and_the_other_committed_behind(attempts: tuple[Attempt, ...], before: int) -> None:
    """Both tried on one generation; the loser was told who made the next, and made the next."""
    (winner,) = [each for each in attempts if each.won]
    (loser,) = [each for each in attempts if not each.won]
    assert (winner.expected, loser.expected) == (before, before)
    assert (loser.actual, loser.winner) == (before + 1, winner.scheduler)
    assert (winner.generation, loser.generation) == (before + 1, before + 2)


def log_holds_these_commits_and_no_other(url: str, outcome: Race) -> None:
    """Every attempt's commit, each at the generation that its scheduler was told."""
    told = {each.generation: (each.scheduler, share_of(each)) for each in outcome.attempts}
    with connect(url, migrate=False) as allocations:
        history = allocations.workflow("acme", "triage").history()
        allocation = allocations.workflow("acme", "triage").allocation()
    commits = history[2:]
    assert allocation.generation == len(history) == 2 + len(outcome.attempts)
    assert [each.generation for each in history] == list(range(1, len(history) + 1))
    assert all(isinstance(each.event, AllocationCommitted) for each in commits)
    held = {each.generation: (each.actor, each.event.allocation.split[V2]) for each in commits}
    assert held == told
    with raw(url) as database:
        assert len(database.rows(DECISIONS)) == len(history)


def share_of(attempt: Attempt) -> int:
    """The share that a scheduler of `race` commits in a round, different in each."""
    return 1 + attempt.round * len(NAMES) + NAMES.index(attempt.scheduler)


@pytest.mark.parametrize("stale", [True, False])
def test_schedulers_that_run_one_behind_the_other_are_no_race(
    durable_url: str, stale: bool
) -> None:
    """Red when `require_overlap` does not look at when the attempts began and ended."""
    prepare(durable_url)
    outcome = one_behind_the_other(durable_url, 10, stale=stale)
    assert (outcome.conflicts, outcome.overlapped) == (10 if stale else 0, 0)
    with pytest.raises(AssertionError, match="no race" if stale else "nobody competed"):
        require_overlap(outcome)


def prepare(url: str) -> None:
    """A workflow with one live challenger: generation 2."""
    with connect(url) as allocations:
        workflow = allocations.workflow("acme", "triage")
        workflow.start("v1")
        workflow.register_challenger("v2")
