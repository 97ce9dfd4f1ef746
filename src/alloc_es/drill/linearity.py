"""What the participants of a drill were told, as a history of compare-and-set registers."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

from alloc_es.drill.account import Told
from alloc_es.drill.history import Op, violations
from alloc_es.events import DecisionEvent, Recorded
from alloc_es.identity import WorkflowKey


def disorder(told: Iterable[Told], decisions: Iterable[Recorded[DecisionEvent]]) -> Iterator[str]:
    """Why no order of all commands and reads fits what was told; nothing if one does."""
    log: defaultdict[WorkflowKey, list[str]] = defaultdict(list)
    for each in decisions:
        log[each.event.key].append(each.event.command_id)
    ops = (op for op in map(_op, told) if op)
    return (str(violation) for violation in violations(ops, log))


def _op(told: Told) -> Op | None:
    """What was told, as an operation; None for a refusal, which did nothing."""
    same: dict[str, Any] = {
        "process": told.scheduler,
        "key": told.key,
        "began": told.began,
        "ended": told.ended,
    }
    command: dict[str, Any] = {"command_id": told.command_id, "expected": told.expected}
    if told.found is not None:
        return Op(kind="read", found=told.found, **same)
    if told.committed and told.committed.event:
        return Op(kind="cas", made=told.committed.generation, **same, **command)
    if told.committed:
        # Its wish held already: it wrote nothing, and saw what held.
        return Op(kind="read", found=told.committed.generation, **same)
    if told.conflict:
        winner = told.conflict.winner.command_id if told.conflict.winner else None
        found = told.conflict.actual
        return Op(kind="cas", outcome="lost", found=found, winner=winner, **same, **command)
    return None if told.refused else Op(kind="cas", outcome="unknown", **same, **command)
