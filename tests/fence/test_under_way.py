"""A run and a decision that are under way at the same time: one waits for the other."""

from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import Any

import pytest

from alloc_es import Allocations, RunSpawned, connect
from alloc_es.codec import POSITION, encode
from alloc_es.recording import Recording
from alloc_es.rules import findings
from alloc_es.store.memory import MemoryRecorder
from alloc_es.store.recorder import Reroute, RunGroup
from alloc_es.store.sqlite_datastore import Datastore
from tests.fence.holding import (
    KEY,
    PROMOTION,
    V2,
    WAYS,
    Spawn,
    contested,
    held_up,
    leave_under_way,
    next_decision,
    one_run,
    waits_at_fence,
)
from tests.support.overlap import in_threads
from tests.support.raw import DECISIONS, RUNS, raw, until, until_one_waits

# How the decision's transaction ends; the generation and the re-routed runs that make of it.
ENDS = [("COMMIT", 3, 1), ("ROLLBACK", 2, 0)]


@pytest.mark.postgresql
@pytest.mark.parametrize("spawn", WAYS)
@pytest.mark.parametrize(("end", "generation", "rerouted"), ENDS)
def test_a_run_waits_for_a_decision_under_way_and_is_of_its_generation(
    postgres_url: str, spawn: Spawn, end: str, generation: int, rerouted: int
) -> None:
    """Red on PostgreSQL when the generation is not looked at as the run is recorded, when the
    look comes before the lock, and when there is no lock: the run is then of generation 2.
    """
    with (
        connect(postgres_url) as allocations,
        raw(postgres_url) as other,
        raw(postgres_url) as observer,
    ):
        workflow = contested(allocations)
        leave_under_way(other, DECISIONS, next_decision(workflow.newest(), PROMOTION))
        run, waited = held_up(
            lambda: spawn(allocations, "run-1", "unit-1"),
            lambda: waits_at_fence(observer, "ShareLock"),
            lambda: other.execute(end),
        )
        assert waited
        require_recorded(allocations, run, generation)
        assert allocations.spawn_counts().rerouted == rerouted


