"""A fault hits a group: each of its callers learns what became of its own run."""

from contextlib import suppress
from typing import Any

import psycopg
import pytest

import alloc_es
from alloc_es import (
    Allocations,
    OutcomeUnknown,
    RunSpawned,
    SpawnRequest,
    StoreUnavailable,
)
from alloc_es.drill.link import Loss
from alloc_es.drill.proxy import RECORD_RUNS, Proxy
from tests.faults.admin import Admin, as_victim
from tests.faults.commands import KEY, commit, given
from tests.faults.conftest import SHORT
from tests.faults.crowd import RUNS, THREADS, Crowd, log_of
from tests.groups.gate import blocked
from tests.support.postgres import PostgresServer

every_loss = pytest.mark.parametrize("loss", ["reply", "request"])


def assert_recorded_by_their_callers(crowd: Crowd, log: dict[str, Any]) -> None:
    """Each caller was told of its own run as it is recorded, and that it is no replay."""
    assert set(log) == set(RUNS)
    assert crowd.told == log
    assert not any(getattr(told, "replayed", told) for told in crowd.told.values())


def assert_settled_by_asking_again(crowd: Crowd, asker: Allocations) -> None:
    """All were told "unknown"; asking again records what is missing, and nothing twice."""
    for run_id, told in crowd.told.items():
        assert isinstance(told, OutcomeUnknown), told
        assert (told.key, told.run_id, told.command_id) == (KEY, run_id, None)
    before = log_of(asker)
    again = asker.spawn_runs([SpawnRequest(*KEY, run_id) for run_id in RUNS])
    runs = {run.run_id: run for run in again if isinstance(run, RunSpawned)}
    log = log_of(asker)
    assert set(runs) == set(log) == set(RUNS)
    for run_id, run in runs.items():
        assert run.replayed is (run_id in before)
        assert log[run_id] == run.model_copy(update={"replayed": False})


@every_loss
def test_each_caller_of_a_group_whose_message_was_lost_gets_its_own_run(
    loss: Loss, store_url: str
) -> None:
    """Red when a group whose answer was lost is not sent again, or takes its runs for replays."""
    with alloc_es.connect(store_url, timeout=60) as client:
        given(client, commit)
        with Crowd(client) as crowd:
            crowd.gate.lose(loss)
            crowd.gate.lose(loss)
        assert_recorded_by_their_callers(crowd, log_of(client))
        assert crowd.gate.sizes == [1, 60, 60, 60]
        counts = client.spawn_counts()
        assert (counts.retried, counts.recorded + counts.known) == (2, 61)


@every_loss
@pytest.mark.parametrize("times", [1, 3])
def test_the_messages_of_a_group_are_lost_on_the_wire(
    loss: Loss, times: int, proxy: Proxy, client: Allocations, witness: Allocations
) -> None:
    """Red when a group whose answer was lost is not sent again, or takes its runs for replays."""
    given(witness, commit)
    with Crowd(client) as crowd:
        proxy.lose(loss, of=RECORD_RUNS, times=times)
    assert_recorded_by_their_callers(crowd, log_of(witness))
    assert (proxy.lost.total(), client.spawn_counts().retried) == (times, times)


def test_nobody_is_told_while_the_answer_to_a_commit_is_on_its_way(
    proxy: Proxy, client: Allocations, witness: Allocations
) -> None:
    """Red when callers are answered before the store is heard."""
    given(witness, commit)
    seen = []
    with Crowd(client) as crowd:

        def look() -> None:
            seen.append((len(log_of(witness)), crowd.anybody_told))

        proxy.lose("reply", of=RECORD_RUNS, meanwhile=look)
    assert seen == [(len(RUNS), False)]
    assert_recorded_by_their_callers(crowd, log_of(witness))


def test_a_decision_that_followed_before_the_reply_was_lost_makes_no_replays(
    proxy: Proxy, client: Allocations, witness: Allocations
) -> None:
    """The group is sent again under another generation, and finds itself recorded.

    Red when a run is told from another caller's by what it would be allotted now.
    """
    rival = given(witness, commit)
    with Crowd(client) as crowd:
        proxy.lose(
            "reply", of=RECORD_RUNS, meanwhile=lambda: rival.commit_allocation({"v2": 9_000})
        )
    assert proxy.lost.total() == 1
    assert_recorded_by_their_callers(crowd, log_of(witness))


