"""What the log says of a request that its participant gave no answer to."""

from alloc_es.app import Allocations
from alloc_es.committing import Committed
from alloc_es.decider import is_outcome_of
from alloc_es.errors import (
    AllocationError,
    CommandIdReused,
    InvalidIdentifier,
    RunIdTaken,
)
from alloc_es.events import RunSpawned
from alloc_es.harness.errors import NotCarriedOut
from alloc_es.harness.outcomes import Done, Refused
from alloc_es.harness.roles import Decide, Request, Spawn
from alloc_es.incarnation import Incarnation
from alloc_es.proposals import command_of
from alloc_es.spawning import SpawnRequest


def settled_in_log(
    allocations: Allocations, incarnation: Incarnation, request: Request, request_id: str
) -> Done | Refused | None:
    """What became of a request of an incarnation; None where the log can't tell.

    What is not recorded may yet be, for as long as that incarnation is the newest: only
    then its absence settles nothing.
    """
    try:
        # Before the log is read: what comes behind this, a superseded one can't have written.
        superseded = allocations.newest_incarnation(incarnation.name) != incarnation
        missing = NotCarriedOut(*incarnation, request_id) if superseded else None
        match request:
            case Decide():
                return _decision(allocations, request, request_id, missing)
            case Spawn():
                return _runs(allocations, request, missing)
            case _:
                return Refused(missing) if missing else None
    except AllocationError:
        return None


def _decision(
    allocations: Allocations, request: Decide, request_id: str, missing: NotCarriedOut | None
) -> Done | Refused | None:
    found = allocations.workflow(*request.key).find_decision(request_id)
    if found is None:
        return Refused(missing) if missing else None
    command = command_of(request.proposal, lambda: "")
    if command is None or not is_outcome_of(found.event, command):
        return Refused(CommandIdReused(found.event))
    event = found.event
    return Done(Committed(event.generation, event.allocation, event, 0, replayed=True))


def _runs(
    allocations: Allocations, request: Spawn, missing: NotCarriedOut | None
) -> Done | Refused | None:
    outcomes: list[RunSpawned | AllocationError] = []
    for run in request.runs:
        outcome = _run(allocations, run) or missing
        if outcome is None:
            return None
        outcomes.append(outcome)
    return Done(outcomes)


def _run(allocations: Allocations, run: SpawnRequest) -> RunSpawned | AllocationError | None:
    try:
        return allocations.workflow(run.tenant_id, run.workflow_id).find_run(run.run_id)
    except (InvalidIdentifier, RunIdTaken) as refusal:
        return refusal
