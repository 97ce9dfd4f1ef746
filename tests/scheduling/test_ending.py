"""A pass that is ended early leaves whole decisions or none, and waits for no judge."""

import asyncio
import os
import pickle
import signal
from collections.abc import Awaitable, Callable
from threading import Event
from typing import Any

import pytest

from alloc_es import Allocation, Allocations, OutcomeUnknown, StoreUnavailable
from alloc_es.errors import AnswerLost
from alloc_es.scheduler_errors import PassStopped
from alloc_es.scheduling import Hold, PassResult, Proposal, Register, adecide_pass, decide_pass
from alloc_es.store.log import EventLog
from tests.scheduling.passes import (
    PATIENCE_SECONDS,
    challenge,
    outcomes,
    repeatable,
    started,
    told,
)
from tests.support.recorders import before_each

NAMES = ["1", "2", "3", "4"]


class Gate:
    """Where something waits until it is let through; `reached` says that it does.

    `gave_up` says that it was not let through in time.
    """

    def __init__(self) -> None:
        self.reached = Event()
        self.gave_up = False
        self._opened = Event()

    def wait(self) -> None:
        self.reached.set()
        if not self._opened.wait(PATIENCE_SECONDS):
            self.gave_up = True

    def open(self) -> None:
        self._opened.set()

    async def until_reached(self) -> None:
        assert await asyncio.to_thread(self.reached.wait, PATIENCE_SECONDS)


def gated(gate: Gate, at: str) -> Callable[[Allocation], Proposal]:
    """A policy that waits at a gate when it is asked about one workflow."""

    def policy(state: Allocation) -> Proposal:
        if state.workflow_id == at:
            gate.wait()
        return Register("v2")

    return policy


def gate_append(monkeypatch: pytest.MonkeyPatch, gate: Gate, at: str) -> None:
    genuine = EventLog.append

    def append(self: Any, event: Any) -> Any:
        recorded = genuine(self, event)
        if event.key.workflow_id == at and event.generation == 2:
            gate.wait()
        return recorded

    monkeypatch.setattr(EventLog, "append", append)


def cancelled(
    allocations: Allocations,
    policy: Any,
    when: Callable[[], Awaitable[object]],
    then: Callable[[], object] = lambda: None,
    size: int = 2,
) -> list[PassResult]:
    """Cancel a pass over four workflows; the results that it told of before it ended."""
    heard: list[PassResult] = []
    keys = started(allocations, NAMES)

    async def main() -> None:
        task = asyncio.create_task(
            adecide_pass(allocations, keys, policy, concurrency=size, on_result=heard.append)
        )
        await when()
        task.cancel()
        await asyncio.sleep(0)
        then()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    return heard


@pytest.mark.parametrize(("at", "decided"), [("1", []), ("2", []), ("4", ["1", "2"])])
def test_cancelled_while_policies_are_asked_nothing_of_their_wave_is_recorded(
    store_url: str, at: str, decided: list[str]
) -> None:
    """Red when a pass waits for a thread of a policy, or commits what has answered by then."""
    gate = Gate()
    with repeatable(store_url) as allocations:
        heard = cancelled(allocations, gated(gate, at), gate.until_reached)
        assert [name for name, _ in told(allocations, 4)] == decided
    assert not gate.gave_up
    gate.open()
    assert [result.key.workflow_id for result in heard] == decided


@pytest.mark.parametrize(("at", "decided"), [("1", NAMES[:1]), ("2", NAMES[:2]), ("3", NAMES[:3])])
def test_cancelled_while_a_decision_is_committed_it_is_finished_and_told_and_no_other_begun(
    store_url: str, monkeypatch: pytest.MonkeyPatch, at: str, decided: list[str]
) -> None:
    """Red when a commit under way is left to itself, or the rest of its wave follows."""
    gate = Gate()
    gate_append(monkeypatch, gate, at)
    with repeatable(store_url) as allocations:
        heard = cancelled(allocations, challenge, gate.until_reached, gate.open)
        assert [name for name, _ in told(allocations, 4)] == decided
    assert [(result.key.workflow_id, result.outcome) for result in heard] == [
        (name, "decided") for name in decided
    ]


def test_cancelled_by_whoever_hears_of_a_result_no_other_decision_is_begun() -> None:
    """Red when a commit is begun before a cancellation that has come is looked for."""

    async def main() -> None:
        task = asyncio.current_task()
        assert task
        await adecide_pass(
            allocations, keys, challenge, concurrency=4, on_result=lambda _: task.cancel()
        )

    with repeatable("memory:") as allocations:
        keys = started(allocations, NAMES)
        with pytest.raises(asyncio.CancelledError):
            asyncio.run(main())
        assert told(allocations, 4) == [("1", "registered v2")]