def test_a_decision_that_came_while_a_request_was_lost_is_obeyed(
    proxy: Proxy, client: Allocations, witness: Allocations
) -> None:
    """Red when a group that is sent again is not verified again."""
    rival = given(witness, commit)
    with Crowd(client) as crowd:
        proxy.lose("request", of=RECORD_RUNS, meanwhile=lambda: rival.reject_challenger("v2"))
    log = log_of(witness)
    assert_recorded_by_their_callers(crowd, log)
    assert {(run.version, run.generation) for run in log.values()} == {("v1", 3)}
    assert client.spawn_counts().rerouted == len(RUNS)


def test_the_same_run_twice_in_a_list_is_one_run_and_one_replay_though_the_reply_was_lost(
    proxy: Proxy, client: Allocations, witness: Allocations
) -> None:
    """Red when a run that was never sent is taken for the one whose answer was lost."""
    given(witness, commit)
    client.workflow(*KEY).peek("unit")
    proxy.lose("reply", of=RECORD_RUNS)
    asked = [SpawnRequest(*KEY, run_id) for run_id in ("run-1", "run-1", "run-2", "run-2")]
    outcomes = client.spawn_runs(asked)
    assert proxy.lost.total() == 1
    assert [getattr(run, "replayed", run) for run in outcomes] == [False, True, False, True]
    assert len(list(witness.runs())) == 2


def test_runs_that_another_client_recorded_while_the_request_was_lost_are_replays(
    proxy: Proxy, client: Allocations, witness: Allocations
) -> None:
    """Red when whatever lies at a run's place is taken for one's own."""
    rival = given(witness, commit)

    def record_some() -> None:
        for run_id in THREADS:
            rival.spawn_run(run_id, unit="theirs")

    with Crowd(client) as crowd:
        proxy.lose("request", of=RECORD_RUNS, meanwhile=record_some)
    assert proxy.lost.total() == 1
    log = log_of(witness)
    assert set(log) == set(RUNS)
    for run_id, told in crowd.told.items():
        theirs = run_id in THREADS
        assert told == log[run_id].model_copy(update={"replayed": theirs})
        assert (log[run_id].actor == "witness") is theirs


@every_loss
def test_past_its_deadline_each_caller_of_a_group_in_doubt_is_told_what_to_ask_again(
    loss: Loss, proxy: Proxy, impatient: Allocations, witness: Allocations
) -> None:
    """Red when what is in doubt is said not to be recorded."""
    given(witness, commit)
    with Crowd(impatient, timeout=SHORT, from_try=2) as crowd:
        proxy.lose(loss, of=RECORD_RUNS, meanwhile=proxy.refuse)
    assert proxy.lost.total() == 1
    assert impatient.spawn_counts().retried > 0
    assert len(log_of(witness)) == (len(RUNS) if loss == "reply" else 0)
    assert_settled_by_asking_again(crowd, witness)


def test_what_certainly_was_not_recorded_is_said_so_to_each_caller(
    proxy: Proxy, client: Allocations, witness: Allocations
) -> None:
    """The server is gone before the group is sent, and the connection is a patient one.

    Red when one try to connect takes longer than callers wait for a group under way.
    """
    given(witness, commit)
    with Crowd(client, timeout=2, from_try=2) as crowd:
        proxy.refuse()
        notice_outage(client)
    assert [type(told) for told in crowd.told.values()] == [StoreUnavailable] * len(RUNS)
    assert all(told.retryable for told in crowd.told.values() if isinstance(told, StoreUnavailable))
    assert client.spawn_counts().retried > 0
    assert log_of(witness) == {}


def notice_outage(client: Allocations) -> None:
    """Have a client find all its connections broken, by reads that are not tried again."""
    said = ""
    while "gave no connection" not in said:
        with pytest.raises(StoreUnavailable) as caught:
            client._store.runs.recorder.max_notification_id()
        said = str(caught.value)


