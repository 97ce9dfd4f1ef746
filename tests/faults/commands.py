"""Every command, each with the history it can follow."""

from collections.abc import Callable, Mapping
from typing import Any

from alloc_es import Allocations, Committed, Workflow

KEY = ("acme", "triage")

Act = Callable[..., Committed]


def start(workflow: Workflow, **options: Any) -> Committed:
    return workflow.start("v1", **options)


def register(workflow: Workflow, **options: Any) -> Committed:
    return workflow.register_challenger("v2", **options)


def commit(workflow: Workflow, **options: Any) -> Committed:
    return workflow.commit_allocation({"v2": 1_000}, **options)


def promote(workflow: Workflow, **options: Any) -> Committed:
    return workflow.promote_challenger("v2", **options)


def replace(workflow: Workflow, **options: Any) -> Committed:
    return workflow.reject_challenger("v2", replacement="v3", **options)


def reject(workflow: Workflow, **options: Any) -> Committed:
    return workflow.reject_challenger("v2", **options)


def roll_back(workflow: Workflow, **options: Any) -> Committed:
    return workflow.roll_back(**options)


BEFORE: Mapping[Act, tuple[Act, ...]] = {
    start: (),
    register: (start,),
    commit: (start, register),
    promote: (start, register),
    replace: (start, register),
    reject: (start, register),
    roll_back: (start, register, promote),
}


def given(allocations: Allocations, act: Act) -> Workflow:
    """The workflow, brought to where `act` is legal."""
    workflow = allocations.workflow(*KEY)
    for earlier in BEFORE[act]:
        earlier(workflow)
    return workflow


def history(allocations: Allocations) -> list[Any]:
    """The events of the workflow, oldest first; empty when it was never started."""
    return [recorded.event for recorded in allocations.decisions()]
