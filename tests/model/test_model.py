"""SQLite and PostgreSQL do what the store in memory does, whatever is asked of them."""

from collections import Counter
from random import Random
from typing import cast

import pytest
from hypothesis import Phase, settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

from tests.model.lab import Lab
from tests.model.machine import COMMANDS, Beside
from tests.support.effort import effort

EXAMPLES = effort(30, soak=80)
STEPS = 40

REACHED = {
    *COMMANDS,
    "spawn_run",
    "find_run",
    "peek",
    "reopen",
    "limit 1",
    "limit 3",
    "after 1 attempts",
    "after 2 attempts",
    "replayed",
    "nothing to do",
    "a new run",
    "a known run",
    "a run that was overtaken",
    "AlreadyCurrent",
    "ChallengerAlreadyLive",
    "ChallengersStillLive",
    "CommandIdReused",
    "GenerationConflict",
    "GenerationConflict lost at commit",
    "InvalidSplit",
    "NoEarlierVersion",
    "NoSuchChallenger",
    "RunIdTaken",
    "UnknownWorkflow",
    "WorkflowAlreadyStarted",
}
"""Every rule, every refusal, and every way in which a command can end."""


def test_a_durable_store_answers_every_command_as_the_one_in_memory_does(
    durable_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Red when an adapter differs: a unique index is missing, a read is stale, keys run into
    each other, a reopened store has forgotten something; and when the commands that were
    drawn left out a rule or a refusal.
    """
    # The threads that fill a pool draw from the global source of chance, at any moment, and
    # Hypothesis refuses an example in which that source changes while it draws.
    monkeypatch.setattr("psycopg_pool.base.random", Random(0).random)
    lab = Lab(durable_url)
    try:
        run_state_machine_as_test(
            cast(type[RuleBasedStateMachine], lambda: Beside(lab)),
            settings=settings(
                max_examples=EXAMPLES,
                stateful_step_count=STEPS,
                # Shrinking what fails takes minutes on real stores; add Phase.shrink for it.
                phases=[Phase.generate],
            ),
        )
    finally:
        lab.close()

    missed = {name: lab.reached[name] for name in REACHED if not lab.reached[name]}
    assert missed == {}
    assert Counter(lab.reached).total() > EXAMPLES * STEPS / 2
