"""SQLite and PostgreSQL do what the store in memory does, whatever is asked of them."""

from collections import Counter
from typing import cast

from hypothesis import Phase, settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

from tests.model.lab import Lab
from tests.model.machine import COMMANDS, Beside

EXAMPLES = 60
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


def test_a_durable_store_answers_every_command_as_the_one_in_memory_does(durable_url: str) -> None:
    """Red when an adapter differs: a unique index is missing, a read is stale, keys run into
    each other, a reopened store has forgotten something; and when the commands that were
    drawn left out a rule or a refusal.
    """
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
