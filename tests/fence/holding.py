"""Given a decision or a run that is under way, made to meet another one every time."""

from asyncio import run
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import TypeVar

from alloc_es import Allocations, DecisionEvent, Recorded, RunSpawned, SpawnRequest, Workflow
from alloc_es.codec import encode
from alloc_es.commands import Command, Envelope, PromoteChallenger
from alloc_es.decider import decide
from alloc_es.events import Event as Recordable
from alloc_es.identity import Actor, CommandId, Version
from tests.support.raw import DECISIONS, Raw, until

T = TypeVar("T")

KEY = ("acme", "triage")
V2 = Version("v2")
PROMOTION = PromoteChallenger(version=V2)

Spawn = Callable[[Allocations, str, str], RunSpawned]
"""A way to spawn a run of `KEY` by its id and unit."""


def one_run(allocations: Allocations, run_id: str, unit: str) -> RunSpawned:
    """By `spawn_run`."""
    return allocations.workflow(*KEY).spawn_run(run_id, unit=unit)


def run_of_a_task(allocations: Allocations, run_id: str, unit: str) -> RunSpawned:
    """By `aspawn_run`."""
    return run(allocations.workflow(*KEY).aspawn_run(run_id, unit=unit))


def run_of_a_list(allocations: Allocations, run_id: str, unit: str) -> RunSpawned:
    """By `spawn_runs`."""
    (outcome,) = allocations.spawn_runs([SpawnRequest(*KEY, run_id, unit)])
    if not isinstance(outcome, RunSpawned):
        raise outcome
    return outcome


WAYS: tuple[Spawn, ...] = (one_run, run_of_a_task, run_of_a_list)


def contested(allocations: Allocations) -> Workflow:
    """A workflow of v1 with the challenger v2, at generation 2, whose route is kept."""
    workflow = allocations.workflow(*KEY)
    workflow.start("v1")
    workflow.register_challenger(V2, 9_000)
    workflow.spawn_run("first")
    return workflow


def unit_of_v2(workflow: Workflow) -> str:
    """A unit that the challenger gets."""
    return next(unit for unit in map(str, range(1_000)) if workflow.peek(unit).version == V2)


def next_decision(newest: Recorded[DecisionEvent], command: Command) -> DecisionEvent:
    """What a command makes of the newest decision on a workflow, recorded nowhere."""
    envelope = Envelope(
        command_id=CommandId("under way"),
        actor=Actor("somebody else"),
        reason="",
        at=datetime(2026, 3, 1, tzinfo=UTC),
        max_challengers=1,
    )
    event = decide(newest.event.key, newest.event.allocation, command, envelope)
    assert event is not None
    return event.chained_to(newest)


def leave_under_way(database: Raw, table: str, event: Recordable) -> None:
    """Insert an event in a transaction that the caller ends."""
    database.execute("BEGIN IMMEDIATE" if database.kind == "sqlite" else "BEGIN")
    insert(database, table, event)


def insert(database: Raw, table: str, event: Recordable) -> None:
    """Append an event, past everything but the rules of the table."""
    database.insert(table, (event.originator_id, event.originator_version, *encode(event)))


def waits_at_fence(observer: Raw, mode: str) -> bool:
    """Whether a PostgreSQL backend waits for a stripe of the fence, shared or alone."""
    ((waiting,),) = observer.execute(
        "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
        " AND classid = ?::regclass::oid AND mode = ?",
        DECISIONS,
        mode,
    )
    return bool(waiting)


def held_up(
    call: Callable[[], T], waits: Callable[[], object], release: Callable[[], object]
) -> tuple[T, bool]:
    """Make a call in a thread, and `release` what holds it up once it waits.

    What the call returned, and whether it did wait: it may have ended instead.
    """
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(call)
        until(lambda: future.done() or waits(), "the call waits")
        waited = not future.done()
        release()
        return future.result(), waited
