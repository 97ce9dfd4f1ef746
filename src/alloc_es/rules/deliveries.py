"""The rule of the triggers: who was given which rejection, against the decision log."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from alloc_es.events import ChallengerRejectedWithoutReplacement, DecisionEvent, Recorded
from alloc_es.rules.finding import Finding, found

_RULE = "deliveries"


class Delivered(NamedTuple):
    """A trigger that a consumer was given, as it is accounted for; `worker` is the last holder."""

    position: int
    tenant_id: str
    workflow_id: str
    generation: int
    attempts: int
    worker: str | None
    acknowledged: bool


class Account(NamedTuple):
    """What a consumer was given of the triggers behind a position and up to another."""

    consumer: str
    begins_after: int
    scanned_to: int
    deliveries: Sequence[Delivered]


def delivery_findings(
    decisions: Iterable[Recorded[DecisionEvent]], accounts: Iterable[Account], end: int
) -> Iterator[Finding]:
    """Every delivery that was left out, made twice or made up; `end` is that of the decisions.

    Of the decisions only rejections without replacement are looked at. Accounts are read
    before the decisions, or a trigger may be newer than they are; those of one tenant are
    held against that tenant's decisions.
    """
    triggers = {
        each.position: each
        for each in decisions
        if isinstance(each.event, ChallengerRejectedWithoutReplacement)
    }
    for account in accounts:
        yield from _of_account(account, triggers, end)


def _of_account(
    account: Account, triggers: Mapping[int, Recorded[DecisionEvent]], end: int
) -> Iterator[Finding]:
    consumer, begins_after, scanned_to, deliveries = account
    if max(begins_after, scanned_to) > end:
        seen = max(begins_after, scanned_to)
        yield _found(f"consumer {consumer} has seen position {seen}, and the log ends at {end}")
    owed = {
        position: trigger
        for position, trigger in triggers.items()
        if begins_after < position <= scanned_to
    }
    given: defaultdict[int, list[Delivered]] = defaultdict(list)
    for delivery in deliveries:
        given[delivery.position].append(delivery)
    for position in sorted(owed.keys() - given.keys()):
        yield found(_RULE, owed[position], f"consumer {consumer} was not given it")
    for position, times in sorted(given.items()):
        problem = _problem(times, owed.get(position))
        if problem is None:
            continue
        said = f"consumer {consumer} {problem}"
        trigger = triggers.get(position)
        yield _found(said, times[0]) if trigger is None else found(_RULE, trigger, said)


def _problem(times: Sequence[Delivered], trigger: Recorded[DecisionEvent] | None) -> str | None:
    """What is wrong with what a consumer was given at a position."""
    if trigger is None:
        return "was given what is no trigger of its own"
    if len(times) > 1:
        return f"was given it {len(times)} times"
    (delivery,) = times
    said = delivery.tenant_id, delivery.workflow_id, delivery.generation
    if said != (*trigger.event.key, trigger.generation):
        return f"was given it as generation {said[2]} of {said[0]}/{said[1]}"
    if delivery.attempts > 0 and (delivery.worker is not None or not delivery.acknowledged):
        return None
    if delivery.acknowledged:
        return "has acknowledged it, and it was handed to nobody"
    return None if delivery.worker is None else "holds it, and it was handed to nobody"


def _found(problem: str, delivery: Delivered | None = None) -> Finding:
    """A finding that no trigger of the log stands behind."""
    return Finding(
        rule=_RULE,
        log=None if delivery is None else "decisions",
        position=delivery and delivery.position,
        generation=delivery and delivery.generation,
        tenant_id=delivery and delivery.tenant_id,
        workflow_id=delivery and delivery.workflow_id,
        command_id=None,
        run_id=None,
        problem=problem,
    )
