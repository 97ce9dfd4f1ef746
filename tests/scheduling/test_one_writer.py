"""While a pass runs, its commit step is the only one that writes decisions through its process."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from itertools import count
from typing import Any

import pytest

from alloc_es import Allocation, Allocations, DecisionInsidePolicy, connect
from alloc_es.commands import PromoteChallenger
from alloc_es.identity import Version
from alloc_es.scheduling import Hold, PassReport, Proposal, Register, decide_pass
from alloc_es.store.log import EventLog
from alloc_es.waves import Pass
from tests.core.given import START
from tests.scheduling.passes import (
    Conductor,
    challenge,
    log,
    outcomes,
    plain,
    repeatable,
    started,
    told,
)

NAMES = [str(number) for number in range(10)]

_COMMITTING: ContextVar[bool] = ContextVar("committing", default=False)


@contextmanager
def tripwire(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Every append to a log that is not made by a pass's commit step, by its stream."""
    rung: list[str] = []
    commit, append = Pass._commit, EventLog.append

    async def committing(self: Any, *arguments: Any) -> Any:
        token = _COMMITTING.set(True)
        try:
            return await commit(self, *arguments)
        finally:
            _COMMITTING.reset(token)

    def watched(self: Any, event: Any) -> Any:
        if not _COMMITTING.get():
            rung.append(event.originator_id)
        return append(self, event)

    with monkeypatch.context() as patched:
        patched.setattr(Pass, "_commit", committing)
        patched.setattr(EventLog, "append", watched)
        yield rung


@pytest.mark.parametrize("dry_run", [False, True])
def test_nothing_but_the_commit_step_appends_during_a_pass(
    store_url: str, monkeypatch: pytest.MonkeyPatch, dry_run: bool
) -> None:
    """Red when a decision is appended while policies are asked, or by a dry run."""
    with repeatable(store_url) as allocations:
        keys = started(allocations, NAMES)
        with tripwire(monkeypatch) as rung:
            conductor = Conductor(NAMES, 8, 1, plain)
            report = decide_pass(allocations, keys, conductor, concurrency=8, dry_run=dry_run)
        decided = len(log(allocations, len(NAMES)))
    assert (report.counts["decided"], decided) == (4, 0 if dry_run else 4)
    assert rung == []


def test_the_tripwire_rings_when_anything_else_appends(monkeypatch: pytest.MonkeyPatch) -> None:
    """Red when the tripwire is deaf, and the test above proves nothing."""
    with repeatable("memory:") as allocations:
        keys = started(allocations, NAMES[:3])

        def rogue(state: Allocation) -> Proposal:
            event = allocations.workflow(*keys[0]).newest().event
            allocation = event.allocation.model_copy(update={"generation": 2})
            past = event.model_copy(update={"allocation": allocation, "command_id": "rogue"})
            if state.workflow_id == "1":
                allocations._ledger.decisions.append(past)
            return Hold()

        with tripwire(monkeypatch) as rung:
            decide_pass(allocations, keys, rogue)
            allocations.workflow(*keys[1]).register_challenger("v2")
    assert rung == ["allocation/acme/0", "allocation/acme/1"]


def decisions_of(workflow: Any) -> dict[str, Callable[[], object]]:
    """Every way to decide, on a workflow that runs v1 beside v2."""
    promotion = PromoteChallenger(version=Version("v2"))
    return {
        "start": lambda: workflow.start("v1"),
        "register": lambda: workflow.register_challenger("v3"),
        "commit": lambda: workflow.commit_allocation({"v2": 100}),
        "promote": lambda: workflow.promote_challenger("v2"),
        "reject": lambda: workflow.reject_challenger("v2"),
        "roll back": lambda: workflow.roll_back(to_generation=1, drop=["v2"]),
        "send": lambda: workflow.send(promotion),
    }


