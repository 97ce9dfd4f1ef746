"""The rounds of a drill: all schedulers on one generation, and whatever befalls them."""

import time
from collections.abc import Sequence
from dataclasses import replace
from random import Random

from alloc_es.allocation import Allocation
from alloc_es.app import Allocations
from alloc_es.drill.account import Account, Told
from alloc_es.drill.crew import Crew
from alloc_es.drill.faults import Faults
from alloc_es.drill.plan import Fault
from alloc_es.errors import GenerationConflict
from alloc_es.events import DecisionEvent, Recorded
from alloc_es.harness import Decide, Done, Participant, Pending, Refused
from alloc_es.identity import WorkflowKey
from alloc_es.proposals import Promote, Proposal, Register, Reject, Reshare

_SHARES = 9_000
_REASON = "round {} of a drill"


class Rounds:
    """Plays one round after the other; the same seed asks for the same in each."""

    def __init__(
        self,
        allocations: Allocations,
        crew: Crew,
        faults: Faults,
        account: Account,
        *,
        keys: Sequence[WorkflowKey],
        schedulers: Sequence[str],
        seed: int,
    ) -> None:
        self._allocations = allocations
        self._crew = crew
        self._faults = faults
        self._account = account
        self._keys = keys
        self._schedulers = schedulers
        self._random = Random(f"rounds {seed}")

    def play(self, number: int, faults: Sequence[Fault]) -> None:
        """Let every scheduler decide on the newest generation of one workflow."""
        key = self._keys[number % len(self._keys)]
        state = self._read(number, key).event.allocation
        proposals = self._proposals(number, state)
        self._faults.prepare(faults)
        asked: list[tuple[str, int, Participant, Pending]] = []
        for name, proposal in zip(self._schedulers, proposals, strict=True):
            request = Decide(key, proposal, state.generation)
            command_id = f"{key.tenant_id}-{number}-{name}"
            began = time.monotonic_ns()
            asked.append((name, began, *self._crew.ask(name, request, command_id)))
        self._faults.strike(faults)
        for name, began, member, pending in asked:
            told = self._told(number, state, name, pending.request_id, began)
            self._note(told, self._crew.settle(name, member, pending))

    def _read(self, number: int, key: WorkflowKey) -> Recorded[DecisionEvent]:
        began = time.monotonic_ns()
        newest = self._allocations.workflow(*key).newest()
        self._account.tell(
            Told("drill", key, "", number, began, time.monotonic_ns(), found=newest.generation)
        )
        return newest

    def _proposals(self, number: int, state: Allocation) -> list[Proposal]:
        """A wish for each scheduler; of one kind, and no two alike where that can be.

        No challenger is rejected without a replacement: that would send whoever waits for
        triggers on the same store to generate a version for nobody.
        """
        reason = _REASON.format(number)
        versions = [f"v{number}-{name}" for name in self._schedulers]
        chance = self._random.random()
        live = state.challenger
        if live is None:
            return [Register(version, 5_000, reason) for version in versions]
        if chance < 0.15:
            return [Reject(live, version, reason) for version in versions]
        if chance < 0.25:
            return [Promote(live, reason) for _ in versions]
        first = number * len(versions)
        shares = [1 + (first + index) % _SHARES for index in range(len(versions))]
        return [Reshare({live: share}, reason) for share in shares]

    def _told(self, number: int, state: Allocation, name: str, command_id: str, began: int) -> Told:
        """A command of which nothing is known yet."""
        return Told(name, state.key, command_id, number, began, None, expected=state.generation)

    def _note(self, told: Told, outcome: Done | Refused | None) -> None:
        """Keep what a scheduler was told; the times are its own where it said them."""
        match outcome:
            case None:
                self._account.leave(f"command {told.command_id} on {told.key}")
            case Done():
                told = replace(told, committed=outcome.answer)
            case Refused(error=GenerationConflict() as conflict):
                told = replace(told, conflict=conflict)
            case Refused():
                told = replace(told, refused=outcome.error)
        if outcome:
            told = replace(told, began=outcome.began or told.began, ended=outcome.ended)
        self._account.tell(told)
