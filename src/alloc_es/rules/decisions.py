"""The rules of the decision log, each a function that says what is wrong with a decision."""

from collections.abc import Iterable, Iterator

from alloc_es.allocation import NOT_ALL_BUCKETS, Allocation
from alloc_es.errors import Refusal
from alloc_es.events import (
    AllocationCommitted,
    ChallengerRejectedWithoutReplacement,
    DecisionEvent,
    Recorded,
)
from alloc_es.identity import Version, WorkflowKey
from alloc_es.rules.chain import decision_chain
from alloc_es.rules.finding import Finding, found
from alloc_es.rules.redeciding import decided_again, without
from alloc_es.rules.timeline import Timeline
from alloc_es.split import ALL_BUCKETS, BUCKETS, Slots, join, size


def decision_findings(
    decisions: Iterable[Recorded[DecisionEvent]], timeline: Timeline
) -> Iterator[Finding]:
    """Every decision that breaks a rule, as it is met; fills an empty timeline on the way."""
    rules = DecisionRules(timeline)
    for each in decisions:
        yield from rules.findings(each)


class DecisionRules:
    """All rules of the decision log, told one decision after the other; fills a timeline.

    Each is decided again from the one before it as that stands in the log: so one that was
    changed is found, maybe the one behind it too, and none further on. A decision that breaks
    a narrower rule is not also reported as one that its command would not have made.
    """

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline
        self._order = Order()
        self._behind_unread: set[WorkflowKey] = set()

    def pass_over(self, key: WorkflowKey, generation: int, position: int) -> None:
        """A decision can't be read: the one behind it can't be held against it."""
        self._order.pass_over(key, generation)
        self._timeline.pass_over(key, generation, position)
        self._behind_unread.add(key)

    def findings(self, each: Recorded[DecisionEvent]) -> list[Finding]:
        """What is wrong with the next decision; the timeline has it afterwards."""
        event, timeline = each.event, self._timeline
        before = timeline.last(event.key)
        problems = {"order": self._order(each), "allocations": allocations(event)}
        if event.key in self._behind_unread:
            self._behind_unread.remove(event.key)
        else:
            problems["challengers"] = challengers(before, event)
            problems["rejections"] = rejections(before, event)
            problems["slots"] = slots(before, event)
            if not any(problems.values()):
                problems["transitions"] = transitions(before, event, timeline)
            problems["chain"] = decision_chain(each, timeline)
        timeline.add(each)
        return [found(rule, each, problem) for rule, problem in problems.items() if problem]


class Order:
    """Positions rise, generations are contiguous from 1, command ids unique in a workflow."""

    def __init__(self) -> None:
        self._position = 0
        self._generations: dict[WorkflowKey, int] = {}
        self._commands: dict[tuple[WorkflowKey, str], int] = {}

    def pass_over(self, key: WorkflowKey, generation: int) -> None:
        """A generation is taken by a decision that can't be read."""
        self._generations[key] = generation

    def __call__(self, each: Recorded[DecisionEvent]) -> str | None:
        """What is wrong with the next decision, or None."""
        key, generation = each.event.key, each.generation
        last, self._position = self._position, each.position
        before = self._generations.get(key, 0)
        self._generations[key] = generation
        first = self._commands.setdefault((key, each.event.command_id), generation)
        if each.position <= last:
            return f"it lies behind position {last}"
        if generation != before + 1:
            return f"it follows generation {before}"
        return None if first == generation else f"its command id made generation {first}"


def allocations(event: DecisionEvent) -> str | None:
    """The control comes first and has a share; together the slots are all buckets, each once."""
    arms = event.allocation.arms
    if [arm.name for arm in arms] != ["control", *["challenger"] * (len(arms) - 1)]:
        return f"its arms are {', '.join(arm.name for arm in arms) or 'none'}"
    total = sum(arm.share_bps for arm in arms)
    if total != BUCKETS:
        return f"its shares sum to {total}"
    if join(*(arm.slots for arm in arms)) != ALL_BUCKETS:
        return NOT_ALL_BUCKETS
    return None if arms[0].share_bps > 0 else f"its control {arms[0].version} has no share"


