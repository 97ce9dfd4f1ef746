"""A follower comes back by itself, with everything applied once and in order."""

import alloc_es
from alloc_es import StoreUnavailable
from alloc_es.following import Trouble
from tests.faults.commands import commit, given
from tests.faults.conftest import SHORT
from tests.faults.test_broken_connections import Writers
from tests.faults.test_spawners_and_crashes import Spawners
from tests.following.tracing import PATIENCE, Told, expected, traced, tracing
from tests.support.postgres import PostgresServer

_RUNS = tracing("runs")
_DECISIONS = tracing("decisions")
_CRASHES = 2


def test_a_follower_comes_back_after_crashes_of_a_busy_server(told: Told) -> None:
    """Spawners spawn and schedulers decide all the while; rows are committed without waiting
    for the disk, so a crash undoes some of them together with their checkpoint.

    Red if the rows are written in another transaction than their checkpoint, or a store that
    is away ends a follower.
    """
    with PostgresServer() as server:
        url = f"{server.url}&schema=crash"
        with alloc_es.connect(url, timeout=SHORT) as client:
            projections = client.projections(_RUNS, _DECISIONS)
            given(client, commit)
            with projections.follow(tell=told):
                _crash(server, client, told)
                with alloc_es.connect(url) as patient:
                    awaited = patient.projections(_RUNS, _DECISIONS)
                    for each in (_RUNS, _DECISIONS):
                        awaited.wait_for(each.name, timeout=PATIENCE)
                        assert traced(patient, each) == expected(patient, each)
                    runs = traced(patient, _RUNS)

    assert len(runs) > _CRASHES * 100
    assert told.about("stopped") == told.about("ended") == []


def _crash(server: PostgresServer, client: alloc_es.Allocations, told: Told) -> None:
    spawners = Spawners(client)
    writers = Writers(client, 2)
    try:
        for crash in range(1, _CRASHES + 1):
            spawners.await_recorded(100)
            writers.await_commits(5)
            server.restart("immediate")
            told.await_about("new events: waits for the store", crash)
            told.await_about("new events: the store is back", crash)
            told.await_about("trace_runs: the store is back", crash)
        spawners.await_recorded(100)
    finally:
        writers.stop()
        spawners.stop()


def test_a_follower_never_pauses_for_longer_than_2_seconds_and_says_so_once(told: Told) -> None:
    """Red if the pauses go on doubling, do not begin anew, or each try is told."""
    trouble = Trouble("runs", told)
    away = StoreUnavailable("away")
    pauses = [trouble.met(away) for _ in range(2_000)]
    trouble.over()
    trouble.over()

    assert pauses[0] == trouble.met(away) < pauses[1] < pauses[2]
    assert max(pauses) == pauses[-1] == 2.0
    assert told.sentences == [
        "runs: waits for the store: away",
        "runs: the store is back",
        "runs: waits for the store: away",
    ]
