"""Each caller of a group gets an outcome of its own, and a bad row fails no neighbour."""

import asyncio
import json
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from eventsourcing.persistence import StoredEvent

from alloc_es import (
    AllocationError,
    Allocations,
    InvalidIdentifier,
    InvalidSetting,
    RunIdTaken,
    RunSpawned,
    SpawnRequest,
    UnknownWorkflow,
    UnreadableEvent,
)
from tests.groups.conftest import KEYS
from tests.groups.gate import Gate

Outcome = RunSpawned | AllocationError
Ask = Callable[[Allocations, Gate, Sequence[SpawnRequest]], list[Outcome]]

TRIAGE, BILLING, BETA = KEYS
GARBLED = ("acme", "garbled")

INVALID: list[tuple[SpawnRequest, str]] = [
    (SpawnRequest("", "triage", "r"), "tenant id"),
    (SpawnRequest("acme", " triage", "r"), "workflow id"),
    (SpawnRequest(["acme"], "triage", "r"), "tenant id"),  # type: ignore[arg-type]
    (SpawnRequest("acme", {}, "r"), "workflow id"),  # type: ignore[arg-type]
    (SpawnRequest(*TRIAGE, ""), "run id"),
    (SpawnRequest(*TRIAGE, "a\nb"), "run id"),
    (SpawnRequest(*TRIAGE, "a\x00b"), "run id"),
    (SpawnRequest(*TRIAGE, "a\x01b"), "run id"),
    (SpawnRequest(*TRIAGE, "\ud800"), "run id"),
    (SpawnRequest(*TRIAGE, "r" * 201), "run id"),
    (SpawnRequest(*TRIAGE, "e\u0301"), "run id"),
    (SpawnRequest(*TRIAGE, 7), "run id"),  # type: ignore[arg-type]
    (SpawnRequest(*TRIAGE, None), "run id"),  # type: ignore[arg-type]
    (SpawnRequest(*TRIAGE, "r", unit=""), "unit"),
    (SpawnRequest(*TRIAGE, "r", unit=3.5), "unit"),  # type: ignore[arg-type]
    (SpawnRequest(*TRIAGE, "r", actor="a\tb"), "actor"),
]

ASKED = [
    SpawnRequest(*TRIAGE, "new-0", "customer-1", "bea"),
    SpawnRequest(*TRIAGE, "known"),
    SpawnRequest(*TRIAGE, "twice", "first"),
    SpawnRequest(*BILLING, "twice"),
    SpawnRequest(*TRIAGE, "twice", "second"),
    SpawnRequest(*BILLING, "known"),
    SpawnRequest("acme", "never", "new-1"),
    SpawnRequest(*GARBLED, "new-2"),
    SpawnRequest(*TRIAGE, "unreadable"),
    *(request for request, _ in INVALID),
    SpawnRequest(*BETA, "known"),
    SpawnRequest(*BILLING, "😀" * 100 + "/" * 100, "%2F" * 66),
    SpawnRequest(*BILLING, "new-3"),
]


def as_list(allocations: Allocations, _: Gate, asked: Sequence[SpawnRequest]) -> list[Outcome]:
    """Ask for all of them in one call."""
    return allocations.spawn_runs(asked)


def from_threads(
    allocations: Allocations, gate: Gate, asked: Sequence[SpawnRequest]
) -> list[Outcome]:
    """Ask for each in a thread, in their order, while another group is under way."""

    def call(request: SpawnRequest) -> Outcome:
        try:
            workflow = allocations.workflow(request.tenant_id, request.workflow_id)
            return workflow.spawn_run(request.run_id, unit=request.unit, actor=request.actor)
        except AllocationError as error:
            return error

    with ThreadPoolExecutor(len(asked) + 1) as pool:
        with gate.closed():
            first = pool.submit(allocations.workflow(*BETA).spawn_run, "before")
            gate.await_groups(1)
            calls = []
            for request in asked:
                before = gate.asked
                calls.append(pool.submit(call, request))
                gate.await_call(calls[-1], before + 1)
        assert first.result().run_id == "before"
        return [each.result() for each in calls]


def from_tasks(
    allocations: Allocations, gate: Gate, asked: Sequence[SpawnRequest]
) -> list[Outcome]:
    """Ask for each in a task, in their order, while another group is under way."""

    async def call(request: SpawnRequest) -> Outcome:
        try:
            workflow = allocations.workflow(request.tenant_id, request.workflow_id)
            return await workflow.aspawn_run(request.run_id, unit=request.unit, actor=request.actor)
        except AllocationError as error:
            return error

    async def main() -> list[Outcome]:
        with gate.closed():
            first = asyncio.create_task(allocations.workflow(*BETA).aspawn_run("before"))
            while not gate.groups:
                await asyncio.sleep(0)
            calls = [asyncio.create_task(call(request)) for request in asked]
            await asyncio.sleep(0)
        assert (await first).run_id == "before"
        return list(await asyncio.gather(*calls))

    return asyncio.run(main())


WAYS: dict[str, Ask] = {"list": as_list, "threads": from_threads, "tasks": from_tasks}