@every_loss
def test_a_read_that_was_lost_leaves_no_run_in_doubt(
    loss: Loss, proxy: Proxy, proxied_url: str, witness: Allocations
) -> None:
    """The writer reads the allocations that it has not in memory before it records anything.

    Red when a lost read counts as a lost record.
    """
    given(witness, commit)
    with alloc_es.connect(proxied_url, timeout=SHORT) as client:
        proxy.lose(loss, of="SELECT newest", meanwhile=proxy.refuse)
        with pytest.raises(StoreUnavailable) as caught:
            client.workflow(*KEY).spawn_run("run-1", timeout=2)
    assert proxy.lost.total() == 1
    assert type(caught.value) is StoreUnavailable
    assert list(witness.runs()) == []


def test_a_group_whose_backend_is_ended_while_it_waits_is_recorded_once(
    victim: Allocations, witness: Allocations, admin: Admin
) -> None:
    """Red when a group whose answer was lost is not sent again."""
    given(victim, commit)
    with Crowd(victim) as crowd, admin.holding("run_events"):
        crowd.go()
        for _ in range(3):
            admin.await_waiting()
            assert admin.terminate() >= 1
        admin.await_waiting()
        assert not crowd.anybody_told
    assert victim.spawn_counts().retried >= 3
    assert_recorded_by_their_callers(crowd, log_of(witness))


def test_a_group_that_lands_after_its_connection_broke_is_recognised(
    proxied_url: str, proxy: Proxy, witness: Allocations, admin: Admin
) -> None:
    """The client is gone, its statement is not: it is carried out when the lock is free.

    Red when a group whose answer was lost is not sent again.
    """
    given(witness, commit)
    with alloc_es.connect(as_victim(proxied_url), timeout=60) as client:
        with Crowd(client) as crowd:
            with admin.holding("run_events"):
                crowd.go()
                admin.await_waiting()
                proxy.refuse()
            admin.await_quiet()
            landed = log_of(witness)
            proxy.accept()
        assert client.spawn_counts().retried > 0
    assert set(landed) == set(RUNS)
    assert_recorded_by_their_callers(crowd, landed)
    assert log_of(witness) == landed


@pytest.mark.parametrize("patient", [True, False])
def test_a_server_that_crashes_under_a_group_and_comes_back_records_each_run_once(
    patient: bool,
) -> None:
    """Patient callers get their runs, the others are told what to ask again.

    Red when a group whose answer was lost is not sent again, or is said not to be recorded.
    """
    with PostgresServer() as server:
        url = f"{server.url}&schema=crash"
        with alloc_es.connect(url, timeout=60) as client:
            given(client, commit)
            waiting = Crowd(client, timeout=60) if patient else Crowd(client, timeout=1, from_try=2)
            with waiting as crowd:
                with suppress(psycopg.OperationalError), blocked(url, client):
                    crowd.go()
                    until_one_waits(server.url)
                    server.stop("immediate")
                if not patient:
                    crowd.await_all_told()
                server.start()
            assert client.spawn_counts().retried > 0
        with alloc_es.connect(url) as reopened:
            if patient:
                assert_recorded_by_their_callers(crowd, log_of(reopened))
            else:
                assert_settled_by_asking_again(crowd, reopened)


def until_one_waits(url: str) -> None:
    """Return once a statement waits for a lock; the test's own time limit ends it else."""
    waiting = "SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
    with psycopg.connect(url, autocommit=True) as connection:
        while not connection.execute(waiting).fetchall():
            connection.execute("SELECT pg_stat_clear_snapshot()")


def test_a_close_while_the_store_is_dead_tells_all_and_comes_to_an_end(
    proxy: Proxy, impatient: Allocations, witness: Allocations
) -> None:
    """The callers would wait for a minute, the connection does for half a second.

    Red when the line is tried again after the connection was closed.
    """
    given(witness, commit)
    with Crowd(impatient, timeout=60) as crowd:
        proxy.refuse()
        notice_outage(impatient)
        crowd.go()
        impatient.close()
        crowd.await_all_told()
    assert [type(told) for told in crowd.told.values()] == [StoreUnavailable] * len(RUNS)
    assert log_of(witness) == {}


def test_a_close_during_an_outage_that_ends_in_time_drains(
    proxy: Proxy, client: Allocations, witness: Allocations
) -> None:
    """Red when `close` gives up at the first failure."""
    given(witness, commit)
    with Crowd(client) as crowd:
        proxy.lose("reply", of=RECORD_RUNS, times=2)
        crowd.go()
        client.close()
    assert proxy.lost.total() == 2
    assert_recorded_by_their_callers(crowd, log_of(witness))