def challengers(before: Allocation | None, event: DecisionEvent) -> str | None:
    """A limit that was lowered takes no challenger out, but lets none in."""
    had = len(before.challengers) if before else 0
    live = event.allocation.challengers
    if len(live) <= max(had, event.max_challengers):
        return None
    return f"{len(live)} are live ({', '.join(live)}), and {event.max_challengers} were allowed"


def rejections(before: Allocation | None, event: DecisionEvent) -> str | None:
    """Who left with nothing in its place, and whether the event says so."""
    had = before.split if before else {}
    has = event.allocation.split
    live = before.challengers if before else ()
    left = [version for version in live if version not in has]
    if isinstance(event, ChallengerRejectedWithoutReplacement):
        if event.version not in live:
            return f"it rejects {event.version}, which was not live"
        return None if left == [event.version] else f"it rejects {event.version}; {_gone(left)}"
    if isinstance(event, AllocationCommitted) and event.decision == "rollback":
        return None
    came = [version for version in has if version not in had]
    if len(left) <= len(came):
        return None
    return f"{_gone(left)} with nothing in its place, and it is no rejection"


def slots(before: Allocation | None, event: DecisionEvent) -> str | None:
    """Challengers lose what their shares fell by, and to the control; their units stay put.

    Only the control may give and take at once: so that nobody goes from one challenger to
    another while the control has a bucket to give.
    """
    if before is None:
        return None
    after = event.allocation
    if before.challengers and _hashing(before) != _hashing(after):
        return "its episode, salt or hash version is a new one, and a challenger was live"
    old, new = _owned(before), _owned(after)
    for version in old:
        if version == before.current == after.current:
            continue
        had, has = size(old[version]), size(new.get(version, ()))
        lost = size(without(old[version], new.get(version, ())))
        if lost > max(0, had - has):
            return f"{version} went from {had} to {has} basis points and lost {lost} buckets"
    if _meet(before.control.slots, after.control.slots):
        return _passed_on(before, after)
    return None


def _passed_on(before: Allocation, after: Allocation) -> str | None:
    """Who took a bucket from another challenger that stayed."""
    for giver in before.challenger_arms:
        for taker in after.challenger_arms:
            stayed = giver.version in after.challengers and taker.version in before.challengers
            if stayed and giver.version != taker.version and _meet(giver.slots, taker.slots):
                return f"{taker.version} took buckets of {giver.version}, and the control had some"
    return None


def transitions(before: Allocation | None, event: DecisionEvent, timeline: Timeline) -> str | None:
    """The command is made out from the event and decided again; the timeline ends before it."""
    back_to = event.to_generation if isinstance(event, AllocationCommitted) else None
    if timeline.is_unread(event.key, back_to):
        return None  # What was current there is not known.
    try:
        again = decided_again(before, event, timeline)
    except Refusal as refusal:
        return f"its command is refused: {refusal}"
    if again is None:
        return "its command does nothing: what it asks for held already"
    # What it is chained to is no part of what was decided: `chain` looks at it.
    again = again.model_copy(update={"previous_digest": event.previous_digest})
    if again == event:
        return None
    return f"its command makes another event of it: {', '.join(_differing(again, event))} differ"


def _gone(left: list[Version]) -> str:
    return f"{', '.join(left) or 'nobody'} left"


def _meet(slots: Slots, others: Slots) -> bool:
    return without(slots, others) != slots


def _hashing(allocation: Allocation) -> tuple[int, str, int]:
    return allocation.episode, allocation.salt, allocation.hash_version


def _owned(allocation: Allocation) -> dict[Version, Slots]:
    return {arm.version: arm.slots for arm in allocation.arms}


def _differing(again: DecisionEvent, event: DecisionEvent) -> list[str]:
    """The names of the fields in which two events differ, those of the allocation one by one."""
    made, stands = again.model_dump(), event.model_dump()
    made |= {f"allocation.{name}": value for name, value in made.pop("allocation").items()}
    stands |= {f"allocation.{name}": value for name, value in stands.pop("allocation").items()}
    names = [name for name in made | stands if made.get(name) != stands.get(name)]
    return names or [f"{type(again).__name__} and {type(event).__name__}"]
