"""Whether a participant that has a successor is kept from recording anything."""

from alloc_es.app import Allocations
from alloc_es.drill.account import Account, Told
from alloc_es.drill.crew import Crew
from alloc_es.errors import AllocationError
from alloc_es.harness import Decide, Done, Refused, Request, Spawn
from alloc_es.identity import WorkflowKey
from alloc_es.proposals import Proposal, Register, Reshare
from alloc_es.scheduler_errors import IncarnationSuperseded
from alloc_es.spawning import SpawnRequest

_REASON = "an old self, at the end of a drill"


class Succession:
    """Begins a successor's incarnation, and asks the old self, which lives on."""

    def __init__(
        self, allocations: Allocations, crew: Crew, account: Account, key: WorkflowKey
    ) -> None:
        self._allocations = allocations
        self._crew = crew
        self._account = account
        self._key = key

    def try_decide(self, scheduler: str) -> None:
        """A decision on the newest generation, which only the succession forbids."""
        state = self._allocations.workflow(*self._key).allocation()
        proposal: Proposal = Register("v-old-self", 1, _REASON)
        if state.challenger:
            share = state.split[state.challenger] % 2 + 1
            proposal = Reshare({state.challenger: share}, _REASON)
        request = Decide(self._key, proposal, state.generation)
        command_id = f"{self._key.tenant_id}-old-{scheduler}"
        outcome = self._asked(scheduler, request, command_id)
        if isinstance(outcome, Done):
            told = Told(scheduler, self._key, command_id, -1, 0, None, state.generation)
            self._account.tell(told)
        self._judge(scheduler, outcome)

    def try_spawn(self, spawner: str) -> None:
        """A run, which only the succession forbids."""
        run = SpawnRequest(*self._key, f"old-{spawner}")
        self._account.ask_runs([run])
        outcome = self._asked(spawner, Spawn((run,)), f"old-{spawner}")
        if isinstance(outcome, Done) and isinstance(outcome.answer[0], AllocationError):
            outcome = Refused(outcome.answer[0])
        self._judge(spawner, outcome)

    def _asked(self, name: str, request: Request, request_id: str) -> Done | Refused | None:
        member = self._crew.member(name)
        self._allocations.new_incarnation(member.name)
        return self._crew.settle(name, member, member.send(request, request_id=request_id))

    def _judge(self, name: str, outcome: Done | Refused | None) -> None:
        if isinstance(outcome, Refused) and isinstance(outcome.error, IncarnationSuperseded):
            return
        became = outcome.error if isinstance(outcome, Refused) else "it was let through"
        self._account.old_selves.append(f"{name} was asked behind its successor: {became}")
