"""Readers of a log see positions in commit order: nothing appears behind what they passed."""

from collections.abc import Callable
from itertools import pairwise
from threading import Barrier, Thread

import pytest

from alloc_es import (
    Allocations,
    Committed,
    DecisionEvent,
    RunSpawned,
    StoreUnavailable,
    connect,
)
from alloc_es.codec import encode
from alloc_es.events import Event
from tests.support.overlap import in_threads
from tests.support.raw import DECISIONS, RUNS, raw, until_one_waits

Row = tuple[str, int, str, bytes]

WRITERS = 4
KEYS_EACH = 3
COMMITS_EACH = 20
# Between a slow writer's INSERT and its COMMIT, enough for others to commit in between.
ROUND_TRIPS = 30


def test_a_follower_never_sees_a_position_appear_behind_one_it_passed(durable_url: str) -> None:
    """Red on PostgreSQL without the trigger `order_commits`: positions are then drawn in one
    order and committed in another, and the follower has passed by what commits late.
    """
    with connect(durable_url) as reading:
        seen = follow_writers(durable_url, reading)
        everything = [each.position for each in reading.decisions()]
    assert seen == everything
    assert len(seen) == WRITERS * KEYS_EACH * (2 + COMMITS_EACH)
    assert all(one < next_ for one, next_ in pairwise(seen))


def follow_writers(url: str, reading: Allocations) -> list[int]:
    """The positions that a follower met, who reads on behind the last one it saw.

    Every other writer is slow: its transaction stays open for a while after the insert.
    """
    started = Barrier(WRITERS + 1, timeout=60)
    writers = [
        Thread(target=(write, write_slowly)[number % 2], args=(url, number, started), daemon=True)
        for number in range(WRITERS)
    ]
    for writer in writers:
        writer.start()
    started.wait()
    seen: list[int] = []
    writing = True
    while writing:
        # Asked before the read, so that what the last writer committed last is read too.
        writing = any(writer.is_alive() for writer in writers)
        seen += [each.position for each in reading.decisions(after=seen[-1] if seen else 0)]
    return seen


def write(url: str, number: int, started: Barrier) -> None:
    with connect(url) as allocations:
        started.wait()
        decide(allocations, number)


def write_slowly(url: str, number: int, started: Barrier) -> None:
    with connect("memory:") as elsewhere:
        decide(elsewhere, number)
        events = [each.event for each in elsewhere.decisions()]
    with raw(url) as database:
        started.wait()
        for event in events:
            database.execute("BEGIN IMMEDIATE" if database.kind == "sqlite" else "BEGIN")
            database.insert(DECISIONS, row_of(event))
            for _ in range(ROUND_TRIPS):
                database.execute("SELECT 1")
            database.execute("COMMIT")


def decide(allocations: Allocations, number: int) -> None:
    """Commit on several keys in turn, which are this number's own."""
    keys = [f"workflow-{number}-{index}" for index in range(KEYS_EACH)]
    workflows = [allocations.workflow("acme", key) for key in keys]
    for workflow in workflows:
        workflow.start("v1")
        workflow.register_challenger("v2")
    for share in range(COMMITS_EACH):
        for workflow in workflows:
            workflow.commit_allocation({"v2": share})


@pytest.mark.postgresql
def test_a_decision_waits_for_one_that_commits_late_and_comes_behind_it(postgres_url: str) -> None:
    """Red without the trigger `order_commits` on `decision_events`: the second writer then
    commits at once, and the first one's event appears behind it.
    """
    with connect(postgres_url) as allocations:
        first = allocations.workflow("acme", "late").start("v1").event
        assert first is not None
        late = row_of(first.model_copy(update=next_generation(first)))
        outcome = beside_a_late_commit(
            postgres_url, DECISIONS, late, lambda: allocations.workflow("acme", "quick").start("v1")
        )
        order = [(str(each.event.key), each.generation) for each in allocations.decisions()]
    assert isinstance(outcome, Committed), outcome
    assert order == [("acme/late", 1), ("acme/late", 2), ("acme/quick", 1)]


@pytest.mark.postgresql
def test_a_run_waits_for_one_that_commits_late_and_comes_behind_it(postgres_url: str) -> None:
    """Red without the trigger `order_commits` on `run_events`."""
    with connect(postgres_url) as allocations:
        workflow = allocations.workflow("acme", "triage")
        workflow.start("v1")
        first = workflow.spawn_run("run-1")
        late = row_of(first.model_copy(update={"run_id": "run-2"}))
        outcome = beside_a_late_commit(
            postgres_url, RUNS, late, lambda: workflow.spawn_run("run-3")
        )
        order = [each.event.run_id for each in allocations.runs()]
    assert isinstance(outcome, RunSpawned), outcome
    assert order == ["run-1", "run-2", "run-3"]


def beside_a_late_commit(url: str, table: str, late: Row, write: Callable[[], object]) -> object:
    """Write while another transaction has inserted a row and not committed.

    Returns what the write came to. It ends only behind the other transaction: the server
    is asked whether it waits, and until then nothing new is readable.
    """
    with raw(url) as writer, raw(url) as observer:
        before = observer.rows(table)
        writer.execute("BEGIN")
        writer.insert(table, late)

        def commit_late() -> None:
            until_one_waits(observer, table)
            assert observer.rows(table) == before
            writer.execute("COMMIT")

        outcome, watched = in_threads(write, commit_late)
        assert watched is None, watched
    return outcome


@pytest.mark.sqlite
def test_a_sqlite_writer_is_held_off_while_another_has_not_committed(sqlite_url: str) -> None:
    """Red when SQLite's "busy" counts as hopeless.

    SQLite has no list of who waits, so the writer's patience is short: it is told that the
    store is busy, and the same command goes through once the other has committed.
    """
    with connect(sqlite_url, timeout=0.5) as allocations, raw(sqlite_url) as other:
        first = allocations.workflow("acme", "late").start("v1").event
        assert first is not None
        quick = allocations.workflow("acme", "quick")
        other.execute("BEGIN IMMEDIATE")
        other.insert(DECISIONS, row_of(first.model_copy(update=next_generation(first))))
        with pytest.raises(StoreUnavailable) as refused:
            quick.start("v1", command_id="c-1")
        assert [each.generation for each in allocations.decisions()] == [1]
        other.execute("COMMIT")
        assert not quick.start("v1", command_id="c-1").replayed
        order = [(str(each.event.key), each.generation) for each in allocations.decisions()]
    assert refused.value.retryable
    assert order == [("acme/late", 1), ("acme/late", 2), ("acme/quick", 1)]


def next_generation(event: DecisionEvent) -> dict[str, object]:
    allocation = event.allocation.model_copy(update={"generation": event.generation + 1})
    return {"allocation": allocation, "command_id": "late"}


def row_of(event: Event) -> Row:
    return (event.originator_id, event.originator_version, *encode(event))
