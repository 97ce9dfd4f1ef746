"""4 processes spawn at full speed while hundreds of decisions are made on their workflows."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest

from alloc_es import Allocations, DecisionEvent, Recorded, RunSpawned, SpawnCounts, connect
from alloc_es.rules import findings
from tests.fence import traffic
from tests.fence.traffic import KEYS, Report
from tests.support.children import run_together
from tests.support.effort import effort

Decisions = Sequence[Recorded[DecisionEvent]]
Runs = Sequence[Recorded[RunSpawned]]

DECISIONS = effort(160, soak=500)
SPAWNERS = [f"spawner-{number}" for number in range(4)]


@pytest.fixture
def prepared_url(durable_url: str) -> str:
    """The URL of a store in which every workflow of the race has its first version."""
    with connect(durable_url) as allocations:
        start_all(allocations)
    return durable_url


def test_every_run_is_of_the_generation_that_was_the_newest_as_it_was_recorded(
    prepared_url: str,
) -> None:
    """Red when a store does not look at the generation again as it records, and when
    PostgreSQL takes no lock for the look, or takes it after the look.
    """
    acted, *reports = race(prepared_url)
    with connect(prepared_url, migrate=False) as allocations:
        decisions, runs = list(allocations.decisions()), list(allocations.runs())
    require_what_was_promised(acted, reports, decisions, runs)


@pytest.mark.memory
def test_the_same_holds_in_memory_for_the_threads_of_a_process() -> None:
    """Red when the store in memory does not look at the generation again as it records."""
    board = traffic.new_board()
    with connect("memory:") as allocations, ThreadPoolExecutor(2) as pool:
        start_all(allocations)
        scheduled = pool.submit(traffic.decide_all, allocations, board, DECISIONS)
        report = pool.submit(traffic.spawn_all, allocations, board, "spawner").result()
        decisions, runs = list(allocations.decisions()), list(allocations.runs())
    require_what_was_promised(scheduled.result(), [report], decisions, runs)


def start_all(allocations: Allocations) -> None:
    """Give every workflow of the race its first version."""
    for key in KEYS:
        allocations.workflow(*key).start(traffic.CURRENT)


def require_what_was_promised(
    acted: int, reports: Sequence[Report], decisions: Decisions, runs: Runs
) -> None:
    """Every decision was made and every run is right, by the logs alone; and it was a race."""
    assert acted == DECISIONS
    assert len(decisions) == len(KEYS) + DECISIONS
    require_a_race(reports, runs)
    require_answers_to_be_what_the_log_holds(reports, runs)
    assert list(findings(decisions, runs, beginnings(reports, decisions))) == []


def race(url: str) -> list[Any]:
    """What the scheduler tells, then each process of spawners."""
    board = traffic.new_board()
    parts: list[tuple[Any, ...]] = [(traffic.schedule, url, board, DECISIONS)]
    parts += [(traffic.spawn, url, board, name) for name in SPAWNERS]
    return run_together(traffic.play, parts)


def require_a_race(reports: Sequence[Report], runs: Runs) -> None:
    """Fail unless decisions overtook runs, in every process and nearly all the time."""
    rerouted = [report.counts.rerouted for report in reports]
    assert all(rerouted), f"no decision came before a run that was on its way: {rerouted}"
    verified_at = {each.event.decision_position for each in runs}
    assert 2 * len(verified_at) > DECISIONS, f"runs were recorded at {len(verified_at)} positions"


@pytest.mark.parametrize(
    ("rerouted", "positions", "complaint"),
    [
        ([9, 9, 0, 9], DECISIONS, "no decision came before a run"),
        ([9, 9, 9, 9], DECISIONS // 2, f"{DECISIONS // 2} positions"),
    ],
)
def test_spawners_and_a_scheduler_one_behind_the_other_are_no_race(
    rerouted: list[int], positions: int, complaint: str
) -> None:
    """Red when `require_a_race` believes a race in which nobody met."""
    reports = [Report([], SpawnCounts(9, 0, 9, each, 0)) for each in rerouted]
    with connect("memory:") as allocations:
        workflow = allocations.workflow(*KEYS[0])
        workflow.start(traffic.CURRENT)
        workflow.spawn_run("run-1")
        (run,) = allocations.runs()
    moved = [run.event.model_copy(update={"decision_position": each}) for each in range(positions)]
    with pytest.raises(AssertionError, match=complaint):
        require_a_race(reports, [replace(run, event=each) for each in moved])


def require_answers_to_be_what_the_log_holds(reports: Sequence[Report], runs: Runs) -> None:
    """Every acknowledged run is in the log once, as it was told, and no other run is."""
    held = {each.event.originator_id: each.event for each in runs}
    told = [each.run for report in reports for each in report.told]
    differing = [
        run
        for run in told
        if run.model_copy(update={"replayed": False}) != held.get(run.originator_id)
    ]
    assert differing == []
    assert {run.originator_id for run in told} == held.keys()
    assert sum(not run.replayed for run in told) == len(runs)
    assert sum(report.counts.recorded for report in reports) == len(runs)


def beginnings(reports: Sequence[Report], decisions: Decisions) -> dict[str, int]:
    """Behind which position each run's call began, by the stream; not of those found recorded.

    There is one scheduler, so its calls returned in the order of their positions.
    """
    positions = [0, *(each.position for each in decisions[len(KEYS) :])]
    return {
        each.run.originator_id: positions[each.returned]
        for report in reports
        for each in report.told
        if not each.run.replayed
    }