@pytest.mark.parametrize("way", decisions_of(None))
@pytest.mark.parametrize("is_async", [False, True])
def test_a_policy_that_decides_by_itself_fails_and_nothing_is_decided(
    way: str, is_async: bool
) -> None:
    """Red when a decision inside a policy is let through."""
    with repeatable("memory:") as allocations:
        keys = started(allocations, NAMES[:3])
        allocations.workflow(*keys[2]).register_challenger("v2")

        async def later(state: Allocation) -> Proposal:
            return rogue(state)

        def rogue(state: Allocation) -> Proposal:
            if state.workflow_id == "1":
                decisions_of(allocations.workflow(*keys[2]))[way]()
            return Register("v2")

        report = decide_pass(allocations, keys[:2], later if is_async else rogue, concurrency=2)
        assert told(allocations, 4) == [("0", "registered v2")]
    assert outcomes(report) == ["decided", "failed"]
    failure = report.results[1].failure
    assert failure
    assert isinstance(failure.error, DecisionInsidePolicy)
    assert (failure.error.asked_for, failure.error.key) == (keys[1], keys[2])


def test_another_connection_and_another_pass_are_refused_inside_a_policy_too() -> None:
    """Red when the guard belongs to a connection, or a pass in a policy forgets whose it is."""
    with repeatable("memory:") as allocations, connect("memory:") as other:
        keys = started(allocations, NAMES[:2])
        inner: list[Any] = []

        def rogue(state: Allocation) -> Proposal:
            if state.workflow_id == "0":
                inner.append(decide_pass(allocations, keys, challenge))
            else:
                other.workflow("acme", "elsewhere").start("v1")
            return Hold()

        report = decide_pass(allocations, keys, rogue)
        assert told(allocations, 2) == []
        assert other.position() == 0
    assert outcomes(report) == ["held", "failed"]
    kinds = [result.failure.error_type for result in inner[0].results]
    assert kinds == ["DecisionInsidePolicy"] * 2


def test_a_policy_may_read_peek_and_spawn_runs() -> None:
    """Red when a policy can't try anything out."""
    with repeatable("memory:") as allocations:
        keys = started(allocations, NAMES[:2])

        def tries(state: Allocation) -> Proposal:
            workflow = allocations.workflow(*state.key)
            assert workflow.allocation() == state
            workflow.spawn_run(f"eval-{state.workflow_id}", unit="eval")
            return Register("v2", reason=workflow.peek("eval").version)

        report = decide_pass(allocations, keys, tries, concurrency=2)
        allocations.workflow(*keys[0]).promote_challenger("v2")
    assert outcomes(report) == ["decided"] * 2


class Repeating:
    """Ids and times that can be had again."""

    def __init__(self) -> None:
        self.restart(1)

    def restart(self, first: int) -> None:
        self._ids = count(first)

    def new_id(self) -> str:
        return f"id-{next(self._ids)}"


def opened(url: str, repeating: Repeating) -> Allocations:
    return connect(url, actor="scheduler", new_id=repeating.new_id, clock=lambda: START)


UNCHAINED = {"previous_digest": None}


def unchained(report: PassReport) -> PassReport:
    """The report as if its events had not been recorded, which chains them."""
    results = [
        replace(result, event=result.event and result.event.model_copy(update=UNCHAINED))
        for result in report.results
    ]
    return replace(report, results=tuple(results))


def test_a_dry_run_appends_nothing_and_foresees_what_a_pass_then_does(store_url: str) -> None:
    """Red when a dry run commits, or foresees another event than a pass then appends."""
    repeating = Repeating()
    with opened(store_url, repeating) as allocations:
        keys = started(allocations, NAMES)
        repeating.restart(1_000)
        dry = decide_pass(allocations, keys, plain, concurrency=4, dry_run=True)
        assert allocations.position() == len(NAMES)
        repeating.restart(1_000)
        assert unchained(decide_pass(allocations, keys, plain, concurrency=4)) == dry
        events = log(allocations, len(NAMES))
    foreseen = [result.event for result in dry.results if result.event]
    assert [event.model_copy(update=UNCHAINED) for event in events] == foreseen
    assert len(events) == 4