def test_async_policies_are_cancelled_with_their_pass() -> None:
    """Red when a task of a policy outlives the pass."""
    asked, ended = asyncio.Event(), []

    async def policy(state: Allocation) -> Proposal:
        try:
            asked.set()
            await asyncio.Event().wait()
        finally:
            ended.append(state.workflow_id)
        return Hold()

    with repeatable("memory:") as allocations:
        assert cancelled(allocations, policy, asked.wait) == []
    assert ended == ["1", "2"]


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("is_async", [False, True])
def test_what_is_no_exception_ends_the_pass_with_nothing_of_its_wave(
    kind: type[BaseException], is_async: bool
) -> None:
    """Red when an interrupt in a policy is a failure of its workflow, or waits for siblings."""
    gate = Gate()

    def policy(state: Allocation) -> Any:
        async def interrupted() -> Proposal:
            raise kind

        if state.workflow_id == "3":
            gate.wait()
        if state.workflow_id == "4":
            if is_async:
                return interrupted()
            raise kind
        return Register("v2")

    with repeatable("memory:") as allocations:
        keys = started(allocations, NAMES)
        with pytest.raises(kind):
            decide_pass(allocations, keys, policy, concurrency=2)
        assert [name for name, _ in told(allocations, 4)] == ["1", "2"]
    assert not gate.gave_up
    gate.open()


def test_ctrl_c_ends_a_pass_though_a_judge_still_thinks() -> None:
    """Red when policies run in threads that the loop waits for."""
    gate = Gate()

    def policy(state: Allocation) -> Proposal:
        if state.workflow_id == "2":
            os.kill(os.getpid(), signal.SIGINT)
        gate.wait()
        return Register("v2")

    with repeatable("memory:") as allocations:
        keys = started(allocations, NAMES)
        with pytest.raises(KeyboardInterrupt):
            decide_pass(allocations, keys, policy, concurrency=2)
        assert told(allocations, 4) == []
    assert not gate.gave_up
    gate.open()


def test_the_event_loop_is_never_blocked(store_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Red when a read, a policy or a commit is made in the loop: it would wait for itself."""
    heard = 0
    with repeatable(store_url) as allocations:
        keys = started(allocations, ["1"])

        async def main() -> list[str]:
            loop = asyncio.get_running_loop()

            def meet(_: object) -> None:
                nonlocal heard
                met = Event()
                loop.call_soon_threadsafe(met.set)
                assert met.wait(PATIENCE_SECONDS)
                heard += 1

            def policy(state: Allocation) -> Proposal:
                meet(state)
                return Register("v2")

            before_each(monkeypatch, ("select_newest", "insert_events"), meet)
            return outcomes(await adecide_pass(allocations, keys, policy))

        assert asyncio.run(main()) == ["decided"]
    assert heard >= 4


def fail_at(
    monkeypatch: pytest.MonkeyPatch, method: str, name: str, error: Exception, number: int
) -> None:
    """Have a method of the log raise an error from its `number`th call about a workflow on."""
    genuine = getattr(EventLog, method)
    calls = 0

    def failing(self: Any, what: Any, *more: Any) -> Any:
        nonlocal calls
        is_about = f"acme/{name}" in str(getattr(what, "originator_id", what))
        calls += is_about
        if is_about and calls >= number:
            raise error
        return genuine(self, what, *more)

    monkeypatch.setattr(EventLog, method, failing)


@pytest.mark.parametrize(
    ("method", "error", "slot"),
    [
        ("newest_of", StoreUnavailable("it is away", retryable=False), "not run"),
        ("append", StoreUnavailable("it is away", retryable=False), "not run"),
        ("append", AnswerLost("it hung up", retryable=False), "failed"),
    ],
    ids=["read", "commit", "lost answer"],
)
def test_a_store_that_is_lost_stops_the_pass_which_says_what_was_done(
    monkeypatch: pytest.MonkeyPatch, method: str, error: Exception, slot: str
) -> None:
    """Red when each further workflow meets the same store, or what was done is forgotten."""
    with repeatable("memory:") as allocations:
        keys = started(allocations, NAMES)
        # The first read looks whether all are known.
        fail_at(monkeypatch, method, "3", error, 2 if method == "newest_of" else 1)
        with pytest.raises(PassStopped) as stopped:
            decide_pass(allocations, keys, challenge, concurrency=2)
        assert [name for name, _ in told(allocations, 4)] == ["1", "2"]
    stop = stopped.value
    assert outcomes(stop.report) == ["decided", "decided", slot, "not run"]
    doubtful = slot == "failed"
    assert isinstance(stop.error, OutcomeUnknown if doubtful else StoreUnavailable)
    assert stop.__cause__ is stop.error
    failure = stop.report.results[2].failure
    assert (failure.error if failure else None) == (stop.error if doubtful else None)
    assert "stopped with 2 of 4 workflows decided" in str(stop)
    found = pickle.loads(pickle.dumps(stop))
    assert (str(found), found.report) == (str(stop), stop.report)


def test_an_old_incarnation_stops_its_pass_at_its_next_commit(durable_url: str) -> None:
    """Red when every further workflow is refused for itself, or two things to do are named."""
    with repeatable(durable_url) as office:
        keys = started(office, NAMES)
        old = office.new_incarnation("scheduler-a")

        def policy(state: Allocation) -> Proposal:
            if state.workflow_id == "3":
                office.new_incarnation("scheduler-a")
            return Register("v2")

        with (
            repeatable(durable_url, actor=None, incarnation=old) as allocations,
            pytest.raises(PassStopped) as stopped,
        ):
            decide_pass(allocations, keys, policy, concurrency=2)
        assert [name for name, _ in told(office, 4)] == ["1", "2"]
    assert type(stopped.value.error).__name__ == "IncarnationSuperseded"
    last_words = "stop this process, incarnation 2 goes on in its place; what was decided stays"
    assert str(stopped.value).endswith(last_words)
    assert outcomes(stopped.value.report) == ["decided", "decided", "not run", "not run"]
