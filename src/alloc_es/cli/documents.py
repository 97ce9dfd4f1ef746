"""Results and errors as JSON documents, in the names of the Python API."""

from collections.abc import Mapping
from dataclasses import asdict, fields
from datetime import datetime
from typing import Any

from alloc_es.allocation import Allocation, Arm, Frozen
from alloc_es.committing import Committed
from alloc_es.errors import AllocationError
from alloc_es.events import DecisionEvent, RunSpawned
from alloc_es.identity import WorkflowKey
from alloc_es.pass_results import Failure, PassReport, PassResult
from alloc_es.projection import Projection
from alloc_es.proposals import Proposal
from alloc_es.routing import Routing
from alloc_es.split import Share
from alloc_es.standing import ProjectionStatus
from alloc_es.store import Recorded
from alloc_es.triggers import Trigger

_RUNS = RunSpawned.__pydantic_serializer__


def split_words(allocation: Allocation) -> str:
    """The split in a few words, control first."""
    return ", ".join(f"{version} {Share(bps)}" for version, bps in allocation.split.items())


def committed_document(committed: Committed) -> dict[str, Any]:
    """A command's outcome."""
    event = committed.event
    return {
        "generation": committed.generation,
        "allocation": allocation_document(committed.allocation),
        "event": event_fields(event) if event else None,
        "attempts": committed.attempts,
        "replayed": committed.replayed,
    }


def allocation_document(allocation: Allocation) -> dict[str, Any]:
    """An allocation with all that can be asked of it."""
    return {
        "tenant_id": allocation.tenant_id,
        "workflow_id": allocation.workflow_id,
        "current": allocation.current,
        "challenger": allocation.challenger,
        "challengers": list(allocation.challengers),
        "split": allocation.split,
        **allocation.model_dump(mode="json"),
        "arms": [_arm_document(arm) for arm in allocation.arms],
    }


def event_fields(event: DecisionEvent) -> dict[str, Any]:
    """A decision with its type, without the allocation that it left behind."""
    return {"type": type(event).__name__, **event.model_dump(mode="json", exclude={"allocation"})}


def event_document(entry: Recorded[DecisionEvent]) -> dict[str, Any]:
    """A decision with its place in the log and the allocation that it left behind."""
    fields = event_fields(entry.event)
    return {
        "generation": entry.generation,
        "position": entry.position,
        "time": fields["recorded_at"],
        "what": entry.event.summary,
        **fields,
        "allocation": allocation_document(entry.event.allocation),
    }


def routing_document(routing: Routing) -> dict[str, Any]:
    """Where a unit would go."""
    return routing._asdict()


def run_document(run: RunSpawned) -> dict[str, Any]:
    """A run, and whether an earlier call had recorded it."""
    return {**run.model_dump(mode="json"), "replayed": run.replayed}


def run_json(run: RunSpawned, line: int) -> str:
    """The same as JSON, in a third of the time, with the line that asked for the run."""
    fields = _RUNS.to_json(run).decode()
    replayed = "true" if run.replayed else "false"
    return f'{fields[:-1]},"replayed":{replayed},"line":{line}}}'


class Ended(Exception):
    """A command ended by no error of the library; its fields are the facts."""

    def __init__(self, message: str, *, exit_code: int) -> None:
        self.exit_code = exit_code
        super().__init__(message)


class Stopped(Ended):
    """A command that reads many rows ended before the last of them.

    All rows up to line `settled` are settled; 0 for none.
    """

    def __init__(self, message: str, *, settled: int, exit_code: int) -> None:
        self.settled = settled
        super().__init__(message, exit_code=exit_code)


def projection_document(projection: Projection, source: str | None) -> dict[str, Any]:
    """An installed projection, and the distribution that it comes from."""
    return {
        "name": projection.name,
        "version": projection.version,
        "meaning": projection.meaning,
        "logs": list(projection.logs),
        "tables": [table.name for table in projection.tables],
        "views": list(projection.views),
        "from": source,
    }


def status_document(status: ProjectionStatus) -> dict[str, Any]:
    """How a read model stands."""
    failure, at = status.failure, status.updated_at
    return {
        "name": status.name,
        "standing": status.standing,
        "version": status.version,
        "built": status.built,
        "positions": dict(status.positions or status.rebuilding),
        "ends": dict(status.ends),
        "behind": status.behind,
        "writer": status.writer,
        "updated_at": at.isoformat() if at else None,
        "failure": vars(failure) if failure else None,
        "rebuilding": dict(status.rebuilding),
        "left_out": list(status.left_out),
        "problem": status.problem,
    }


def trigger_document(trigger: Trigger) -> dict[str, Any]:
    """A trigger as a consumer is handed it."""
    document = asdict(trigger)
    key = document.pop("key")
    time = trigger.time.isoformat()
    return {**key._asdict(), **document, "remaining": list(trigger.remaining), "time": time}


def pass_document(result: PassResult) -> dict[str, Any]:
    """What became of one workflow in a decide pass."""
    failure, event = result.failure, result.event
    return {
        **result.key._asdict(),
        "outcome": result.outcome,
        "proposal": proposal_document(result.proposal) if result.proposal else None,
        "seen": result.seen,
        "event": event_fields(event) if event else None,
        "allocation": allocation_document(event.allocation) if event else None,
        "generation": result.generation,
        "asked": result.asked,
        "lost_to": [event_fields(each) for each in result.lost_to],
        "failure": _failure_document(failure) if failure else None,
    }


def proposal_document(proposal: Proposal) -> dict[str, Any]:
    """What a policy proposes, with its type."""
    facts = {each.name: getattr(proposal, each.name) for each in fields(proposal)}
    return {"type": type(proposal).__name__} | {n: _fact(value) for n, value in facts.items()}


def _failure_document(failure: Failure) -> dict[str, Any]:
    return {"error_type": failure.error_type, "message": failure.message}


def error_document(error: BaseException, message: str, code: int) -> dict[str, Any]:
    """An error with its exit code and, where it is one of ours, its facts."""
    facts = vars(error) if isinstance(error, AllocationError | Ended) else {}
    return {
        "error": {
            "type": type(error).__name__,
            "message": message,
            "exit_code": code,
            **{name: _fact(value) for name, value in facts.items() if not name.startswith("_")},
        }
    }


def _arm_document(arm: Arm) -> dict[str, Any]:
    return {**arm.model_dump(mode="json"), "share_bps": arm.share_bps}


def _fact(value: Any) -> Any:
    match value:
        case None | bool() | int() | str():
            return value
        case datetime():
            return value.isoformat()
        case WorkflowKey():
            return value._asdict()
        case tuple() | list():
            return [_fact(item) for item in value]
        case Allocation():
            return allocation_document(value)
        case Arm():
            return _arm_document(value)
        case PassReport():
            return value.counts
        case Mapping():
            return {str(name): _fact(item) for name, item in value.items()}
        case AllocationError():
            return {"type": type(value).__name__, "message": str(value)}
        case _ if isinstance(value, DecisionEvent):
            return event_fields(value)
        case Frozen():
            return value.model_dump(mode="json")
        case _:
            return str(value)
