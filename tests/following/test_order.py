"""A follower passes over nothing that commits late, and does not stop at gaps."""

from itertools import pairwise

import pytest

import alloc_es
from alloc_es import RunSpawned
from tests.following.filling import KEY
from tests.following.tracing import NAME, PATIENCE, TRACE, expected, traced, tracing
from tests.store.test_commit_order import row_of
from tests.support.overlap import in_threads
from tests.support.raw import REFUSED, RUNS, raw, until, until_one_waits
from tests.support.recorders import before_each


@pytest.mark.postgresql
def test_an_event_that_commits_late_is_not_passed_over(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run is inserted and its transaction held open, a later one would commit first.

    Meanwhile the follower looks at the log many times, and its checkpoint stays. Red on
    PostgreSQL without the trigger `order_commits` on `run_events`: the later run commits,
    the follower goes past it, and the first one is never applied.
    """
    looks: list[str] = []
    before_each(monkeypatch, ("select_batch",), looks.append)
    with (
        alloc_es.connect(postgres_url) as allocations,
        raw(postgres_url) as writer,
        raw(postgres_url) as observer,
    ):
        workflow = allocations.workflow(*KEY)
        workflow.start("v1")
        first = workflow.spawn_run("run-1")
        projections = allocations.projections(TRACE)
        with projections.follow(NAME, poll=0.001):
            projections.wait_for(NAME, timeout=PATIENCE)
            before = traced(allocations)
            writer.execute("BEGIN")
            writer.insert(RUNS, row_of(first.model_copy(update={"run_id": "late"})))

            def commit_late() -> None:
                until_one_waits(observer, RUNS)
                enough = len(looks) + 20
                until(lambda: observer.execute("SELECT 1") and len(looks) > enough, "it looks")
                assert traced(allocations) == before
                writer.execute("COMMIT")

            outcome, watched = in_threads(lambda: workflow.spawn_run("quick"), commit_late)
            assert watched is None, watched
            assert isinstance(outcome, RunSpawned), outcome
            projections.wait_for(NAME, timeout=PATIENCE)

        order = [run.event.run_id for run in allocations.runs()]
        assert order == ["run-1", "late", "quick"]
        assert traced(allocations) == expected(allocations)


@pytest.mark.postgresql
def test_positions_that_were_burnt_do_not_stop_a_follower(postgres_url: str) -> None:
    """Decisions that lose their place, and transactions that are undone, leave gaps.

    Red if a batch ends in front of a gap.
    """
    projection = tracing("decisions")
    with alloc_es.connect(postgres_url) as allocations, raw(postgres_url) as other:
        workflow = allocations.workflow(*KEY)
        projections = allocations.projections(projection)
        with projections.follow(projection.name):
            started = workflow.start("v1").event
            assert started is not None
            for number in range(4):
                for _ in range(number + 1):
                    with pytest.raises(REFUSED):
                        other.insert("decision_events", row_of(started))
                workflow.register_challenger(f"v-{number}")
                workflow.reject_challenger(f"v-{number}")
            projections.wait_for(projection.name, timeout=PATIENCE)

        positions = [each.position for each in allocations.decisions()]
        assert max(behind - before for before, behind in pairwise(positions)) > 4
        assert traced(allocations, projection) == expected(allocations, projection)
