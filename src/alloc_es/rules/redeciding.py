"""From a decision back to the command that made it, and what that command makes again."""

from typing import assert_never

from alloc_es.allocation import Allocation
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
from alloc_es.decider import decide
from alloc_es.events import (
    AllocationCommitted,
    ChallengerRegistered,
    ChallengerRejectedWithoutReplacement,
    DecisionEvent,
)
from alloc_es.identity import Actor, CommandId, Version
from alloc_es.rules.timeline import Timeline
from alloc_es.split import Slots

# Where an event lacks what its command must have had. No event that is made of it equals one.
_NO_VERSION = Version("")


def decided_again(
    before: Allocation | None, event: DecisionEvent, timeline: Timeline
) -> DecisionEvent | None:
    """What the command of an event makes of the allocation before it.

    None when its wish held already. Raises the `Refusal` that the command would meet.
    """
    command = command_of(before, event, timeline)
    return decide(event.key, before, command, envelope_of(event))


def envelope_of(event: DecisionEvent) -> Envelope:
    """What the command of an event was sent with."""
    return Envelope(
        command_id=CommandId(event.command_id),
        actor=Actor(event.actor),
        reason=event.reason,
        at=event.recorded_at,
        max_challengers=event.max_challengers,
    )


def command_of(before: Allocation | None, event: DecisionEvent, timeline: Timeline) -> Command:
    """The command that an event is the outcome of."""
    match event:
        case ChallengerRegistered():
            return RegisterChallenger(
                version=event.version,
                share_bps=event.allocation.split.get(event.version, 0),
                salt=event.allocation.salt,
            )
        case ChallengerRejectedWithoutReplacement():
            return RejectChallenger(version=event.version, replacement=None)
        case AllocationCommitted():
            return _committing(before, event, timeline)
        case _:
            assert_never(event)


def _committing(
    before: Allocation | None, event: AllocationCommitted, timeline: Timeline
) -> Command:
    version = event.version or _NO_VERSION
    match event.decision:
        case "start":
            return Start(current=version, salt=event.allocation.salt)
        case "split":
            return CommitAllocation(shares=_in_order(before, event))
        case "promotion":
            return PromoteChallenger(version=version)
        case "replacement":
            rejected = event.dropped[0] if event.dropped else _NO_VERSION
            return RejectChallenger(version=rejected, replacement=version)
        case "rollback":
            return RollBack(
                to_generation=event.to_generation,
                target=_target(event, timeline),
                drop=event.dropped,
            )
        case _:
            assert_never(event.decision)


def _target(event: AllocationCommitted, timeline: Timeline) -> Version | None:
    """What was current at the generation that a rollback asked for, if that was before it."""
    if event.to_generation is None:
        return None
    allocation = timeline.generation(event.key, event.to_generation)
    return allocation.current if allocation else None


def _in_order(
    before: Allocation | None, event: AllocationCommitted
) -> tuple[tuple[Version, int], ...]:
    """The shares of a new split in the order in which the command named them.

    They are stored sorted by their names. The order shows in the buckets: who was named
    first took the control's lowest ones, and what others gave back was taken after those.
    """
    shares = event.shares or {}
    if before is None:
        return tuple(shares.items())

    def turn(version: Version) -> tuple[int, int]:
        old, new = before.live(version), event.allocation.live(version)
        gained = without(new.slots, old.slots) if old and new else ()
        of_control = without(gained, without(gained, before.control.slots))
        if of_control:
            return 0, of_control[0][0]
        return (1, gained[0][0]) if gained else (2, 0)

    return tuple((version, shares[version]) for version in sorted(shares, key=turn))


def without(slots: Slots, others: Slots) -> Slots:
    """The slots less the buckets that others hold; both ascending, and so is the rest."""
    rest: list[tuple[int, int]] = []
    for first, end in slots:
        for other_first, other_end in others:
            if other_end <= first or other_first >= end:
                continue
            if first < other_first:
                rest.append((first, other_first))
            first = other_end
        if first < end:
            rest.append((first, end))
    return tuple(rest)
