"""A follower ends when it is asked to, whatever the store does, and leaves nothing behind."""

import os
import signal
import threading
from contextlib import closing
from threading import Event, Thread
from types import FrameType

import pytest

import alloc_es
from alloc_es import Allocations
from alloc_es.drill.proxy import Proxy
from alloc_es.following import Flag
from tests.faults.conftest import SHORT
from tests.following.backends import Backends
from tests.following.filling import KEY, Filler
from tests.following.tracing import NAME, PATIENCE, TRACE, Told, expected, tracing
from tests.store.test_forking import in_fork
from tests.support.raw import raw, until


def _threads() -> set[str]:
    kinds = (NAME, "hears", "reads ahead")
    return {t.name for t in threading.enumerate() if any(kind in t.name for kind in kinds)}


@pytest.mark.postgresql
def test_closing_leaves_no_thread_no_listener_and_no_transaction(
    client: Allocations, behind: Backends, postgres_url: str
) -> None:
    """In the middle of catching up, with a batch under way and one read ahead.

    Red if `close` does not wait for the threads, or a worker's end leaves its reader.
    """
    begun, on = Event(), Event()

    def wait() -> None:
        begun.set()
        assert on.wait(PATIENCE)

    with raw(postgres_url) as database:
        Filler(client).fill(database, 3_000)
        follower = client.projections(tracing("runs", wait)).follow(NAME)
        assert begun.wait(PATIENCE)
        until(behind.listening, "it listens")
        assert _threads() == {f"alloc-es {NAME}", "alloc-es hears", "alloc-es reads ahead_0"}
        closer = Thread(target=follower.close)
        closer.start()
        # No sooner does it apply its batch than it was told to close.
        while not follower._stop.is_set():
            pass
        on.set()
        closer.join(PATIENCE)

    assert not closer.is_alive()
    assert _threads() == set()
    while (behind.listening(), behind.in_transaction()) != ([], []):
        # A server takes a moment to see that a client has gone.
        pass
    ((_, _, _, first),) = expected(client)[:1]
    with client._store.desk.reading() as session:
        builds = session.rows("SELECT runs_position FROM projection_builds")
    assert builds == [(first + 999,)]


def test_leaving_a_with_block_by_an_error_closes(store_url: str) -> None:
    """Red if `__exit__` does not close."""
    with alloc_es.connect(store_url) as allocations:
        with pytest.raises(ZeroDivisionError), allocations.projections(TRACE).follow(NAME):
            raise _error_beside(_threads())
        assert _threads() == set()


def _error_beside(threads: set[str]) -> Exception:
    assert threads
    return ZeroDivisionError()


@pytest.mark.postgresql
def test_closing_while_the_store_is_away_ends_without_it(
    postgres_url: str, proxy: Proxy, told: Told
) -> None:
    """The store never comes back. Red if a worker goes on until it has reached the store."""
    url = proxy.url_of(postgres_url)
    with alloc_es.connect(url, timeout=SHORT) as client:
        follower = client.projections(TRACE).follow(NAME, poll=0.01, tell=told)
        client.projections(TRACE).wait_for(NAME, timeout=PATIENCE)
        proxy.refuse()
        told.await_about(f"{NAME}: waits for the store")
        told.await_about("new events: waits for the store")
        assert follower.states == {NAME: "waiting for the store"}
        closer = Thread(target=follower.close)
        closer.start()
        closer.join(PATIENCE)
        assert not closer.is_alive()
        assert len(told.sentences) == 2
    assert _threads() == set()


def test_closing_the_connection_under_a_follower_ends_it_with_a_word(
    store_url: str, told: Told
) -> None:
    """Red if a closed store counts as one that is away: it would try for ever."""
    allocations = alloc_es.connect(store_url)
    with allocations.projections(TRACE).follow(NAME, tell=told) as follower:
        allocations.projections(TRACE).wait_for(NAME, timeout=PATIENCE)
        allocations.close()
        told.await_about(f"{NAME}: ends: ")
        for thread in follower._threads:
            thread.join(PATIENCE)
        assert _threads() == set()
        assert follower.states == {NAME: "closed"}
    assert "closed" in told.sentences[0]
    assert len(told.sentences) == 1


@pytest.mark.timeout(30)
def test_a_signal_handler_may_close_while_it_is_being_closed(store_url: str) -> None:
    """A second signal comes while the first one's `close` holds the flag's lock.

    Red if the flag is an `Event` of `threading`, whose lock the same thread may not take again.
    """
    handled: list[int] = []
    with alloc_es.connect(store_url) as allocations:
        follower = allocations.projections(TRACE).follow(NAME)

        def handle(number: int, _frame: FrameType | None) -> None:
            handled.append(number)
            follower.close()

        handler = signal.signal(signal.SIGTERM, handle)
        try:
            with _inside(follower._stop):
                os.kill(os.getpid(), signal.SIGTERM)
                assert handled == [signal.SIGTERM]
        finally:
            signal.signal(signal.SIGTERM, handler)
    assert _threads() == set()


def _inside(flag: Flag) -> threading.Condition:
    found = vars(flag).get("_changed") or vars(flag)["_cond"]
    assert isinstance(found, threading.Condition)
    return found


def test_tell_may_close(store_url: str) -> None:
    """From both threads at once. Red if a thread of the follower waits for one of its own."""
    closed = Event()
    with alloc_es.connect(store_url) as allocations:

        def tell(_sentence: str) -> None:
            follower.close()
            closed.set()

        follower = allocations.projections(TRACE).follow(NAME, tell=tell)
        allocations.projections(TRACE).wait_for(NAME, timeout=PATIENCE)
        allocations.close()
        assert closed.wait(PATIENCE)
        with closing(follower):
            assert _threads() <= {f"alloc-es {NAME}", "alloc-es hears"}
        assert _threads() == set()


def test_a_child_that_was_forked_can_close_what_it_was_handed(durable_url: str) -> None:
    """Red if `close` touches there what the threads share, whose locks they may have held."""
    with alloc_es.connect(durable_url) as allocations:
        projections = allocations.projections(TRACE)
        workflow = allocations.workflow(*KEY)
        workflow.start("v1")
        with projections.follow(NAME) as follower:
            assert in_fork(lambda: _close(follower)) == ["untouched"]
            workflow.spawn_run("run-1")
            projections.wait_for(NAME, timeout=PATIENCE)


def _close(follower: alloc_es.Follower) -> list[str]:
    follower.close()
    return ["set" if follower._stop.is_set() else "untouched"]
