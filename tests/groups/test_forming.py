"""Groups form by themselves while a group is under way, and nobody waits for one to fill."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import pytest

from alloc_es import Allocations, Patience, RunSpawned, SpawnRequest, Workflow, connect, grouping
from tests.groups.conftest import KEYS, start_all
from tests.groups.gate import Gate
from tests.support.raw import raw

_CALLERS = 64


def requests(count: int, prefix: str = "run") -> list[SpawnRequest]:
    """So many runs, of all workflows in turn."""
    return [SpawnRequest(*KEYS[n % len(KEYS)], f"{prefix}-{n}") for n in range(count)]


def test_what_arrives_while_a_group_is_under_way_makes_up_the_next(
    workflow: Workflow, allocations: Allocations, gate: Gate, pool: ThreadPoolExecutor
) -> None:
    """Red when the writer takes one run at a time."""
    barrier = Barrier(_CALLERS, timeout=60)

    def call(number: int) -> RunSpawned:
        barrier.wait()
        return workflow.spawn_run(f"run-{number}")

    with gate.closed():
        first = pool.submit(workflow.spawn_run, "first")
        gate.await_groups(1)
        calls = [pool.submit(call, number) for number in range(_CALLERS)]
        gate.await_asked(1 + _CALLERS)
    assert first.result().run_id == "first"
    runs = [each.result() for each in calls]

    assert [run.run_id for run in runs] == [f"run-{number}" for number in range(_CALLERS)]
    assert {run.replayed for run in runs} == {False}
    assert gate.sizes == [1, _CALLERS]
    counts = allocations.spawn_counts()
    assert (counts.recorded, counts.groups, counts.known) == (1 + _CALLERS, 2, 0)
    by_id = {each.event.run_id: each.event for each in allocations.runs()}
    assert [by_id[run.run_id] for run in runs] == runs


def test_runs_of_all_tenants_and_workflows_share_a_group(
    allocations: Allocations, gate: Gate, pool: ThreadPoolExecutor
) -> None:
    """Red when the writer takes the runs of one workflow at a time."""
    with gate.closed():
        first = pool.submit(allocations.workflow(*KEYS[0]).spawn_run, "first")
        gate.await_groups(1)
        others = [pool.submit(allocations.workflow(*key).spawn_run, "second") for key in KEYS[1:]]
        lists = [pool.submit(allocations.spawn_runs, requests(30, f"l{n}")) for n in range(3)]
        gate.await_asked(1 + len(others) + 90)
    assert first.result().run_id == "first"
    assert [each.result().key for each in others] == list(KEYS[1:])
    for number, each in enumerate(lists):
        outcomes = each.result()
        assert all(isinstance(outcome, RunSpawned) for outcome in outcomes)
        assert [(run.key, run.run_id) for run in outcomes if isinstance(run, RunSpawned)] == [
            ((asked.tenant_id, asked.workflow_id), asked.run_id)
            for asked in requests(30, f"l{number}")
        ]
    assert gate.sizes == [1, 92]


def test_a_lone_run_is_a_group_of_its_own_and_no_timer_runs(
    store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Red when the writer waits a fixed while for company."""

    class Untimed(grouping.Condition):  # type: ignore[misc, name-defined]
        def wait(self, timeout: float | None = None) -> Any:
            assert timeout is None, f"the writer waits {timeout} s for company"
            return super().wait(timeout)

    def refuse(seconds: float) -> None:
        raise AssertionError(f"the writer sleeps {seconds} s")

    monkeypatch.setattr(grouping, "Condition", Untimed)
    with connect(store_url, patience=Patience(60, sleep=refuse)) as allocations:
        start_all(allocations)
        gate = Gate(allocations)
        for number in range(5):
            assert allocations.workflow(*KEYS[0]).spawn_run(f"run-{number}").replayed is False
        assert gate.sizes == [1] * 5
        assert allocations.spawn_counts().groups == 5


def test_a_list_of_5_000_is_recorded_a_thousand_at_a_time(
    allocations: Allocations, gate: Gate
) -> None:
    """Red when a list goes into the line as one batch."""
    asked = requests(5_000)
    outcomes = allocations.spawn_runs(asked)
    assert gate.sizes == [1_000] * 5
    assert [getattr(run, "run_id", run) for run in outcomes] == [each.run_id for each in asked]
    assert allocations.spawn_counts()[:3] == (5_000, 0, 5)


def test_batches_that_wait_together_make_groups_of_1_000_at_most(
    allocations: Allocations, gate: Gate, pool: ThreadPoolExecutor
) -> None:
    """Red when the writer takes all that waits."""
    with gate.closed():
        first = pool.submit(allocations.workflow(*KEYS[0]).spawn_run, "first")
        gate.await_groups(1)
        lists = [pool.submit(allocations.spawn_runs, requests(700, f"l{n}")) for n in range(4)]
        single = [pool.submit(allocations.workflow(*KEYS[1]).spawn_run, f"s-{n}") for n in range(9)]
        gate.await_asked(1 + 4 * 700 + 9)
    for call in (first, *single):
        assert not call.result().replayed
    for each in lists:
        assert all(isinstance(outcome, RunSpawned) for outcome in each.result())
    assert sum(gate.sizes) == 1 + 4 * 700 + 9
    assert max(gate.sizes) <= 1_000
    assert len(gate.sizes) == 5


@pytest.mark.postgresql
def test_no_transaction_of_postgresql_holds_more_than_1_000_runs(
    postgres_url: str, pool: ThreadPoolExecutor
) -> None:
    """The server's own account of who inserted what.

    Red when a list goes into the line as one batch.
    """
    with connect(postgres_url, timeout=60) as allocations:
        start_all(allocations)
        calls = [pool.submit(allocations.spawn_runs, requests(2_500, f"l{n}")) for n in range(2)]
        for call in calls:
            assert all(isinstance(outcome, RunSpawned) for outcome in call.result())
        groups = allocations.spawn_counts().groups
    with raw(postgres_url) as database:
        sizes = [n for (n,) in database.execute("SELECT count(*) FROM run_events GROUP BY xmin")]
    assert sum(sizes) == 5_000
    assert max(sizes) <= 1_000
    assert len(sizes) == groups
