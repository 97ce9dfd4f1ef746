"""What is written to the logs: histories of a test's own, or random ones of many workflows."""

from collections.abc import Iterable
from contextlib import suppress
from datetime import datetime, timedelta
from itertools import count
from random import Random

from alloc_es import Allocations, Refusal, SpawnRequest, Workflow, connect
from alloc_es.commands import (
    Command,
    CommitAllocation,
    PromoteChallenger,
    RegisterChallenger,
    RejectChallenger,
    RollBack,
    Start,
)
from alloc_es.identity import Version
from tests.core.given import START
from tests.core.histories import command_for


def opened(url: str, max_challengers: int = 3) -> Allocations:
    """A connection whose nth look at the clock is `at_second(n)`, and whose ids are in order."""
    seconds, ids = count(1), count(1)
    return connect(
        url,
        actor="ada",
        max_challengers=max_challengers,
        clock=lambda: at_second(next(seconds)),
        new_id=lambda: f"id-{next(ids):04}",
    )


def at_second(number: int) -> datetime:
    """A time on the clock of `opened`."""
    return START + timedelta(seconds=number)


def spawn(allocations: Allocations, workflow: Workflow, runs: Iterable[str]) -> None:
    """Spawn runs of these ids, each of which must be recorded."""
    tenant, name = workflow.key
    asked = [SpawnRequest(tenant, name, run) for run in runs]
    for outcome in allocations.spawn_runs(asked):
        assert not isinstance(outcome, Exception), outcome


def obey(workflow: Workflow, command: Command) -> None:
    """Send a command, which may be refused."""
    with suppress(Refusal):
        match command:
            case Start():
                workflow.start(command.current)
            case RegisterChallenger():
                workflow.register_challenger(command.version, command.share_bps)
            case CommitAllocation():
                workflow.commit_allocation(dict(command.shares))
            case PromoteChallenger():
                workflow.promote_challenger(command.version)
            case RejectChallenger():
                workflow.reject_challenger(command.version, replacement=command.replacement)
            case RollBack():
                workflow.roll_back(to_generation=command.to_generation, drop=command.drop)


class Writer:
    """Sends random commands and spawns, of two tenants that nobody else has, in turns."""

    def __init__(self, allocations: Allocations, random: Random, number: int) -> None:
        self._allocations = allocations
        self._random = random
        self._runs = count(1)
        self.tenants = (f"acme-{number}", f"acme/{number}")
        places = ((0, "triage"), (0, "a/b"), (1, "triage"))
        self._workflows = [allocations.workflow(self.tenants[t], name) for t, name in places]
        self._currents: dict[Workflow, dict[int, Version]] = {w: {} for w in self._workflows}

    def write(self, turns: int) -> None:
        """Take so many turns; most of them leave an event behind, or some."""
        for _ in range(turns):
            workflow = self._random.choice(self._workflows)
            if self._random.random() < 0.3:
                self._spawn(workflow)
            else:
                self._decide(workflow)

    def _decide(self, workflow: Workflow) -> None:
        currents = self._currents[workflow]
        state = workflow.allocation() if currents else None
        obey(workflow, command_for(self._random, state, currents))
        with suppress(Refusal):
            after = workflow.allocation()
            currents[after.generation] = after.current

    def _spawn(self, workflow: Workflow) -> None:
        tenant, name = workflow.key
        asked = [SpawnRequest(tenant, name, f"run {next(self._runs)}") for _ in range(5)]
        self._allocations.spawn_runs(asked)
