"""Peeking reads nothing while the allocation is in memory, and is a second behind at most."""

from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from threading import Barrier, Condition, Event, get_ident
from typing import Any

import pytest

from alloc_es import Allocations, Patience, UnknownWorkflow, connect
from alloc_es.store import EventLog
from tests.support.overlap import in_threads
from tests.support.recorders import READS, before_each

KEY = ("acme", "triage")
THREADS = 8
WAIT_SECONDS = 30.0


class Clock:
    """A monotonic clock that goes on when it is told to; it counts each thread's looks.

    `tick` is by how much it goes on at each look.
    """

    def __init__(self) -> None:
        self.now = 1_000.0
        self.tick = 0.0
        self.looks: Counter[int] = Counter()
        self._looked = Condition()

    def __call__(self) -> float:
        with self._looked:
            self.looks[get_ident()] += 1
            self._looked.notify_all()
            self.now += self.tick
            return self.now

    def wait_for_threads(self, looks: int) -> None:
        """Wait until every thread of a test has looked so many times."""

        def have_looked() -> bool:
            return sum(number >= looks for number in self.looks.values()) == THREADS

        with self._looked:
            assert self._looked.wait_for(have_looked, WAIT_SECONDS)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every read of any store from now on."""
    seen: list[str] = []
    before_each(monkeypatch, READS, seen.append)
    return seen


@contextmanager
def opened(url: str, clock: Clock) -> Iterator[Allocations]:
    """A connection on the clock, to a store with a workflow at generation 2."""
    with connect(url, patience=Patience(WAIT_SECONDS, monotonic=clock)) as allocations:
        workflow = allocations.workflow(*KEY)
        if not allocations.list():
            workflow.start("v1")
            workflow.register_challenger("v2", share_bps=500)
        yield allocations


def forget(allocations: Allocations) -> None:
    """Leave nothing in memory, as in a connection that has just been made."""
    routes = allocations._ledger.spawner._routes
    routes._young.clear()
    routes._old.clear()


def generation(allocations: Allocations) -> int:
    return allocations.workflow(*KEY).peek("customer-17").generation


def test_nothing_is_read_while_the_allocation_is_in_memory(
    store_url: str, clock: Clock, reads: list[str]
) -> None:
    """Red when `peek` reads each time, or the age of what is kept counts from another read."""
    with opened(store_url, clock) as allocations:
        workflow = allocations.workflow(*KEY)
        forget(allocations)
        reads.clear()
        first = [workflow.peek(f"customer-{number}") for number in range(50)]
        assert reads == ["select_events"]
        clock.now += 1.0
        reads.clear()
        assert [workflow.peek(f"customer-{number}") for number in range(50)] == first
        assert reads == []


def test_what_is_older_than_a_second_is_read_again_once(
    store_url: str, clock: Clock, reads: list[str]
) -> None:
    """Red when an allocation is kept in memory for ever, or is not young again once read."""
    with opened(store_url, clock) as allocations:
        generation(allocations)
        for _ in range(3):
            clock.now += 1.001
            reads.clear()
            assert {generation(allocations) for _ in range(10)} == {2}
            assert reads == ["select_events"]


def test_a_recorded_run_makes_what_is_in_memory_young_again(
    store_url: str, clock: Clock, reads: list[str]
) -> None:
    """Red when what a run was verified by behind the fence is read again by `peek`."""
    with opened(store_url, clock) as allocations:
        generation(allocations)
        clock.now += 1.001
        allocations.workflow(*KEY).spawn_run("run-1")
        reads.clear()
        generation(allocations)
        assert reads == []


@pytest.mark.parametrize("kept", [True, False], ids=["grown old", "never read"])
def test_threads_that_peek_at_the_same_time_share_one_read(
    store_url: str, clock: Clock, reads: list[str], monkeypatch: pytest.MonkeyPatch, kept: bool
) -> None:
    """Red when every thread that finds nothing in memory reads for itself.

    The read that one of them makes goes on only when all of them have found nothing.
    """
    with opened(store_url, clock) as allocations:
        if kept:
            generation(allocations)
            clock.now += 1.001
        else:
            forget(allocations)
        clock.tick = 0.001
        reads.clear()
        clock.looks.clear()
        # Each looks at the clock as it asks, and before that at the age of what is kept.
        looks = 2 if kept else 1
        before_each(monkeypatch, ("select_events",), lambda _: clock.wait_for_threads(looks))
        assert peek_together(allocations) == [2] * THREADS
        assert reads == ["select_events"]


def test_threads_that_waited_for_a_slow_read_do_not_read_one_after_the_other(
    store_url: str, clock: Clock, reads: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Red when only what was read within the last second will do for who has waited for it."""
    with opened(store_url, clock) as allocations:
        forget(allocations)
        clock.tick = 0.001
        reads.clear()
        clock.looks.clear()

        def take_long(_: str) -> None:
            clock.wait_for_threads(looks=1)
            clock.now += 5.0

        before_each(monkeypatch, ("select_events",), take_long)
        assert peek_together(allocations) == [2] * THREADS
        # One that began before some had asked, and one that began after all had.
        assert len(reads) <= 2