@pytest.mark.sqlite
@pytest.mark.parametrize("spawn", WAYS)
@pytest.mark.parametrize(("end", "generation", "rerouted"), ENDS)
def test_a_run_waits_for_a_decision_under_way_on_sqlite_too(
    sqlite_url: str,
    spawn: Spawn,
    end: str,
    generation: int,
    rerouted: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Red on SQLite when the generation is not looked at as the run is recorded, and when the
    look comes before BEGIN IMMEDIATE.

    SQLite has no list of who waits. The other transaction ends when the run's is about to
    begin: what was looked at before that is out of date, whoever is faster now.
    """
    with connect(sqlite_url) as allocations, raw(sqlite_url) as other:
        workflow = contested(allocations)
        begins = note_beginning(monkeypatch)
        leave_under_way(other, DECISIONS, next_decision(workflow.newest(), PROMOTION))
        run, waited = held_up(
            lambda: spawn(allocations, "run-1", "unit-1"),
            lambda: begins.wait(1),
            lambda: other.execute(end),
        )
        assert waited
        require_recorded(allocations, run, generation)
        assert allocations.spawn_counts().rerouted == rerouted


@pytest.mark.memory
@pytest.mark.parametrize("spawn", WAYS)
def test_a_run_is_of_the_generation_that_came_just_before_it_was_recorded_in_memory(
    spawn: Spawn, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Red when the store in memory does not look at the generation as it records the run."""
    with connect("memory:") as allocations:
        workflow = contested(allocations)
        genuine = MemoryRecorder.insert_runs

        def insert_runs(self: MemoryRecorder, group: RunGroup, reroute: Reroute) -> int:
            workflow.promote_challenger(V2)
            return genuine(self, group, reroute)

        monkeypatch.setattr(MemoryRecorder, "insert_runs", insert_runs)
        run = spawn(allocations, "run-1", "unit-1")
        require_recorded(allocations, run, 3)
        assert allocations.spawn_counts().rerouted == 1


@pytest.mark.memory
def test_nobody_decides_between_the_look_and_the_run_in_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Red when the store in memory gives up its lock before the run is recorded."""
    free: list[bool | Exception] = []
    genuine = MemoryRecorder.insert_events

    def insert_events(self: MemoryRecorder, *arguments: Any) -> Any:
        free.extend(in_threads(lambda: self._database_lock.acquire(blocking=False)))
        return genuine(self, *arguments)

    with connect("memory:") as allocations:
        workflow = contested(allocations)
        monkeypatch.setattr(MemoryRecorder, "insert_events", insert_events)
        one_run(allocations, "run-1", "unit-1")
        assert free == [False]
        monkeypatch.undo()
        workflow.promote_challenger(V2)


@pytest.mark.postgresql
def test_a_decision_waits_for_a_run_under_way_and_comes_behind_it(postgres_url: str) -> None:
    """Red on PostgreSQL without the trigger `close_fence`: the decision's call then returns
    while a run of the generation before is yet to be recorded.
    """
    with (
        connect(postgres_url) as deciding,
        raw(postgres_url) as spawning,
        raw(postgres_url) as observer,
    ):
        workflow = contested(deciding)
        (first,) = [each.event for each in deciding.runs()]
        held = workflow.newest()
        run = first.model_copy(update={"run_id": "run-1", "decision_position": None})
        spawning.execute("BEGIN")
        spawning.execute(
            "SELECT record_runs(?, ?, ?, ?)",
            run.originator_id,
            encode(run)[1].decode().replace(":null", f":{POSITION}"),
            held.event.originator_id,
            held.digest,
        )
        _, waited = held_up(
            lambda: workflow.promote_challenger(V2),
            lambda: waits_at_fence(observer, "ExclusiveLock"),
            lambda: spawning.execute("COMMIT"),
        )
        assert waited
        recorded = [each.event for each in deciding.runs()][-1]
        assert (recorded.run_id, recorded.generation) == ("run-1", 2)
        assert recorded.decision_position == held.position < workflow.newest().position


@pytest.mark.postgresql
def test_a_decision_does_not_wait_for_a_group_that_waits_for_its_turn(postgres_url: str) -> None:
    """Red on PostgreSQL when a group takes the fence before its turn in the run log."""
    with (
        connect(postgres_url) as allocations,
        connect(postgres_url, timeout=2) as deciding,
        raw(postgres_url) as other,
        raw(postgres_url) as observer,
        ThreadPoolExecutor(1) as pool,
    ):
        contested(allocations)
        (first,) = [each.event for each in allocations.runs()]
        leave_under_way(other, RUNS, first.model_copy(update={"run_id": "other"}))
        spawned = pool.submit(one_run, allocations, "run-1", "unit-1")
        until_one_waits(observer, RUNS)
        try:
            promoted = deciding.workflow(*KEY).promote_challenger(V2)
        finally:
            other.execute("COMMIT")
        assert (promoted.generation, spawned.result().generation) == (3, 3)


@pytest.mark.postgresql
def test_a_decision_waits_for_a_group_that_is_being_routed_again(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Red on PostgreSQL when a stale group is routed again without the fence: the decision
    then comes in between a second time.
    """
    with (
        connect(postgres_url) as allocations,
        connect(postgres_url) as deciding,
        raw(postgres_url) as observer,
        ThreadPoolExecutor(1) as pool,
    ):
        contested(allocations)
        workflow = deciding.workflow(*KEY)
        genuine = Recording._reroute
        waited = []

        def reroute(self: Recording, *arguments: Any) -> RunGroup:
            decided = pool.submit(workflow.promote_challenger, V2)
            until(
                lambda: decided.done() or waits_at_fence(observer, "ExclusiveLock"),
                "the decision waits",
            )
            waited.append(not decided.done())
            return genuine(self, *arguments)

        monkeypatch.setattr(Recording, "_reroute", reroute)
        workflow.commit_allocation({V2: 5_000})
        run = one_run(allocations, "run-1", "unit-1")
        assert (waited, run.generation, run.decision_position) == ([True], 3, 3)
        assert one_run(deciding, "run-2", "unit-1").generation == 4


@pytest.mark.postgresql
def test_a_spawner_that_is_stopped_inside_of_the_fence_keeps_decisions_out_for_a_moment_only(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Red when the server waits for a stopped client as long as for any transaction: the
    decision then fails. The run is recorded once the client goes on.
    """
    with (
        connect(postgres_url, timeout=60) as allocations,
        connect(postgres_url, timeout=20) as deciding,
        ThreadPoolExecutor(1) as pool,
    ):
        contested(allocations)
        genuine = Recording._reroute
        is_inside, goes_on = Event(), Event()

        def reroute(self: Recording, *arguments: Any) -> RunGroup:
            is_inside.set()
            assert goes_on.wait(60)
            return genuine(self, *arguments)

        monkeypatch.setattr(Recording, "_reroute", reroute)
        deciding.workflow(*KEY).commit_allocation({V2: 5_000})
        spawned = pool.submit(one_run, allocations, "run-1", "unit-1")
        assert is_inside.wait(60)
        try:
            promoted = deciding.workflow(*KEY).promote_challenger(V2)
        finally:
            goes_on.set()
        assert spawned.result().generation == promoted.generation == 4
        assert [each.event.run_id for each in allocations.runs()] == ["first", "run-1"]


def require_recorded(allocations: Allocations, run: RunSpawned, generation: int) -> None:
    """It is the last run of the log, of a generation, verified at the end of the decisions."""
    assert run == [each.event for each in allocations.runs()][-1]
    assert (run.generation, run.decision_position) == (generation, allocations.position())
    assert list(findings(allocations.decisions(), allocations.runs())) == []


def note_beginning(monkeypatch: pytest.MonkeyPatch) -> Event:
    """Set when somebody is about to begin a transaction that writes to SQLite."""
    begins = Event()
    genuine = Datastore.transaction

    def transaction(self: Datastore, *, commit: bool) -> Any:
        if commit:
            begins.set()
        return genuine(self, commit=commit)

    monkeypatch.setattr(Datastore, "transaction", transaction)
    return begins
