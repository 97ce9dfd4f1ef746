"""A network that has gone silent, a pool that is empty, and readers that take their time."""

from collections.abc import Sequence
from contextlib import ExitStack, suppress
from threading import Barrier, Event
from typing import Any

import pytest

import alloc_es
from alloc_es import Allocations, InvalidSetting, Projection, Rows, Table
from alloc_es.drill.proxy import Proxy
from alloc_es.store import Recorded, postgres_desk
from tests.faults.conftest import SHORT
from tests.following.filling import KEY
from tests.following.tracing import NAME, PATIENCE, TRACE, Told, expected, traced, tracing
from tests.support.raw import raw

AN_HOUR = 3_600.0
pytestmark = pytest.mark.postgresql


def test_a_batch_whose_answer_never_comes_is_given_up_and_applied_once(
    postgres_url: str, proxy: Proxy, told: Told
) -> None:
    """The statement that moves the checkpoint is sent, and nothing comes back.

    Red if a batch waits for longer than the connection's timeout and a second.
    """
    with alloc_es.connect(postgres_url) as witness:
        workflow = witness.workflow(*KEY)
        workflow.start("v1")
        projections = witness.projections(TRACE)
        projections.catch_up(NAME)
        url = proxy.url_of(postgres_url)
        with (
            alloc_es.connect(url, timeout=SHORT) as client,
            client.projections(TRACE).follow(NAME, poll=0.1, tell=told),
        ):
            proxy.lose("silence", of="UPDATE projection_builds SET runs_position")
            workflow.spawn_run("run-1")
            told.await_about(f"{NAME}: waits for the store")
            projections.wait_for(NAME, timeout=PATIENCE)
            told.await_about(f"{NAME}: the store is back")
        assert proxy.lost.total() == 1
        assert traced(witness) == expected(witness)
    assert [len(told.about(word)) for word in ("waits", "is back")] == [1, 1]


def test_a_listening_connection_that_has_gone_silent_is_found_out(
    postgres_url: str, proxy: Proxy, told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would hear of nothing for ever. Red without the look that `wait` takes now and then."""
    monkeypatch.setattr(postgres_desk, "_LOOK_AFTER", 0.1)
    monkeypatch.setattr(postgres_desk, "CONNECT_TIMEOUT", 0.2)
    url = proxy.url_of(postgres_url)
    with alloc_es.connect(postgres_url) as witness:
        workflow = witness.workflow(*KEY)
        workflow.start("v1")
        with (
            alloc_es.connect(url, timeout=10) as client,
            client.projections(TRACE).follow(NAME, poll=AN_HOUR, tell=told),
        ):
            witness.projections(TRACE).wait_for(NAME, timeout=PATIENCE)
            proxy.lose("silence", of="SELECT 1")
            told.await_about("new events: waits for the store")
            workflow.spawn_run("run-1")
            witness.projections(TRACE).wait_for(NAME, timeout=PATIENCE)
            told.await_about("new events: the store is back")
    assert proxy.lost.total() == 1
    assert told.about(NAME) == []


def test_a_follower_waits_for_a_connection_when_the_application_has_them_all(
    postgres_url: str, told: Told
) -> None:
    """Red if an empty pool ends a follower."""
    with alloc_es.connect(postgres_url) as client:
        workflow = client.workflow(*KEY)
        workflow.start("v1")
        projections = client.projections(TRACE)
        projections.catch_up(NAME)
        with ExitStack() as held:
            for _ in range(10):
                held.enter_context(client._store.desk.reading())
            with projections.follow(NAME, poll=0.01, tell=told) as follower:
                told.await_about(f"{NAME}: waits for the store: ")
                held.close()
                workflow.spawn_run("run-1")
                projections.wait_for(NAME, timeout=PATIENCE)
                told.await_about(f"{NAME}: the store is back")
                assert follower.states == {NAME: "following"}
    assert "none left" in told.sentences[0]
    assert len(told.sentences) == 2


def test_no_connection_is_held_while_a_projection_works(postgres_url: str) -> None:
    """As many of them as the pool has connections leave them all to the application.

    Red if a batch keeps a connection while the projection's own code runs.
    """
    meet, on = Barrier(11, timeout=PATIENCE), Event()

    def wait() -> None:
        meet.wait()
        assert on.wait(PATIENCE)

    slow = [_named(tracing("runs", wait), number) for number in range(10)]
    with alloc_es.connect(postgres_url, timeout=PATIENCE) as client:
        workflow = client.workflow(*KEY)
        workflow.start("v1")
        workflow.spawn_run("run-1")
        projections = client.projections(*slow)
        with projections.follow(*(each.name for each in slow)):
            meet.wait()
            with ExitStack() as held:
                for _ in range(10):
                    held.enter_context(client._store.desk.reading())
            on.set()


def _named(projection: Projection, number: int) -> Projection:
    """The same under another name, with tables of its own that nothing is written to."""
    tables = tuple(
        Table(f"{table.name}_{number}", table.meaning, table.columns, table.key)
        for table in projection.tables
    )
    called = projection.apply

    def apply(events: Sequence[Recorded[Any]], rows: Rows) -> None:
        with suppress(InvalidSetting):
            called(events, rows)

    return Projection(f"slow_{number}", 1, "Slow.", projection.logs, tables, apply)


def test_a_slow_reader_slows_neither_writers_nor_followers(
    client: Allocations, postgres_url: str
) -> None:
    """It keeps a cursor on the view open, in the middle of its rows, while others go on.

    Red if a batch takes a lock on its tables that readers are in the way of.
    """
    workflow = client.workflow(*KEY)
    workflow.start("v1")
    projections = client.projections(TRACE)
    with projections.follow(NAME), raw(postgres_url) as reader:
        for number in range(5):
            workflow.spawn_run(f"before-{number}")
        projections.wait_for(NAME, timeout=PATIENCE)
        reader.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        reader.execute(f"DECLARE slow CURSOR FOR SELECT sequence FROM {NAME} ORDER BY sequence")
        assert reader.execute("FETCH 2 FROM slow") == [(1,), (2,)]
        for number in range(5):
            workflow.spawn_run(f"meanwhile-{number}")
            projections.wait_for(NAME, timeout=PATIENCE)
        assert len(traced(client)) == 10
        assert reader.execute("FETCH ALL FROM slow") == [(3,), (4,), (5,)]
        reader.execute("COMMIT")
    assert traced(client) == expected(client)