def peek_together(allocations: Allocations) -> list[int | Exception]:
    barrier = Barrier(THREADS)

    def peek() -> int:
        barrier.wait(WAIT_SECONDS)
        return generation(allocations)

    return in_threads(*[peek] * THREADS)


def test_an_unknown_workflow_is_asked_for_each_time_and_found_once_it_was_started(
    store_url: str, clock: Clock, reads: list[str]
) -> None:
    """Red when it is kept in memory that a workflow was not there."""
    with opened(store_url, clock) as allocations:
        new = allocations.workflow("acme", "new")
        for _ in range(2):
            reads.clear()
            with pytest.raises(UnknownWorkflow):
                new.peek("customer-17")
            assert reads == ["select_events"]
        new.start("v1")
        assert new.peek("customer-17").generation == 1


def test_what_this_connection_decides_is_seen_at_once(
    store_url: str, clock: Clock, reads: list[str]
) -> None:
    """Red when a command does not tell what it made to what is in memory."""
    with opened(store_url, clock) as allocations:
        workflow = allocations.workflow(*KEY)
        workflow.peek("customer-17")
        for decide in (
            partial(workflow.commit_allocation, {"v2": 9_000}),
            partial(workflow.promote_challenger, "v2"),
            partial(workflow.roll_back),
        ):
            made = decide()
            reads.clear()
            routing = workflow.peek("customer-17")
            assert (routing.generation, reads) == (made.generation, [])
        assert routing.version == "v1"


def test_a_decision_is_not_lost_on_a_peek_that_read_before_it(
    store_url: str, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Red when a decision is taken over only where its workflow is in memory: a thread that
    had read what held before would then keep that.
    """
    with opened(store_url, clock) as allocations, ThreadPoolExecutor(1) as pool:
        workflow = allocations.workflow(*KEY)
        forget(allocations)
        has_read, may_keep = Event(), Event()
        genuine = EventLog.newest

        def newest(log: EventLog[Any], stream: str) -> Any:
            found = genuine(log, stream)
            if not has_read.is_set():
                has_read.set()
                may_keep.wait(WAIT_SECONDS)
            return found

        monkeypatch.setattr(EventLog, "newest", newest)
        peeked = pool.submit(generation, allocations)
        assert has_read.wait(WAIT_SECONDS)
        made = workflow.promote_challenger("v2")
        may_keep.set()
        assert (peeked.result(), generation(allocations)) == (2, made.generation)


def test_what_another_connection_decides_is_seen_within_a_second(
    durable_url: str, clock: Clock
) -> None:
    """Red when what is in memory is taken for the newest for longer."""
    with opened(durable_url, clock) as mine, opened(durable_url, clock) as others:
        assert generation(mine) == 2
        others.workflow(*KEY).promote_challenger("v2")
        clock.now += 1.0
        assert generation(mine) == 2, "it was read though it was in memory"
        clock.now += 0.001
        assert generation(mine) == 3


def test_what_another_connection_decided_is_seen_at_once_by_the_next_run_and_from_then_on(
    durable_url: str, clock: Clock, reads: list[str]
) -> None:
    """Red when a run is recorded by what is in memory, or what it found under the fence is
    not kept.
    """
    with opened(durable_url, clock) as mine, opened(durable_url, clock) as others:
        assert generation(mine) == 2
        others.workflow(*KEY).promote_challenger("v2")
        run = mine.workflow(*KEY).spawn_run("run-1")
        assert (run.generation, run.version) == (3, "v2")
        assert mine.spawn_counts().rerouted == 1
        reads.clear()
        assert generation(mine) == 3
        assert reads == []


@pytest.mark.parametrize("name", ["allocation", "newest"])
def test_what_this_connection_has_read_is_not_older_in_the_next_peek(
    durable_url: str, clock: Clock, name: str
) -> None:
    """Red when `allocation` and `newest` do not tell what they read to what is in memory."""
    with opened(durable_url, clock) as mine, opened(durable_url, clock) as others:
        assert generation(mine) == 2
        others.workflow(*KEY).promote_challenger("v2")
        getattr(mine.workflow(*KEY), name)()
        assert generation(mine) == 3


def test_only_so_many_workflows_are_kept_as_were_asked_for(
    store_url: str, reads: list[str]
) -> None:
    """Red when `cached_workflows` reaches nobody."""
    with connect(store_url, cached_workflows=4) as allocations:
        workflows = [allocations.workflow("acme", f"workflow-{number}") for number in range(40)]
        for workflow in workflows:
            workflow.start("v1")
            workflow.peek("customer-17")
        reads.clear()
        for workflow in reversed(workflows):
            workflow.peek("customer-17")
        assert len(reads) >= 36
