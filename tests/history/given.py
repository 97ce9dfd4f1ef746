"""Histories as a log holds them, and runs that were routed by them."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import cast

from alloc_es.codec import decode, digest, encode
from alloc_es.commands import Command
from alloc_es.events import DecisionEvent, Recorded, RunSpawned
from alloc_es.identity import Actor, RunId, TenantId, Unit, WorkflowId
from alloc_es.routing import Router
from tests.core.given import run

History = list[Recorded[DecisionEvent]]


def history(*commands: Command, max_challengers: int = 2) -> History:
    """A history of commands, each of which acts; generation 1 lies at position 10, 2 at 20."""
    return recorded(run(*commands, max_challengers=max_challengers)[0])


def recorded(events: Sequence[DecisionEvent]) -> History:
    """Events as a log gives them back: the order in which shares were named is lost, for one."""
    return [_stored(10 * number, event) for number, event in enumerate(events, start=1)]


def _stored(position: int, event: DecisionEvent) -> Recorded[DecisionEvent]:
    name, state = encode(event)
    read = decode(name, state, stream=event.originator_id, version=event.originator_version)
    return Recorded(position, cast(DecisionEvent, read), digest(state))


def timed(decisions: History, times: Sequence[datetime]) -> History:
    """The same decisions by clocks that said these times."""
    return [
        replace(each, event=each.event.model_copy(update={"recorded_at": time}))
        for each, time in zip(decisions, times, strict=True)
    ]


def spawned(
    decision: Recorded[DecisionEvent], run_id: str, position: int = 1
) -> Recorded[RunSpawned]:
    """A run that is its own unit, as it is recorded at the generation of a decision."""
    event = decision.event
    run = RunSpawned(
        tenant_id=TenantId(event.key.tenant_id),
        workflow_id=WorkflowId(event.key.workflow_id),
        run_id=RunId(run_id),
        actor=Actor("router"),
        recorded_at=event.recorded_at,
        decision_position=decision.position,
        decision_digest=decision.digest,
        **Router(event.allocation).route(Unit(run_id))._asdict(),
    )
    return Recorded(position, run, digest(encode(run)[1]))


def changed(run: Recorded[RunSpawned], **fields: object) -> Recorded[RunSpawned]:
    """A run that says something else."""
    return replace(run, event=run.event.model_copy(update=fields))
