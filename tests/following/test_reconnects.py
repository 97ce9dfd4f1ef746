"""Tens of thousands of events, while the follower's backends are ended again and again."""

from threading import Thread

import pytest

import alloc_es
from tests.faults.admin import as_victim
from tests.following.backends import Backends, backends
from tests.following.filling import Filler
from tests.following.tracing import NAME, TRACE, Told, expected, traced
from tests.support.effort import effort
from tests.support.raw import Raw, raw, until

_RECONNECTS = 50
_EVENTS = effort(5_000, soak=100_000)


@pytest.mark.postgresql
@pytest.mark.timeout(900)
def test_nothing_is_missed_doubled_or_out_of_order_across_50_reconnects(
    postgres_url: str, told: Told
) -> None:
    """The backend that listens is ended 50 times, and one in the middle of a batch 50 times.

    Red if the rows are written in another transaction than their checkpoint.
    """
    with (
        alloc_es.connect(as_victim(postgres_url), timeout=60) as client,
        alloc_es.connect(postgres_url, timeout=60) as witness,
        raw(postgres_url) as database,
        backends(postgres_url) as behind,
        backends(postgres_url) as also_behind,
    ):
        filler = Filler(witness)
        projections = client.projections(TRACE)
        projections.catch_up(NAME)
        with projections.follow(NAME, tell=told):
            deaf = Thread(target=_end_listeners, args=(also_behind, told))
            deaf.start()
            for _ in range(_RECONNECTS):
                filler.fill(database, _EVENTS // _RECONNECTS)
                _end_a_batch(behind, filler, database)
            deaf.join()
            witness.projections(TRACE).wait_for(NAME, timeout=600)

        assert len(traced(witness)) > _EVENTS
        assert traced(witness) == expected(witness)

    assert told.about("stopped") == told.about("ended") == []
    assert len(told.about(f"{NAME}: the store is back")) > 0
    assert len(told.about("new events: the store is back")) >= _RECONNECTS


def _end_listeners(behind: Backends, told: Told) -> None:
    for reconnects in range(1, _RECONNECTS + 1):
        while not behind.terminate(behind.listening()):
            pass
        told.await_about("new events: the store is back", reconnects)


def _end_a_batch(behind: Backends, filler: Filler, database: Raw) -> None:
    """End a backend in mid-work, and return when there is progress again.

    Where all is applied before that, there is more to do.
    """
    before = _reached(database)
    while not behind.terminate(behind.working()):
        filler.fill(database, 1)
    until(lambda: _reached(database) > before, "it goes on")


def _reached(database: Raw) -> int:
    ((position,),) = database.execute("SELECT runs_position FROM projection_builds")
    return int(position)
