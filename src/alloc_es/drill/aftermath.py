"""What a drill tries when its rounds are over and all is calm, as no race tells it apart."""

from collections.abc import Sequence
from dataclasses import replace

from alloc_es.app import Allocations
from alloc_es.drill.account import Account, Told
from alloc_es.drill.crew import Crew
from alloc_es.errors import AllocationError
from alloc_es.events import DecisionEvent
from alloc_es.harness import Decide, Done, Refused, Request, Spawn
from alloc_es.identity import WorkflowKey
from alloc_es.proposals import Proposal, Register, Reshare
from alloc_es.scheduler_errors import IncarnationSuperseded
from alloc_es.spawning import SpawnRequest

_REASON = "behind the last round of a drill"


class Aftermath:
    """Asks again for what was done, and then the old selves of those who have successors."""

    def __init__(
        self,
        allocations: Allocations,
        crew: Crew,
        account: Account,
        key: WorkflowKey,
        schedulers: Sequence[str],
        spawners: Sequence[str],
    ) -> None:
        self._allocations = allocations
        self._crew = crew
        self._account = account
        self._key = key
        self._schedulers = schedulers
        self._spawners = spawners

    def play(self) -> None:
        """Try everything; what is not as it was promised is noted."""
        self._repeat_a_command()
        self._repeat_a_run()
        self._decide_as_an_old_self()
        self._spawn_as_an_old_self()

    def _repeat_a_command(self) -> None:
        """The first scheduler decides, and the last one sends the same behind it."""
        first, last = self._schedulers[0], self._schedulers[-1]
        command_id = f"{self._key.tenant_id}-again"
        request = self._decision()
        done = self._asked(first, request, command_id)
        self._tell(first, request, command_id, done)
        if first == last:
            # It keeps its answers, which its next life does not.
            self._crew.restart(first)
        again = self._asked(last, request, command_id)
        if not (_committed(again) and _committed(again) == _committed(done)):
            problem = f"command {command_id} of {first}, asked of {last}: {_words(again)}"
            self._note("again", problem)

    def _repeat_a_run(self) -> None:
        name = self._spawners[0]
        run = SpawnRequest(*self._key, f"again-{name}")
        self._account.ask_runs([run])
        told = [self._asked(name, Spawn((run,)), f"again-{turn}-{name}") for turn in (1, 2)]
        first, again = (each.answer[0] if isinstance(each, Done) else each for each in told)
        if isinstance(first, AllocationError | Refused | None):
            self._note("again", f"run {run.run_id} was not recorded: {first}")
        elif isinstance(again, AllocationError | Refused | None) or not again.replayed:
            self._note("again", f"run {run.run_id}, asked of {name} again: {again}")

    def _decide_as_an_old_self(self) -> None:
        name = self._schedulers[0]
        self._allocations.new_incarnation(self._crew.member(name).name)
        command_id = f"{self._key.tenant_id}-old-self"
        request = self._decision()
        outcome = self._asked(name, request, command_id)
        self._tell(name, request, command_id, outcome)
        self._judge(name, outcome)

    def _spawn_as_an_old_self(self) -> None:
        name = self._spawners[0]
        self._allocations.new_incarnation(self._crew.member(name).name)
        run = SpawnRequest(*self._key, f"old-self-{name}")
        self._account.ask_runs([run])
        outcome = self._asked(name, Spawn((run,)), run.run_id)
        if isinstance(outcome, Done) and isinstance(outcome.answer[0], AllocationError):
            outcome = Refused(outcome.answer[0])
        self._judge(name, outcome)

    def _decision(self) -> Decide:
        """One on the newest generation, to which nobody objects."""
        state = self._allocations.workflow(*self._key).allocation()
        proposal: Proposal = Register("v-last", 1, _REASON)
        if state.challenger:
            share = state.split[state.challenger] % 2 + 1
            proposal = Reshare({state.challenger: share}, _REASON)
        return Decide(self._key, proposal, state.generation)

    def _asked(self, name: str, request: Request, request_id: str) -> Done | Refused | None:
        return self._crew.settle(name, *self._crew.ask(name, request, request_id))

    def _tell(
        self, name: str, request: Decide, command_id: str, outcome: Done | Refused | None
    ) -> None:
        """Keep a decision that was let through."""
        if isinstance(outcome, Done):
            told = Told(name, self._key, command_id, -1, 0, None, request.expected_generation)
            self._account.tell(replace(told, committed=outcome.answer))

    def _judge(self, name: str, outcome: Done | Refused | None) -> None:
        if not (isinstance(outcome, Refused) and isinstance(outcome.error, IncarnationSuperseded)):
            problem = f"{name} was asked behind its successor: {_words(outcome)}"
            self._note("one life", problem)

    def _note(self, promise: str, problem: str) -> None:
        self._account.broken.append((promise, problem))


def _committed(outcome: Done | Refused | None) -> DecisionEvent | None:
    """The event of a decision that was let through."""
    return outcome.answer.event if isinstance(outcome, Done) else None


def _words(outcome: Done | Refused | None) -> str:
    match outcome:
        case Done():
            return "it was let through"
        case Refused():
            return str(outcome.error)
        case None:
            return "nobody can tell"
