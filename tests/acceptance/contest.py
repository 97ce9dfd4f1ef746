"""What a race of two schedulers must show before it proves anything."""

import time

from alloc_es import GenerationConflict, Workflow, connect
from alloc_es.cli.race import Attempt, Race


def require_overlap(race: Race) -> None:
    """Fail unless every loser was told so and at least half of the rounds overlapped."""
    rounds = len(race.rounds)
    if race.conflicts < rounds:
        raise AssertionError(f"{race.conflicts} conflicts in {rounds} rounds: nobody competed")
    if 2 * race.overlapped < rounds:
        raise AssertionError(f"{race.overlapped} of {rounds} rounds overlapped: this was no race")


def one_behind_the_other(url: str, rounds: int, *, stale: bool) -> Race:
    """A false race: in each round one scheduler is called, and when it is done the other.

    With `stale` both had read the generation before, so the second is told of a conflict
    as in a race; without, it reads what the first one left.
    """
    attempts = []
    with connect(url, actor="a") as one, connect(url, actor="b") as other:
        workflows = [each.workflow("acme", "triage") for each in (one, other)]
        for number in range(rounds):
            before = workflows[0].allocation().generation
            for index, workflow in enumerate(workflows):
                expected = before if stale else workflow.allocation().generation
                share = 1 + 2 * number + index
                attempts.append(_attempt(workflow, "ab"[index], number, expected, share))
    return Race(tuple(attempts))


def _attempt(workflow: Workflow, name: str, number: int, expected: int, share: int) -> Attempt:
    conflict = None
    began = time.monotonic_ns()
    try:
        committed = workflow.commit_allocation({"v2": share}, expected_generation=expected)
    except GenerationConflict as error:
        conflict = error
        committed = workflow.commit_allocation({"v2": share}, expected_generation=error.actual)
    return Attempt(
        round=number,
        scheduler=name,
        expected=expected,
        began=began,
        ended=time.monotonic_ns(),
        actual=conflict.actual if conflict else None,
        winner=conflict.winner.actor if conflict and conflict.winner else None,
        lost_at_commit=conflict is not None and conflict.lost_at_commit,
        generation=committed.generation,
    )
