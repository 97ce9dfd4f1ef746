"""Given a history, when a command comes, then these events: builders for the tests of the core."""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any, TypeVar

import pytest

from alloc_es.allocation import Allocation, Arm
from alloc_es.commands import (
    Command,
    CommitAllocation,
    Envelope,
    PromoteChallenger,
    RegisterChallenger,
    RejectChallenger,
    RollBack,
    Start,
)
from alloc_es.decider import decide, evolve
from alloc_es.errors import AllocationError
from alloc_es.events import (
    AllocationCommitted,
    ChallengerRegistered,
    ChallengerRejectedWithoutReplacement,
    Decision,
    DecisionEvent,
)
from alloc_es.identity import Actor, CommandId, TenantId, Version, WorkflowId, WorkflowKey
from alloc_es.split import ALL_BUCKETS, Slot

KEY = WorkflowKey(TenantId("acme"), WorkflowId("triage"))
START = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)

Refused = TypeVar("Refused", bound=AllocationError)


def at(generation: int) -> datetime:
    """When the command that made a generation was sent: a minute after the one before."""
    return START + timedelta(minutes=generation)


def envelope(generation: int, max_challengers: int = 1) -> Envelope:
    """The envelope of the command that makes, or would make, a generation."""
    return Envelope(
        command_id=CommandId(f"command-{generation}"),
        actor=Actor("ada"),
        reason=f"reason {generation}",
        at=at(generation),
        max_challengers=max_challengers,
    )


def when(
    state: Allocation | None, command: Command, max_challengers: int = 1
) -> tuple[DecisionEvent, ...]:
    """The events that a command makes of a state: one or none."""
    generation = state.generation if state else 0
    event = decide(KEY, state, command, envelope(generation + 1, max_challengers))
    return () if event is None else (event,)


def run(
    *commands: Command, max_challengers: int = 1
) -> tuple[tuple[DecisionEvent, ...], Allocation]:
    """The events of a history of commands, each of which acts, and the state they leave."""
    events: list[DecisionEvent] = []
    state: Allocation | None = None
    for command in commands:
        (event,) = when(state, command, max_challengers)
        events.append(event)
        state = evolve(state, event)
    assert state is not None
    return tuple(events), state


def given(*commands: Command, max_challengers: int = 1) -> Allocation:
    """The state that a history of commands leaves."""
    return run(*commands, max_challengers=max_challengers)[1]


def refused(
    kind: type[Refused],
    state: Allocation | None,
    command: Command,
    max_challengers: int = 1,
) -> Refused:
    """The refusal, of exactly this kind, that a command meets in a state."""
    with pytest.raises(kind) as raised:
        when(state, command, max_challengers)
    assert type(raised.value) is kind
    return raised.value


def start(current: str = "v1", salt: str = "salt-0") -> Start:
    return Start(current=Version(current), salt=salt)


def register(version: str, share_bps: int = 500, salt: str = "salt-1") -> RegisterChallenger:
    return RegisterChallenger(version=Version(version), share_bps=share_bps, salt=salt)


def commit(shares: Mapping[str, int] | Mapping[Version, int]) -> CommitAllocation:
    return CommitAllocation(shares=tuple((Version(v), share) for v, share in shares.items()))


def promote(version: str) -> PromoteChallenger:
    return PromoteChallenger(version=Version(version))


def reject(version: str, replacement: str | None = None) -> RejectChallenger:
    successor = None if replacement is None else Version(replacement)
    return RejectChallenger(version=Version(version), replacement=successor)


def roll_back(
    to_generation: int | None = None, target: str | None = None, drop: tuple[str, ...] = ()
) -> RollBack:
    return RollBack(
        to_generation=to_generation,
        target=None if target is None else Version(target),
        drop=tuple(Version(version) for version in drop),
    )


def control(version: str, *slots: Slot, since: int = 1) -> Arm:
    """The control's arm, which owns all buckets if no slots are given."""
    return Arm(
        name="control",
        version=Version(version),
        slots=slots or ALL_BUCKETS,
        since_generation=since,
        since=at(since),
    )


def challenger(version: str, *slots: Slot, since: int) -> Arm:
    return Arm(
        name="challenger",
        version=Version(version),
        slots=slots,
        since_generation=since,
        since=at(since),
    )


def allocation(
    generation: int,
    *arms: Arm,
    episode: int = 1,
    salt: str = "salt-1",
    previous: str | None = None,
) -> Allocation:
    return Allocation(
        tenant_id=KEY.tenant_id,
        workflow_id=KEY.workflow_id,
        generation=generation,
        episode=episode,
        salt=salt,
        hash_version=1,
        arms=arms,
        previous_current=None if previous is None else Version(previous),
    )


def committed(
    decision: Decision,
    result: Allocation,
    version: str | None = None,
    *,
    dropped: tuple[str, ...] = (),
    shares: Mapping[str, int] | None = None,
    to_generation: int | None = None,
    max_challengers: int = 1,
) -> AllocationCommitted:
    return AllocationCommitted(
        **_facts(result, max_challengers),
        decision=decision,
        version=None if version is None else Version(version),
        dropped=tuple(Version(name) for name in dropped),
        shares=None if shares is None else {Version(v): bps for v, bps in shares.items()},
        to_generation=to_generation,
    )


def registered(
    result: Allocation, version: str, *, max_challengers: int = 1
) -> ChallengerRegistered:
    return ChallengerRegistered(**_facts(result, max_challengers), version=Version(version))


def rejected(
    result: Allocation, version: str, *, max_challengers: int = 1
) -> ChallengerRejectedWithoutReplacement:
    facts = _facts(result, max_challengers)
    return ChallengerRejectedWithoutReplacement(**facts, version=Version(version))


def moved(before: Allocation, after: Allocation) -> dict[tuple[Version, Version], int]:
    """How many buckets went from one version to another, for each pair that moved any."""
    edges = sorted({edge for state in (before, after) for edge in _edges(state)})
    moves: dict[tuple[Version, Version], int] = {}
    for first, end in pairwise(edges):
        pair = (owner(before, first), owner(after, first))
        if pair[0] != pair[1]:
            moves[pair] = moves.get(pair, 0) + end - first
    return moves


def owner(state: Allocation, bucket: int) -> Version:
    """The version of the one arm that owns a bucket."""
    (version,) = (
        arm.version for arm in state.arms if any(first <= bucket < end for first, end in arm.slots)
    )
    return version


def _edges(state: Allocation) -> Iterator[int]:
    for arm in state.arms:
        for slot in arm.slots:
            yield from slot


def _facts(result: Allocation, max_challengers: int) -> dict[str, Any]:
    return {
        "command_id": f"command-{result.generation}",
        "actor": "ada",
        "reason": f"reason {result.generation}",
        "recorded_at": at(result.generation),
        "max_challengers": max_challengers,
        "allocation": result,
    }
