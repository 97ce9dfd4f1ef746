"""Decide and evolve: from a state and a command to an event, and from the event to a state."""

from typing import Any, TypeGuard, assert_never

from alloc_es.allocation import HASH_VERSION, Allocation, Arm
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
from alloc_es.errors import (
    AlreadyCurrent,
    ChallengerAlreadyLive,
    ChallengersStillLive,
    InvalidSplit,
    NoEarlierVersion,
    NoSuchChallenger,
    UnknownWorkflow,
    WorkflowAlreadyStarted,
)
from alloc_es.events import (
    AllocationCommitted,
    ChallengerRegistered,
    ChallengerRejectedWithoutReplacement,
    Decision,
    DecisionEvent,
)
from alloc_es.identity import Version, WorkflowKey
from alloc_es.split import ALL_BUCKETS, BUCKETS, Slots, join, resize


def evolve(_state: Allocation | None, event: DecisionEvent) -> Allocation:
    """The state after an event, which every event carries whole; never refuses."""
    return event.allocation


def decide(
    key: WorkflowKey, state: Allocation | None, command: Command, envelope: Envelope
) -> DecisionEvent | None:
    """The event that a command makes of a state, or None when its wish already holds.

    Raises a `Refusal` when the rules forbid it. Pure: the same arguments give the same
    answer.
    """
    if isinstance(command, Start):
        return _start(key, state, command, envelope)
    if state is None:
        raise UnknownWorkflow(key)
    match command:
        case RegisterChallenger():
            return _register(state, command, envelope)
        case CommitAllocation():
            return _commit(state, command, envelope)
        case PromoteChallenger():
            return _promote(state, command, envelope)
        case RejectChallenger(replacement=None):
            return _reject(state, command, envelope)
        case RejectChallenger():
            return _replace(state, command, envelope)
        case RollBack():
            return _roll_back(state, command, envelope)
        case _:
            assert_never(command)


def _start(
    key: WorkflowKey, state: Allocation | None, command: Start, envelope: Envelope
) -> AllocationCommitted:
    if state is not None:
        raise WorkflowAlreadyStarted(state)
    control = Arm(
        name="control",
        version=command.current,
        slots=ALL_BUCKETS,
        since_generation=1,
        since=envelope.at,
    )
    allocation = Allocation(
        tenant_id=key.tenant_id,
        workflow_id=key.workflow_id,
        generation=1,
        episode=0,
        salt=command.salt,
        hash_version=HASH_VERSION,
        arms=(control,),
        previous_current=None,
    )
    return AllocationCommitted(
        **_facts(envelope), allocation=allocation, decision="start", version=command.current
    )


def _register(
    state: Allocation, command: RegisterChallenger, envelope: Envelope
) -> ChallengerRegistered:
    _refuse_current(state, command.version)
    live = state.challenger_arms
    if incumbent := state.live(command.version):
        raise ChallengerAlreadyLive(state.key, command.version, (incumbent,))
    if len(live) >= envelope.max_challengers:
        raise ChallengerAlreadyLive(state.key, command.version, live)
    opens = {} if live else _episode(state, command.salt)
    arm = _challenger(state, command.version, (), envelope)
    arms = _resized(state, (*live, arm), {command.version: command.share_bps})
    return ChallengerRegistered(
        **_facts(envelope),
        allocation=_next(state, arms=arms, **opens),
        version=command.version,
    )


def _commit(
    state: Allocation, command: CommitAllocation, envelope: Envelope
) -> AllocationCommitted | None:
    shares = dict(command.shares)
    if state.current in shares:
        raise InvalidSplit(
            f"{state.current} is the current version of {state.key}",
            "name the challengers' shares; the current version gets the rest",
        )
    for version in shares:
        if not state.live(version):
            raise NoSuchChallenger(state, version)
    arms = _resized(state, state.challenger_arms, shares)
    if arms == state.arms:
        return None
    return AllocationCommitted(
        **_facts(envelope), allocation=_next(state, arms=arms), decision="split", shares=shares
    )


def _promote(
    state: Allocation, command: PromoteChallenger, envelope: Envelope
) -> AllocationCommitted:
    promoted = _live(state, command.version)
    others = tuple(arm for arm in state.challenger_arms if arm != promoted)
    arms = (_control(state, command.version, others, envelope), *others)
    return AllocationCommitted(
        **_facts(envelope),
        allocation=_next(state, arms=arms, previous_current=state.current),
        decision="promotion",
        version=command.version,
    )


def _reject(
    state: Allocation, command: RejectChallenger, envelope: Envelope
) -> ChallengerRejectedWithoutReplacement:
    rejected = _live(state, command.version)
    others = tuple(arm for arm in state.challenger_arms if arm != rejected)
    control = state.control.model_copy(update={"slots": _rest(others)})
    return ChallengerRejectedWithoutReplacement(
        **_facts(envelope),
        allocation=_next(state, arms=(control, *others)),
        version=command.version,
    )


