"""6. Kill -9 a scheduler in mid-decision: what it decided is there whole or not at all."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from signal import SIGKILL

import pytest

from alloc_es import ChallengerAlreadyLive, Workflow, connect
from tests.acceptance import victims
from tests.support.children import start_child
from tests.support.raw import DECISIONS, RUNS, raw, until, until_one_waits

VICTIM = "alloc-es-victim"
POINTS = [victims.BEFORE_DECIDING, victims.DECIDED, "in the transaction", victims.COMMITTED]
IS_THERE = {victims.BEFORE_DECIDING: False, victims.DECIDED: False, victims.COMMITTED: True}


@pytest.mark.parametrize("point", POINTS)
def test_the_same_command_id_settles_what_a_killed_scheduler_had_begun(
    durable_url: str, point: str
) -> None:
    """Red when SQLite commits a row before its transaction ends, or `_commit` does not look
    for the first outcome of a command id.
    """
    with killed(durable_url, point, victims.decide, DECISIONS) as workflow:
        was_there = is_whole(workflow, point)
        settled = workflow.register_challenger("v2", command_id="c-1")
        assert (settled.generation, settled.replayed) == (2, was_there)
        assert settled.event is not None
        assert settled.event.actor == ("victim" if was_there else "survivor")
        assert workflow.commit_allocation({"v2": 900}, expected_generation=2).generation == 3
        assert [each.generation for each in workflow.history()] == [1, 2, 3]


@pytest.mark.parametrize("point", POINTS)
def test_the_next_command_works_beside_what_a_killed_scheduler_had_begun(
    durable_url: str, point: str
) -> None:
    """Red when SQLite commits a row before its transaction ends."""
    with killed(durable_url, point, victims.decide, DECISIONS) as workflow:
        if is_whole(workflow, point):
            with pytest.raises(ChallengerAlreadyLive) as refused:
                workflow.register_challenger("v3")
            assert refused.value.incumbent == "v2"
            assert workflow.promote_challenger("v2").generation == 3
        else:
            assert workflow.register_challenger("v3", expected_generation=1).generation == 2
            with pytest.raises(ChallengerAlreadyLive) as refused:
                workflow.register_challenger("v2", command_id="c-1")
            assert refused.value.incumbent == "v3"


@pytest.mark.parametrize("point", POINTS[1:])
def test_the_same_run_id_settles_what_a_killed_spawner_had_begun(
    durable_url: str, point: str
) -> None:
    """Red when what is found at a run's place is not returned, or SQLite commits row by row."""
    with killed(durable_url, point, victims.spawn, RUNS) as workflow:
        found = workflow.find_run("run-1")
        assert (found is not None) == IS_THERE.get(point, found is not None)
        run = workflow.spawn_run("run-1", unit="another")
        assert run.replayed == (found is not None)
        assert run.unit == ("unit-1" if found else "another")
        assert workflow.allocation().generation == 1


def is_whole(workflow: Workflow, point: str) -> bool:
    """Whether the victim's event is there: all of it, or nothing, and as the point says.

    In the transaction PostgreSQL may go either way: its backend outlives the client and
    has all that it needs to go on.
    """
    history = workflow.history()
    assert [each.generation for each in history] in ([1], [1, 2])
    assert workflow.allocation() == history[-1].event.allocation
    there = len(history) == 2
    if there:
        event = history[1].event
        assert (event.command_id, event.actor, event.version) == ("c-1", "victim", "v2")
        assert event.allocation.split == {"v1": 9_500, "v2": 500}
    assert there == IS_THERE.get(point, there)
    return there


@contextmanager
def killed(url: str, point: str, victim: Callable[..., None], table: str) -> Iterator[Workflow]:
    """A survivor's handle on the workflow, after a scheduler was killed at the point."""
    with connect(url, actor="survivor", timeout=30) as allocations:
        workflow = allocations.workflow("acme", "triage")
        workflow.start("v1")
        if point != "in the transaction":
            kill_at(url, point, victim)
        elif url.startswith("sqlite"):
            kill_at(url, victims.INSERTED, victim)
            assert len(workflow.history()) == 1
        else:
            kill_while_it_waits(url, victim, table)
        yield workflow


def kill_at(url: str, point: str, victim: Callable[..., None]) -> None:
    child, pipe = start_child(victim, url, point)
    assert pipe.recv() == point
    child.kill()
    child.join()
    assert child.exitcode == -SIGKILL


def kill_while_it_waits(url: str, victim: Callable[..., None], table: str) -> None:
    """Kill a scheduler whose INSERT waits, inside its transaction, for another's commit."""
    with raw(url) as holder, raw(url) as observer:
        holder.execute("BEGIN")
        lock = "SELECT pg_advisory_xact_lock(1634496355, ?::regclass::integer)"
        holder.execute(lock, table)
        child, pipe = start_child(victim, f"{url}&application_name={VICTIM}", victims.SENT)
        assert pipe.recv() == victims.SENT
        until_one_waits(observer, table)
        child.kill()
        child.join()
        assert child.exitcode == -SIGKILL
        assert len(observer.rows(DECISIONS)) == 1
        assert observer.rows(RUNS) == []
        holder.execute("COMMIT")
        backends = "SELECT 1 FROM pg_stat_activity WHERE application_name = ?"
        until(lambda: not observer.execute(backends, VICTIM), "the victim's backend is gone")
