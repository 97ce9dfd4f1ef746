"""From the instant a decision's call returns, no run is recorded by what held before."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from alloc_es import SpawnRequest, UnknownWorkflow, Workflow, connect
from tests.fence.holding import KEY, V2, WAYS, Spawn, contested, unit_of_v2
from tests.fence.traffic import recorded
from tests.support.raw import DECISIONS, raw

Decide = Callable[[Workflow], object]

# What takes v2's runs away from it, or leaves them there as another arm's.
DECISIONS_ON_V2: list[tuple[Decide, str, str]] = [
    (lambda w: w.reject_challenger(V2), "v1", "control"),
    (lambda w: w.reject_challenger(V2, replacement="v3"), "v3", "challenger"),
    (lambda w: w.commit_allocation({V2: 0}), "v1", "control"),
    (lambda w: w.promote_challenger(V2), "v2", "control"),
    (lambda w: [w.promote_challenger(V2), w.roll_back()], "v1", "control"),
]
NAMES = ["rejected", "replaced", "share of 0", "promoted", "promoted and rolled back"]


@pytest.mark.parametrize("spawn", WAYS)
@pytest.mark.parametrize(("decide", "version", "arm"), DECISIONS_ON_V2, ids=NAMES)
def test_a_run_follows_a_decision_that_another_connection_has_made(
    durable_url: str, spawn: Spawn, decide: Decide, version: str, arm: str
) -> None:
    """Red when runs are recorded by the route that is kept: the one here is of before."""
    with connect(durable_url) as deciding, connect(durable_url) as spawning:
        workflow = contested(deciding)
        unit = unit_of_v2(workflow)
        before = spawn(spawning, "before", unit)
        decide(workflow)
        after = spawn(spawning, "after", unit)
        newest = workflow.newest()
        assert (before.version, before.arm, before.generation) == ("v2", "challenger", 2)
        assert (after.version, after.arm, after.generation) == (version, arm, newest.generation)
        assert after.decision_position == newest.position
        assert spawning.spawn_counts().rerouted == 1
        assert spawn(spawning, "later", unit).generation == newest.generation
        assert spawning.spawn_counts().rerouted == 1


def test_a_run_carries_the_end_of_the_decision_log_whatever_was_decided_on(
    store_url: str,
) -> None:
    """Red when the position is that of the run's own allocation: then a run that begins after
    a decision elsewhere seems to have been recorded before it.
    """
    with connect(store_url) as allocations:
        workflow = contested(allocations)
        for number in range(3):
            other = allocations.workflow("beta", f"workflow-{number}")
            other.start("w1")
            run = workflow.spawn_run(f"run-{number}")
            assert run.generation == 2
            assert run.decision_position == other.newest().position == allocations.position()
        assert allocations.spawn_counts().rerouted == 0


def test_of_1000_workflows_in_a_group_only_those_decided_on_are_routed_again(
    durable_url: str,
) -> None:
    """Red when one stale workflow has the whole group routed again, or counted so."""
    names = [f"workflow-{number:03}" for number in range(1_000)]
    with connect(durable_url) as deciding, connect(durable_url) as spawning:
        for name in names:
            deciding.workflow("acme", name).start("v1")
        recorded(spawning, [SpawnRequest("acme", name, f"{name} before") for name in names])
        decided = set(names[7::40])
        for name in decided:
            deciding.workflow("acme", name).register_challenger(V2)
        runs = recorded(spawning, [SpawnRequest("acme", name, f"{name} after") for name in names])
        assert [run.workflow_id for run in runs] == names
        assert [run.generation for run in runs] == [1 + (name in decided) for name in names]
        assert {run.decision_position for run in runs} == {deciding.position()}
        counts = spawning.spawn_counts()
        assert (counts.recorded, counts.groups, counts.rerouted) == (2_000, 2, len(decided))


@pytest.mark.parametrize("spawn", WAYS)
def test_a_store_restored_to_an_earlier_generation_is_believed(
    durable_url: str, spawn: Spawn, tmp_path: Path
) -> None:
    """Red when what is kept in memory wins because its generation is the higher one, and when
    it is kept and found wrong at every run.
    """
    with connect(durable_url) as deciding, connect(durable_url) as spawning:
        workflow = contested(deciding)
        unit = unit_of_v2(workflow)
        with restored_afterwards(durable_url, tmp_path):
            workflow.promote_challenger(V2)
            workflow.register_challenger("v3", 9_999)
            assert spawn(spawning, "lost", unit).generation == 4
        run = spawn(spawning, "run-1", unit)
        assert (run.generation, run.version, run.arm) == (2, "v2", "challenger")
        assert run.decision_position == deciding.position() == workflow.newest().position
        assert spawn(spawning, "run-1 again", unit).generation == 2
        assert spawning.spawn_counts().rerouted == 1
        assert deciding.workflow(*KEY).reject_challenger(V2).generation == 3
        after = spawn(spawning, "run-2", unit)
        assert (after.generation, after.version, after.arm) == (3, "v1", "control")


@contextmanager
def restored_afterwards(url: str, directory: Path) -> Iterator[None]:
    """Leave the store as it was before, with connections to it open."""
    if url.startswith("sqlite"):
        copy = directory / "copy.db"
        copy_database(Path(url.removeprefix("sqlite:///")), copy)
        yield
        copy_database(copy, Path(url.removeprefix("sqlite:///")))
        return
    with raw(url) as database:
        ((end,),) = database.execute(f"SELECT coalesce(max(notification_id), 0) FROM {DECISIONS}")
        yield
        database.execute(f"ALTER TABLE {DECISIONS} DISABLE TRIGGER USER")
        database.execute(f"DELETE FROM {DECISIONS} WHERE notification_id > ?", end)
        database.execute(f"ALTER TABLE {DECISIONS} ENABLE TRIGGER USER")


def copy_database(source: Path, target: Path) -> None:
    """Copy a SQLite database into another, which may be in use."""
    with closing(sqlite3.connect(source)) as one, closing(sqlite3.connect(target)) as other:
        one.backup(other)


@pytest.mark.parametrize("spawn", WAYS)
def test_another_decision_at_the_same_generation_and_position_is_believed(
    durable_url: str, spawn: Spawn, tmp_path: Path
) -> None:
    """Red when the fence compares generations, or positions, which a restored store gives anew."""
    with connect(durable_url) as deciding, connect(durable_url) as spawning:
        workflow = contested(deciding)
        unit = unit_of_v2(workflow)
        with restored_afterwards(durable_url, tmp_path):
            workflow.promote_challenger(V2)
            assert spawn(spawning, "lost", unit).version == V2
        if durable_url.startswith("postgresql"):
            with raw(durable_url) as database:
                database.execute(f"ALTER TABLE {DECISIONS} ALTER notification_id RESTART WITH 3")
        workflow.reject_challenger(V2)
        assert (workflow.newest().generation, workflow.newest().position) == (3, 3)
        run = spawn(spawning, "run-1", unit)
        assert (run.generation, run.version, run.arm) == (3, "v1", "control")
        assert spawning.spawn_counts().rerouted == 1


def test_a_store_that_lost_all_its_decisions_knows_no_workflow(
    durable_url: str, tmp_path: Path
) -> None:
    """Red when a group of which nothing is left is asked for its position."""
    with connect(durable_url) as deciding, connect(durable_url) as spawning:
        with restored_afterwards(durable_url, tmp_path):
            contested(deciding)
            recorded(spawning, [SpawnRequest(*KEY, "kept")])
        outcomes = spawning.spawn_runs(
            [SpawnRequest(*KEY, run_id) for run_id in ("run-1", "run-1", "run-2")]
        )
        assert [type(outcome) for outcome in outcomes] == [UnknownWorkflow] * 3
