"""Logs to break: made by the command API, then changed in one event."""

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar, cast

from alloc_es import DecisionEvent, Recorded, RunSpawned, Workflow, WorkflowKey, connect
from alloc_es.codec import decode, digest, encode, encode_as
from alloc_es.events import Event

E = TypeVar("E", bound=Event)

KEY = ("acme", "triage")

Decisions = list[Recorded[DecisionEvent]]
Act = Callable[[Workflow], object]


def decided(*acts: Act, most: int = 2) -> Decisions:
    """The decision log of a workflow that was started with v1 and acted upon.

    Another workflow was started before it, so its positions are its generations and 1.
    """
    with connect("memory:", max_challengers=most) as allocations:
        allocations.workflow("acme", "other").start("w1")
        workflow = allocations.workflow(*KEY)
        workflow.start("v1")
        for act in acts:
            act(workflow)
        return list(allocations.decisions())


def register(version: str, share_bps: int = 500) -> Act:
    return lambda workflow: workflow.register_challenger(version, share_bps)


def commit(**shares: int) -> Act:
    return lambda workflow: workflow.commit_allocation(shares)


def promote(version: str) -> Act:
    return lambda workflow: workflow.promote_challenger(version)


def reject(version: str, replacement: str | None = None) -> Act:
    if replacement is None:
        return lambda workflow: workflow.reject_challenger(version)
    return lambda workflow: workflow.reject_challenger(version, replacement=replacement)


def roll_back(to_generation: int | None = None) -> Act:
    return lambda workflow: workflow.roll_back(to_generation=to_generation)


def edited(log: Sequence[Recorded[E]], place: int, **fields: object) -> list[Recorded[E]]:
    """The log with other fields in one event; those of a decision may be its allocation's."""
    event: Any = log[place].event
    if hasattr(event, "allocation"):
        inner = {name: fields.pop(name) for name in [*fields] if hasattr(event.allocation, name)}
        fields["allocation"] = event.allocation.model_copy(update=inner)
    return put(log, place, event.model_copy(update=fields))


def rewritten(
    log: Sequence[Recorded[E]], place: int, change: Callable[[Any], object], name: str | None = None
) -> list[Recorded[E]]:
    """The log with one event's JSON changed by hand, and maybe its type, as far as it decodes."""
    event = log[place].event
    topic, stored = encode(event)
    fields = json.loads(stored)
    change(fields)
    made = decode(
        name or topic,
        json.dumps(fields).encode(),
        stream=event.originator_id,
        version=event.originator_version,
    )
    return put(log, place, cast(E, made))


def put(log: Sequence[Recorded[E]], place: int, event: E) -> list[Recorded[E]]:
    """The log with another event in a place, whose digest is that of its bytes."""
    changed = list(log)
    changed[place] = stored(changed[place].position, event)
    return changed


def stored(position: int, event: E) -> Recorded[E]:
    """An event as a reader finds it at a position."""
    return Recorded(position, event, digest(encode(event)[1]))


def of_before(each: Recorded[E]) -> Recorded[E]:
    """The same as a release before 0.5 wrote it: in schema version 1, which has no digests."""
    event = each.event
    topic, state = encode(event)[0], encode_as(event, 1)
    stream, version = event.originator_id, event.originator_version
    made = decode(topic, state, stream=stream, version=version)
    return Recorded(each.position, cast(E, made), digest(state))


def rechained(log: Iterable[Recorded[DecisionEvent]], first: int = 0) -> Decisions:
    """The log with the digests made anew from a place on, as a forger does who knows how."""
    digests: dict[tuple[WorkflowKey, int], str] = {}
    again: Decisions = []
    for place, each in enumerate(log):
        key, generation = each.event.key, each.generation
        owed = digests.get((key, generation - 1), key.digest)
        chained = stored(each.position, each.event.model_copy(update={"previous_digest": owed}))
        again.append(chained if place >= first else each)
        digests[key, generation] = again[-1].digest
    return again


def rechained_runs(
    decisions: Iterable[Recorded[DecisionEvent]], runs: Iterable[Recorded[RunSpawned]]
) -> list[Recorded[RunSpawned]]:
    """The runs with the digests of the decisions that made their generations, as they are now."""
    digests = {(each.event.key, each.generation): each.digest for each in decisions}
    return [
        stored(each.position, each.event.model_copy(update={"decision_digest": owed}))
        for each in runs
        for owed in [digests.get((each.event.key, each.generation))]
    ]
