"""The server ends connections, restarts, or makes callers wait for a lock."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

import alloc_es
from alloc_es import Allocations, Committed, OutcomeUnknown, StoreUnavailable, Workflow
from alloc_es.drill.proxy import Proxy
from tests.faults.admin import Admin, as_victim
from tests.faults.commands import KEY, commit, given, history, register, reject
from tests.faults.conftest import SHORT
from tests.support.postgres import PostgresServer


def test_a_client_whose_backends_were_ended_between_commands_goes_on(
    victim: Allocations, admin: Admin
) -> None:
    """Red when `append` or `insist` gives up at the first lost connection."""
    workflow = given(victim, commit)
    committed = []
    for share in (100, 200, 300):
        assert admin.terminate() >= 1
        committed.append(workflow.commit_allocation({"v2": share}).event)
        assert admin.terminate() >= 1
        assert workflow.allocation().challenger_arms[0].share_bps == share
        assert admin.terminate() >= 1
        workflow.spawn_run(f"run-{share}")

    assert history(victim)[2:] == committed
    assert [run.event.run_id for run in victim.runs()] == ["run-100", "run-200", "run-300"]


def test_a_server_that_takes_no_writes_is_told_at_once_and_served_again_without_a_restart(
    victim: Allocations, admin: Admin
) -> None:
    """Red when a refused write is retried to the end of the timeout, or ends the client."""
    workflow = given(victim, commit)
    with admin.read_only():
        for refused in (commit, lambda each: each.spawn_run("run-1", timeout=60)):
            with pytest.raises(StoreUnavailable, match="read-only") as error:
                refused(workflow)
            assert not error.value.retryable
        assert workflow.allocation().generation == 2
    assert (commit(workflow).generation, workflow.spawn_run("run-1").generation) == (3, 3)
    assert [run.event.run_id for run in victim.runs()] == ["run-1"]


def test_a_client_whose_backend_was_ended_while_its_insert_waited_commits_once(
    victim: Allocations, witness: Allocations, admin: Admin
) -> None:
    """Red when `append` does not send again."""
    workflow = given(victim, commit)
    with ThreadPoolExecutor() as pool:
        with admin.holding("decision_events"):
            committing = pool.submit(commit, workflow)
            for _ in range(3):
                admin.await_waiting()
                assert admin.terminate() >= 1
            admin.await_waiting()
        committed = committing.result()

    assert (committed.attempts, committed.replayed) == (1, False)
    assert history(witness)[2:] == [committed.event]


def test_an_insert_that_lands_after_its_connection_broke_is_recognised(
    proxied_url: str, proxy: Proxy, witness: Allocations, admin: Admin
) -> None:
    """The client is gone, its statement is not: it is carried out when the lock is free.

    Red when `append` does not send again.
    """
    given(witness, reject)
    with (
        alloc_es.connect(as_victim(proxied_url), timeout=60) as client,
        ThreadPoolExecutor() as pool,
    ):
        with admin.holding("decision_events"):
            rejecting = pool.submit(reject, client.workflow(*KEY))
            admin.await_waiting()
            proxy.refuse()
        admin.await_quiet()
        landed = history(witness)[2:]
        proxy.accept()
        committed = rejecting.result()

    assert landed == [committed.event]
    assert history(witness)[2:] == landed
    assert committed.replayed is False


@pytest.mark.parametrize("table", ["decision_events", "run_events"])
def test_a_wait_for_the_lock_beyond_the_timeout_is_unavailable_and_lands_never(
    table: str, impatient_victim: Allocations, witness: Allocations, admin: Admin
) -> None:
    """The server cancelled the statement and said so: nothing is in doubt.

    Red when the settings leave out the statement timeout (it hangs), or `mapped` reports
    a cancelled statement as `AnswerLost`; for the run, also when a group is tried again after
    its caller's deadline.
    """
    given(witness, commit)
    before = history(witness)
    workflow = impatient_victim.workflow(*KEY)
    calls: dict[str, Callable[[Workflow], object]] = {
        "decision_events": commit,
        "run_events": lambda waiting: waiting.spawn_run("run-1", timeout=2),
    }

    with admin.holding(table), pytest.raises(StoreUnavailable) as caught:
        calls[table](workflow)

    assert type(caught.value) is StoreUnavailable
    assert caught.value.retryable
    admin.await_quiet()
    assert (history(witness), list(witness.runs())) == (before, [])
    assert commit(workflow).generation == 3
    assert workflow.spawn_run("run-1", timeout=30).generation == 3


def test_every_call_during_an_outage_tries_to_connect(
    proxy: Proxy, proxied_url: str, witness: Allocations
) -> None:
    """So the first call after the outage finds the server, however long it was away.

    Red without the pool's `reconnect_timeout`: it would wait up to two minutes by itself.
    """
    given(witness, register)
    calls = 12
    with alloc_es.connect(proxied_url, timeout=0.1) as client:
        proxy.hang_up()
        for _ in range(calls):
            with pytest.raises(StoreUnavailable):
                client.workflow(*KEY).allocation()

    assert proxy.hung_up >= calls


class Writers:
    """Threads that commit and spawn through one client until they are told to stop."""

    def __init__(self, client: Allocations, count: int) -> None:
        self.acknowledged: list[Committed] = []
        self.unknown: list[OutcomeUnknown] = []
        self.runs: list[str] = []
        self._workflows = [client.workflow("acme", f"workflow-{n}") for n in range(count)]
        for workflow in self._workflows:
            workflow.start("v1")
            workflow.register_challenger("v2", 1)
        self._stop = threading.Event()
        self._progress = threading.Condition()
        self._pool = ThreadPoolExecutor(count)
        self._futures = [self._pool.submit(self._work, each) for each in self._workflows]

    def stop(self) -> None:
        self._stop.set()
        self._pool.shutdown()
        for future in self._futures:
            future.result()

    def await_commits(self, more: int) -> None:
        """Return once so many more commits were acknowledged."""
        with self._progress:
            wanted = len(self.acknowledged) + more
            assert self._progress.wait_for(lambda: len(self.acknowledged) >= wanted, timeout=60)

    def _work(self, workflow: Workflow) -> None:
        share = 1
        while not self._stop.is_set():
            share = share % 9_000 + 1
            try:
                committed = workflow.commit_allocation({"v2": share})
                with self._progress:
                    self.acknowledged.append(committed)
                    self._progress.notify_all()
                run_id = f"run-{committed.generation} of {workflow.key}"
                self.runs.append(workflow.spawn_run(run_id).run_id)
            except OutcomeUnknown as error:
                self.unknown.append(error)
            except StoreUnavailable:
                pass


def test_nothing_acknowledged_is_lost_when_the_server_crashes_in_mid_use() -> None:
    """Clients go on by themselves when it is back; who was told "done" finds it done.

    Red when `append` takes an answer that was lost for "done".
    """
    with PostgresServer() as server:
        url = f"{server.url}&schema=crash"
        with alloc_es.connect(url, timeout=SHORT) as client:
            writers = Writers(client, 4)
            try:
                for _ in range(2):
                    writers.await_commits(20)
                    server.restart("immediate")
                writers.await_commits(20)
            finally:
                writers.stop()
        with alloc_es.connect(url) as reopened:
            recorded = [each.event for each in reopened.decisions()]
            runs = [each.event.run_id for each in reopened.runs()]

    stored = {(event.key, event.generation): event for event in recorded}
    assert len(stored) == len(recorded)
    for committed in writers.acknowledged:
        assert committed.event is not None
        assert stored[committed.event.key, committed.generation] == committed.event
    assert len(set(runs)) == len(runs)
    assert set(writers.runs) <= set(runs)
    for key in {event.key for event in recorded}:
        generations = [event.generation for event in recorded if event.key == key]
        assert generations == list(range(1, len(generations) + 1))
    told = {committed.event.command_id for committed in writers.acknowledged if committed.event}
    unknown = {error.command_id for error in writers.unknown}
    assert {event.command_id for event in recorded if event.generation > 2} <= told | unknown
