"""Waiting for triggers, and what ends it: a close, a closed connection, Ctrl-C, a bad event."""

import signal
from collections.abc import Callable
from threading import Event, Thread, main_thread
from typing import Any

import pytest

from alloc_es import Allocations, StoreUnavailable, Trigger, UnreadableEvent, connect
from alloc_es.bell import Bell, Ring
from alloc_es.drill.proxy import Proxy
from alloc_es.store.log import Batch
from tests.store.test_forking import in_fork
from tests.support.overlap import in_threads
from tests.triggers.workers import HOUR, Office, deliveries, positions, reject

# Where what is waited for never comes, it is told soon.
pytestmark = pytest.mark.timeout(30)

SECONDS = 60


def test_threads_that_wait_get_what_comes(
    allocations: Allocations, office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No poll comes to help: each of two threads hears of one of two rejections.

    Red when nobody listens, or a ring is lost on a thread that is about to wait.
    """
    monkeypatch.setattr("alloc_es.triggers.POLL", HOUR)
    worker = office.hire(follow=True)
    waiting = waiters(monkeypatch, 2)

    def reject_when_they_wait() -> list[int]:
        assert waiting.wait(SECONDS)
        return reject(allocations, "v2", "v3")

    *taken, expected = in_threads(
        lambda: next(worker).position, lambda: next(worker).position, reject_when_they_wait
    )
    assert sorted(taken) == expected  # type: ignore[type-var]


def test_what_rings_while_one_looks_is_heard() -> None:
    """Red when a bell is waited for as it is then, and not as it was before the look."""
    bell = Bell()
    before = bell.coming()
    bell.ring()
    bell.wait(before, HOUR)
    assert bell.coming() is not before


def test_a_look_by_the_poll_finds_what_nobody_rang_for(
    allocations: Allocations, office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Red when a worker waits for a ring alone."""
    monkeypatch.setattr("alloc_es.triggers.POLL", 0.01)
    worker = office.hire(follow=True)
    monkeypatch.setattr(worker._bell, "ring", lambda: None)
    waiting = waiters(monkeypatch, 1)

    def reject_when_it_waits() -> int:
        assert waiting.wait(SECONDS)
        return reject(allocations, "v2")[0]

    taken, expected = in_threads(lambda: next(worker).position, reject_when_it_waits)
    assert taken == expected


def test_a_close_ends_a_thread_that_waits(
    allocations: Allocations, office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Red when `close` does not ring, or a closed worker takes more."""
    monkeypatch.setattr("alloc_es.triggers.POLL", HOUR)
    worker = office.hire(follow=True)
    waiting = waiters(monkeypatch, 1)

    def close_when_it_waits() -> list[Trigger]:
        assert waiting.wait(SECONDS)
        worker.close()
        return []

    found, _ = in_threads(lambda: list(worker), close_when_it_waits)
    assert found == []
    reject(allocations, "v2")
    assert list(worker) == []
    worker.close()


def test_a_connection_that_is_closed_under_a_worker_ends_it_in_words(
    store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Red when a worker does not look whether its connection is open, or its threads go on."""
    monkeypatch.setattr("alloc_es.triggers.POLL", 0.01)
    with connect(store_url) as allocations:
        worker = allocations.triggers("loop", lease=0.02)
        reject(allocations, "v2")
        trigger = next(worker)
        waiting = waiters(monkeypatch, 1)

        def close_when_it_waits() -> Trigger:
            assert waiting.wait(SECONDS)
            allocations.close()
            return trigger

        ended, _ = in_threads(lambda: next(worker), close_when_it_waits)
    for error in (ended, said(lambda: worker.acknowledge(trigger)), said(lambda: next(worker))):
        assert isinstance(error, StoreUnavailable)
        assert (str(error).endswith("was closed"), error.retryable) == (True, False)
    for thread in worker._threads:
        thread.join(SECONDS)
        assert not thread.is_alive()
    worker.close()


def test_a_child_of_a_fork_takes_and_gives_back_nothing(
    allocations: Allocations, office: Office
) -> None:
    """Red when a worker does not compare processes."""
    first, second = reject(allocations, "v2", "v3")
    worker = office.hire()
    trigger = next(worker)

    def try_everything() -> list[str]:
        calls: list[Callable[[], object]] = [
            lambda: next(worker),
            lambda: worker.acknowledge(trigger),
            lambda: worker.release(trigger),
        ]
        refusals = [str(said(call)) for call in calls]
        worker.close()
        return refusals

    report = in_fork(try_everything)
    assert len(report) == 3
    assert all("before a fork; call connect()" in refusal for refusal in report)
    assert deliveries(allocations) == [(first, 1, 1, 0), (second, 0, 0, 0)]
    worker.acknowledge(trigger)
    assert next(worker).position == second


def test_ctrl_c_ends_a_wait_and_nothing_is_lost(
    allocations: Allocations, office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Red when a wait can't be interrupted, or what was held is not given back.

    Python itself may miss a signal that comes in front of a wait, until the wait is over.
    """
    monkeypatch.setattr("alloc_es.triggers.POLL", 0.2)
    (position,) = reject(allocations, "v2")
    waiting = waiters(monkeypatch, 1)

    def strike() -> None:
        assert waiting.wait(SECONDS)
        assert main_thread().ident is not None
        signal.pthread_kill(main_thread().ident or 0, signal.SIGINT)

    striker = Thread(target=strike)
    striker.start()
    with allocations.triggers("loop", lease=HOUR) as worker:
        assert next(worker).position == position
        with pytest.raises(KeyboardInterrupt):
            next(worker)
    striker.join()
    assert deliveries(allocations) == [(position, 1, 0, 0)]
    assert [(each.position, each.attempt) for each in office.hire()] == [(position, 2)]


def test_what_lies_before_an_unreadable_decision_is_delivered(
    allocations: Allocations, office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Red when a scan that fails keeps back what it has entered, or the failure is not told."""
    *readable, bad = reject(allocations, "v2", "v3", "v4")
    genuine = allocations._store.decisions.batch

    def batch(after: int) -> Batch[Any]:
        found = genuine(after)
        events = [entry for entry in found.events if entry.position < bad]
        read_to = events[-1].position if events else after
        return Batch(events, read_to, bad, UnreadableEvent("stream", 1, "Rejected", "not JSON"))

    monkeypatch.setattr(allocations._store.decisions, "batch", batch)
    worker = office.hire()
    assert positions([next(worker), next(worker)]) == readable
    for _ in range(2):
        with pytest.raises(UnreadableEvent):
            next(worker)
    monkeypatch.undo()
    assert positions(worker) == [bad]


def test_a_follower_waits_for_a_store_that_is_away_and_says_so(
    proxy: Proxy, impatient: Allocations, witness: Allocations
) -> None:
    """Red when a follower ends with the store, or is silent about it."""
    away, back = Event(), Event()

    def tell(sentence: str) -> None:
        if sentence.startswith("triggers of loop: waits for the store: "):
            away.set()
        elif sentence == "triggers of loop: the store is back":
            back.set()

    def restore() -> int:
        proxy.refuse()
        assert away.wait(SECONDS)
        proxy.accept()
        return reject(witness, "v2")[0]

    with impatient.triggers("loop", lease=HOUR, tell=tell) as worker:
        taken, expected = in_threads(lambda: next(worker).position, restore)
        assert taken == expected
        assert back.wait(SECONDS)


def said(call: Callable[[], object]) -> object:
    """The error that a call ends with, or what it returns."""
    try:
        return call()
    except StoreUnavailable as error:
        return error


def waiters(monkeypatch: pytest.MonkeyPatch, number: int) -> Event:
    """Set when so many threads have looked in vain and are about to wait."""
    enough = Event()
    places = iter(range(1, number))
    genuine = Bell.wait

    def wait(self: Bell, coming: Ring, seconds: float) -> None:
        if next(places, None) is None:
            enough.set()
        genuine(self, coming, seconds)

    monkeypatch.setattr(Bell, "wait", wait)
    return enough