def _replace(
    state: Allocation, command: RejectChallenger, envelope: Envelope
) -> AllocationCommitted:
    assert command.replacement is not None
    rejected = _live(state, command.version)
    _refuse_current(state, command.replacement)
    if incumbent := state.live(command.replacement):
        raise ChallengerAlreadyLive(state.key, command.replacement, (incumbent,))
    successor = _challenger(state, command.replacement, rejected.slots, envelope)
    arms = tuple(successor if arm == rejected else arm for arm in state.arms)
    return AllocationCommitted(
        **_facts(envelope),
        allocation=_next(state, arms=arms),
        decision="replacement",
        version=command.replacement,
        dropped=(command.version,),
    )


def _roll_back(state: Allocation, command: RollBack, envelope: Envelope) -> AllocationCommitted:
    target = command.target if command.to_generation is not None else state.previous_current
    if target is None:
        raise NoEarlierVersion(state.key, state.generation, command.to_generation)
    live = state.challenger_arms
    if target == state.current:
        raise AlreadyCurrent(state.key, state.control, live)
    for version in command.drop:
        _live(state, version)
    undropped = tuple(arm for arm in live if arm.version not in command.drop)
    if undropped:
        raise ChallengersStillLive(state.key, target, undropped)
    return AllocationCommitted(
        **_facts(envelope),
        allocation=_next(
            state,
            arms=(_control(state, target, (), envelope),),
            previous_current=state.current,
        ),
        decision="rollback",
        version=target,
        dropped=state.challengers,
        to_generation=command.to_generation,
    )


def is_outcome_of(event: DecisionEvent, command: Command) -> bool:
    """Whether a command could have made this event, told by what the event records of it."""
    match command:
        case Start():
            return _committed(event, "start", command.current)
        case RegisterChallenger():
            share = event.allocation.split.get(command.version)
            return isinstance(event, ChallengerRegistered) and (event.version, share) == (
                command.version,
                command.share_bps,
            )
        case CommitAllocation():
            return _committed(event, "split", None) and event.shares == dict(command.shares)
        case PromoteChallenger():
            return _committed(event, "promotion", command.version)
        case RejectChallenger(replacement=None):
            return (
                isinstance(event, ChallengerRejectedWithoutReplacement)
                and event.version == command.version
            )
        case RejectChallenger():
            return _committed(event, "replacement", command.replacement) and event.dropped == (
                command.version,
            )
        case RollBack():
            return (
                _committed(event, "rollback", event.version)
                and event.to_generation == command.to_generation
                and set(event.dropped) == set(command.drop)
            )
        case _:
            assert_never(command)


def _committed(
    event: DecisionEvent, decision: Decision, version: Version | None
) -> TypeGuard[AllocationCommitted]:
    return (
        isinstance(event, AllocationCommitted)
        and event.decision == decision
        and event.version == version
    )


def _facts(envelope: Envelope) -> dict[str, Any]:
    return {
        "command_id": envelope.command_id,
        "actor": envelope.actor,
        "reason": envelope.reason,
        "recorded_at": envelope.at,
        "max_challengers": envelope.max_challengers,
    }


def _next(state: Allocation, *, arms: tuple[Arm, ...], **changes: Any) -> Allocation:
    facts = {"generation": state.generation + 1, "arms": arms, **changes}
    return state.model_copy(update=facts)


def _episode(state: Allocation, salt: str) -> dict[str, Any]:
    return {"episode": state.episode + 1, "salt": salt, "hash_version": HASH_VERSION}


def _challenger(state: Allocation, version: Version, slots: Slots, envelope: Envelope) -> Arm:
    return Arm(
        name="challenger",
        version=version,
        slots=slots,
        since_generation=state.generation + 1,
        since=envelope.at,
    )


def _control(
    state: Allocation, version: Version, others: tuple[Arm, ...], envelope: Envelope
) -> Arm:
    return Arm(
        name="control",
        version=version,
        slots=_rest(others),
        since_generation=state.generation + 1,
        since=envelope.at,
    )


def _rest(challengers: tuple[Arm, ...]) -> Slots:
    """The buckets that no challenger owns, which are the control's."""
    slots: list[tuple[int, int]] = []
    first = 0
    for start, end in join(*(arm.slots for arm in challengers)):
        if first < start:
            slots.append((first, start))
        first = end
    if first < BUCKETS:
        slots.append((first, BUCKETS))
    return tuple(slots)


def _resized(
    state: Allocation, challengers: tuple[Arm, ...], shares: dict[Version, int]
) -> tuple[Arm, ...]:
    """The arms after the challengers in `shares` were given these shares."""
    asked = sum(shares.get(arm.version, arm.share_bps) for arm in challengers)
    if asked >= BUCKETS:
        raise InvalidSplit(
            f"challengers of {state.key} would get {asked} of {BUCKETS} basis points",
            f"leave the current version {state.current} at least 1",
        )
    control, owned = resize(
        state.control.slots, {arm.version: arm.slots for arm in challengers}, shares
    )
    return (
        state.control.model_copy(update={"slots": control}),
        *(arm.model_copy(update={"slots": owned[arm.version]}) for arm in challengers),
    )


def _live(state: Allocation, version: Version) -> Arm:
    arm = state.live(version)
    if arm is None:
        raise NoSuchChallenger(state, version)
    return arm


def _refuse_current(state: Allocation, version: Version) -> None:
    if version == state.current:
        raise AlreadyCurrent(state.key, state.control, state.challenger_arms)
