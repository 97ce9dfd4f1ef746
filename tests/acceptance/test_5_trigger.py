"""5. One rejection without replacement is one trigger; nothing else is, and no time is."""

import multiprocessing
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from freezegun import freeze_time

import alloc_es
from alloc_es import (
    Allocations,
    ChallengerRejectedWithoutReplacement,
    Committed,
    NoSuchChallenger,
    Workflow,
    committing,
    connect,
)
from tests.support.overlap import in_threads, meet_before_append

BEGIN = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
SECOND = timedelta(seconds=1)
EVERY = 10
OURS = Path(alloc_es.__file__).parent


def challenge(allocations: Allocations) -> Workflow:
    """A workflow at generation 2, with v1 current and v2 live."""
    workflow = allocations.workflow("acme", "triage")
    workflow.start("v1")
    workflow.register_challenger("v2")
    return workflow


def triggers(allocations: Allocations) -> list[tuple[str, int]]:
    """What a generate loop waits for: versions rejected, and the generations that did it."""
    return [
        (each.event.version, each.generation)
        for each in allocations.decisions()
        if isinstance(each.event, ChallengerRejectedWithoutReplacement)
    ]


def test_a_rejection_without_a_replacement_is_one_trigger(store_url: str) -> None:
    """Red when `_reject` makes an `AllocationCommitted`."""
    with connect(store_url) as allocations:
        workflow = challenge(allocations)
        workflow.reject_challenger("v2", command_id="c-1")
        assert workflow.reject_challenger("v2", command_id="c-1").replayed
        with pytest.raises(NoSuchChallenger):
            workflow.reject_challenger("v2")
        assert triggers(allocations) == [("v2", 3)]


def test_every_other_end_of_a_tenure_is_no_trigger(store_url: str) -> None:
    """Red when `decide` takes a replacement for a rejection."""
    with connect(store_url) as allocations:
        workflow = challenge(allocations)
        workflow.reject_challenger("v2", replacement="v3")
        workflow.promote_challenger("v3")
        workflow.register_challenger("v4")
        workflow.roll_back(drop=["v4"])
        assert workflow.allocation().challengers == ()
        assert triggers(allocations) == []


def test_two_schedulers_that_reject_at_once_fire_one_trigger(
    durable_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Red when the loser of a race reports the winner's event as its own."""
    with connect(durable_url) as one, connect(durable_url) as other:
        challenge(one)
        handles = [each.workflow("acme", "triage") for each in (one, other)]
        barrier = meet_before_append(monkeypatch, committing, parties=2)
        outcomes = in_threads(
            lambda: handles[0].reject_challenger("v2"), lambda: handles[1].reject_challenger("v2")
        )
        assert not barrier.broken
        kinds = sorted(type(each).__name__ for each in outcomes)
        assert kinds == [Committed.__name__, NoSuchChallenger.__name__]
        assert triggers(one) == [("v2", 3)]


@contextmanager
def simulated() -> Iterator[Callable[[], datetime]]:
    """A frozen world; each call lets a second pass in it and returns the time."""
    with freeze_time(BEGIN) as frozen:

        def tick() -> datetime:
            frozen.tick(SECOND)
            return datetime.now(UTC)

        yield tick


def test_60_seconds_with_two_live_schedulers_and_no_rejection_fire_nothing(
    durable_url: str,
) -> None:
    """Red when anything records an event that nobody commanded, at whatever time.

    One scheduler's clock is injected, the other's is the system's as freezegun has it.
    """
    now = BEGIN
    # Closed when time goes on again: psycopg's pool waits for threads that wait for time.
    with ExitStack() as closed_later, simulated() as tick:
        one = closed_later.enter_context(connect(durable_url, actor="a", clock=lambda: now))
        other = closed_later.enter_context(connect(durable_url, actor="b"))
        schedulers = [challenge(one), other.workflow("acme", "triage")]
        for second in range(1, 61):
            now = tick()
            assert [each.allocation().challenger for each in schedulers] == ["v2", "v2"]
            if second % EVERY == 0:
                turn = second // EVERY
                schedulers[turn % 2].commit_allocation({"v2": turn})
        assert triggers(one) == []
        decided = [(each.time, each.actor) for each in one.decisions()]
    commits = [(BEGIN + EVERY * turn * SECOND, "ab"[turn % 2]) for turn in range(1, 7)]
    assert decided == [(BEGIN, "a"), (BEGIN, "a"), *commits]


def test_60_seconds_with_a_store_in_memory_fire_nothing() -> None:
    """Red when anything records an event that nobody commanded, at whatever time."""
    with simulated() as tick, connect("memory:") as allocations:
        workflow = challenge(allocations)
        for _ in range(60):
            tick()
            assert workflow.allocation().generation == 2
        assert len(list(allocations.decisions())) == 2


def test_nothing_runs_that_could_fire_a_trigger(store_url: str) -> None:
    """Red when `connect`, or a command, starts a thread, a timer or a process of ours.

    What runs is looked at, not the source: every thread that came with two schedulers at
    work is one that psycopg keeps its pool's connections with.
    Spawning starts one thread for a connection, which does nothing but wait for runs.
    """
    before = set(threading.enumerate())
    with connect(store_url) as one, connect(store_url) as other:
        for allocations in (one, other):
            workflow = allocations.workflow("acme", f"triage-{id(allocations)}")
            workflow.start("v1")
            workflow.register_challenger("v2")
        deciding = what_runs(since=before)
        for allocations in (one, other):
            workflow = allocations.workflow("acme", f"triage-{id(allocations)}")
            workflow.spawn_run(f"run-{id(allocations)}")
        spawning = what_runs(since=before)
        assert multiprocessing.active_children() == []
    assert [name for name, _ in deciding if not is_of_a_pool(name)] == []
    assert bool(deciding) == store_url.startswith("postgresql")
    writers = [(name, of_ours(stack)) for name, stack in spawning if not is_of_a_pool(name)]
    assert [name for name, _ in writers] == ["alloc-es group writer"] * 2
    assert {file.name for _, stack in writers for file in stack} == {"grouping.py"}
    for thread in set(threading.enumerate()) - before:
        thread.join(30)
        assert not thread.is_alive(), thread


def is_of_a_pool(name: str) -> bool:
    """Whether psycopg keeps connections with it, which it makes ready by our code."""
    return name.startswith("pool-")


def what_runs(since: set[threading.Thread]) -> list[tuple[str, list[Path]]]:
    """The threads that came since then, by name, each with the files on its stack."""
    came = [thread for thread in threading.enumerate() if thread not in since]
    stacks = [(thread.name, files_on_stack(thread)) for thread in came]
    # One without a frame has ended in between.
    return [(name, stack) for name, stack in stacks if stack]


def of_ours(stack: list[Path]) -> list[Path]:
    return [file for file in stack if file.is_relative_to(OURS)]


def files_on_stack(thread: threading.Thread) -> list[Path]:
    """The source files of what a thread is doing now, innermost first."""
    assert thread.ident is not None
    frame = sys._current_frames().get(thread.ident)
    files = []
    while frame is not None:
        files.append(Path(frame.f_code.co_filename))
        frame = frame.f_back
    return files
