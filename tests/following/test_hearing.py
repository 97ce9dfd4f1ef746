"""A follower hears of new events, hears again when it could not, and looks by itself besides."""

from threading import Event

import pytest

import alloc_es
from alloc_es import Allocations
from alloc_es.store.recorder import LogRecorder
from tests.following.backends import Backends
from tests.following.filling import KEY, Filler
from tests.following.tracing import NAME, PATIENCE, TRACE, Told, expected, traced, tracing
from tests.support.raw import raw, until
from tests.support.recorders import RECORDERS

AN_HOUR = 3_600.0


def test_a_follower_that_looks_once_an_hour_hears_of_an_event_at_once(store_url: str) -> None:
    """Red if `_listen` rings for nobody."""
    with alloc_es.connect(store_url) as allocations:
        projections = allocations.projections(TRACE)
        workflow = allocations.workflow(*KEY)
        workflow.start("v1")
        with projections.follow(NAME, poll=AN_HOUR):
            projections.wait_for(NAME, timeout=PATIENCE)
            for number in range(5):
                workflow.spawn_run(f"run-{number}")
                projections.wait_for(NAME, timeout=PATIENCE)
        assert len(traced(allocations)) == 5
        assert traced(allocations) == expected(allocations)


@pytest.mark.postgresql
def test_what_is_appended_while_nobody_listens_is_applied_when_it_listens_again(
    client: Allocations, behind: Backends
) -> None:
    """Its backend is ended, and it may not connect again before the events are there.

    Red if `_listen` does not ring behind `watch`, or ends with its first connection.
    """
    gone, on = Event(), Event()
    told = Told()

    def tell(sentence: str) -> None:
        told(sentence)
        if sentence.startswith("new events: waits"):
            gone.set()
            assert on.wait(PATIENCE)

    projections = client.projections(TRACE)
    workflow = client.workflow(*KEY)
    workflow.start("v1")
    with projections.follow(NAME, poll=AN_HOUR, tell=tell):
        workflow.spawn_run("before")
        projections.wait_for(NAME, timeout=PATIENCE)
        first = behind.listening()
        assert behind.terminate(first) == 1
        assert gone.wait(PATIENCE)
        for number in range(3):
            workflow.spawn_run(f"meanwhile-{number}")
        assert (behind.listening(), len(traced(client))) == ([], 1)
        on.set()
        projections.wait_for(NAME, timeout=PATIENCE)
        told.await_about("new events: the store is back")
        until(behind.listening, "it listens again")
        assert behind.listening() != first
        workflow.spawn_run("afterwards")
        projections.wait_for(NAME, timeout=PATIENCE)

    assert len(traced(client)) == 5
    assert traced(client) == expected(client)
    assert [sentence.partition(": ")[2][:5] for sentence in told.sentences] == ["waits", "the s"]


@pytest.mark.postgresql
def test_a_follower_that_only_looks_has_no_connection_that_listens(
    client: Allocations, behind: Backends
) -> None:
    """Red if `listen` is not heeded."""
    projections = client.projections(TRACE)
    workflow = client.workflow(*KEY)
    workflow.start("v1")
    with projections.follow(NAME, poll=0.01, listen=False):
        for number in range(3):
            workflow.spawn_run(f"run-{number}")
            projections.wait_for(NAME, timeout=PATIENCE)
        assert behind.listening() == []
        with projections.follow(NAME):
            until(behind.listening, "one that hears is seen to listen")

    assert traced(client) == expected(client)


def test_an_event_that_comes_behind_an_empty_read_ahead_is_not_missed(
    durable_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While a full batch is applied, the next is read and is empty; then an event comes.

    Its hint is gone by the time that the batch is done. Red if `_next` takes the empty batch
    for the end of the log.
    """
    empty, appended = Event(), Event()
    for recorder in RECORDERS:
        _watch(monkeypatch, recorder, empty)

    def wait() -> None:
        assert not started.is_set() or appended.wait(PATIENCE)

    started = Event()
    projection = tracing("runs", wait)
    with alloc_es.connect(durable_url) as allocations, raw(durable_url) as database:
        filler = Filler(allocations)
        projections = allocations.projections(projection)
        projections.catch_up(NAME)
        filler.fill(database, 1_000)
        empty.clear()
        started.set()
        with projections.follow(NAME, poll=AN_HOUR, listen=False):
            assert empty.wait(PATIENCE)
            filler.fill(database, 1)
            appended.set()
            projections.wait_for(NAME, timeout=PATIENCE)
        assert len(traced(allocations)) == 1_002
        assert traced(allocations) == expected(allocations)


def _watch(monkeypatch: pytest.MonkeyPatch, recorder: type[LogRecorder], empty: Event) -> None:
    genuine = recorder.select_batch

    def select_batch(self: LogRecorder, after: int, up_to: int, limit: int) -> object:
        found = genuine(self, after, up_to, limit)
        if not found:
            empty.set()
        return found

    monkeypatch.setattr(recorder, "select_batch", select_batch)