@pytest.mark.parametrize("cached", [False, True], ids=["unread", "kept"])
@pytest.mark.parametrize("ask", WAYS.values(), ids=WAYS)
def test_bad_rows_fail_no_neighbours_and_outcomes_are_in_the_order_of_the_requests(
    ask: Ask, cached: bool, allocations: Allocations, gate: Gate
) -> None:
    """Red when an error of one run is the error of its group."""
    known = allocations.workflow(*TRIAGE).spawn_run("known", unit="long ago")
    garble(allocations, cached=cached)
    gate.groups.clear()

    outcomes = ask(allocations, gate, ASKED)

    new, again, first, other, second, taken, never, garbled, unreadable, *rest = outcomes
    invalid, (beta, odd, last) = rest[: len(INVALID)], rest[len(INVALID) :]
    for run, request in [(new, ASKED[0]), (first, ASKED[2])]:
        assert isinstance(run, RunSpawned)
        assert (run.run_id, run.unit, run.replayed) == (request.run_id, request.unit, False)
    assert isinstance(new, RunSpawned)
    assert new.actor == "bea"
    assert again == known.model_copy(update={"replayed": True})
    assert isinstance(first, RunSpawned)
    assert second == first.model_copy(update={"replayed": True})
    for error, recorded in [(other, first), (taken, known)]:
        assert isinstance(error, RunIdTaken)
        assert (error.recorded, error.asked) == (recorded, BILLING)
    assert isinstance(never, UnknownWorkflow)
    assert never.key == ("acme", "never")
    assert isinstance(garbled, UnreadableEvent)
    assert garbled.stream == "allocation/acme/garbled"
    assert isinstance(unreadable, UnreadableEvent)
    assert unreadable.stream == "run/acme/unreadable"
    for found, (_, kind) in zip(invalid, INVALID, strict=True):
        assert isinstance(found, InvalidIdentifier)
        assert found.kind == kind
    for run, request in zip((beta, odd, last), ASKED[-3:], strict=True):
        assert isinstance(run, RunSpawned)
        assert (run.key, run.run_id, run.replayed) == (request[:2], request.run_id, False)
    held = [] if ask is as_list else ["before"]
    names = ["known", *held, "new-0", "twice", "known", ASKED[-2].run_id, "new-3"]
    assert sorted(each.event.run_id for each in readable(allocations)) == sorted(names)


@pytest.mark.parametrize("ask", WAYS.values(), ids=WAYS)
def test_runs_that_are_all_known_or_all_bad_are_told_so(
    ask: Ask, allocations: Allocations, gate: Gate
) -> None:
    """Red when a group without a run to record ends its writer, or is recorded as a group."""
    known = [allocations.workflow(*TRIAGE).spawn_run(f"run-{n}") for n in range(9)]
    gate.groups.clear()
    asked = [SpawnRequest(*TRIAGE, run.run_id) for run in reversed(known)]
    replayed = [run.model_copy(update={"replayed": True}) for run in reversed(known)]
    assert ask(allocations, gate, asked) == replayed
    gate.groups.clear()
    never = [SpawnRequest("acme", f"never-{n}", "run") for n in range(9)]
    told = allocations.spawn_runs(never)
    assert [(type(each), getattr(each, "key", None)) for each in told] == [
        (UnknownWorkflow, request[:2]) for request in never
    ]
    assert gate.groups == []
    assert allocations.spawn_runs([request for request, _ in INVALID[:2]])
    assert allocations.spawn_runs([]) == []
    assert allocations.spawn_counts().known == 9
    assert not allocations.workflow(*TRIAGE).spawn_run("afterwards").replayed


def test_a_thousand_known_runs_among_a_thousand_new_ones_are_told_apart(
    allocations: Allocations, gate: Gate
) -> None:
    """Red when a group that holds known runs is recorded run by run."""
    asked = [SpawnRequest(*KEYS[n % 3], f"run-{n:04}") for n in range(2_000)]
    first = allocations.spawn_runs(asked[::2])
    gate.groups.clear()

    outcomes = allocations.spawn_runs(asked)

    assert all(isinstance(each, RunSpawned) for each in outcomes)
    assert [getattr(each, "replayed", None) for each in outcomes] == [True, False] * 1_000
    assert [each.model_copy(update={"replayed": False}) for each in outcomes[::2]] == first  # type: ignore[union-attr]
    assert gate.sizes == [1_000, 500] * 2
    assert len(list(allocations.runs())) == 2_000


@pytest.mark.parametrize(
    "asked", [7, None, [("acme", "triage", "run-1")], ["run-1"], [None], [KEYS[0]]], ids=repr
)
def test_what_is_no_list_of_requests_is_refused_before_any_run_is_recorded(
    asked: Any, allocations: Allocations
) -> None:
    """Red when requests are read while runs are recorded."""
    good = SpawnRequest(*TRIAGE, "run-1")
    with pytest.raises(InvalidSetting) as caught:
        allocations.spawn_runs([good, *asked] if isinstance(asked, list) else asked)
    assert caught.value.setting == "requests"
    assert list(allocations.runs()) == []


def garble(allocations: Allocations, *, cached: bool) -> None:
    """Make the newest decision of one workflow, and one run, unreadable."""
    workflow = allocations.workflow(*GARBLED)
    started = workflow.start("v1")
    if cached:
        workflow.peek("unit")
    assert started.event is not None
    decisions, runs = allocations._store.decisions, allocations._store.runs
    future = {"schema_version": 99, "command_id": "from the future"}
    state = json.dumps(future).encode()
    stream = started.event.originator_id
    decisions.recorder.insert_events([StoredEvent(stream, 2, "ChallengerRegistered", state)])
    runs.recorder.insert_events([StoredEvent("run/acme/unreadable", 1, "RunSpawned", state)])


def readable(allocations: Allocations) -> list[Any]:
    """The runs of the log that can be read."""
    log = allocations._store.runs
    rows = log.notification_log.select(0, 1_000, inclusive_of_start=False)
    return [log._recorded(row) for row in rows if b'"schema_version": 99' not in row.state]
