"""Units are counted once in an episode, where they were seen first, also in parts of a log."""

from itertools import count
from pickle import dumps, loads
from random import Random
from typing import Any

import pytest

from alloc_es import DecisionEvent, Recorded, RunSpawned, WorkflowKey, connect
from alloc_es.rules import Timeline
from alloc_es.sample_ratio import Epoch, sample_ratio
from alloc_es.unit_counts import UnitCounts
from tests.rules.given import KEY, edited

Runs = list[Recorded[RunSpawned]]


def logs(act: Any, most: int = 1) -> tuple[Timeline, Runs]:
    """The logs of a workflow that was started with v1 and acted upon; salts always the same."""
    ids = map("id-{}".format, count())
    with connect("memory:", max_challengers=most, new_id=lambda: next(ids)) as allocations:
        workflow = allocations.workflow(*KEY)
        workflow.start("v1")
        act(workflow)
        decisions: list[Recorded[DecisionEvent]] = list(allocations.decisions())
        return Timeline(decisions), list(allocations.runs())


def counted(runs: Runs) -> UnitCounts:
    counts = UnitCounts()
    for each in runs:
        counts.add(each.event)
    return counts


def observed(timeline: Timeline, counts: UnitCounts) -> dict[int, dict[str, int]]:
    """The units of each generation that has any."""
    (epochs,) = counts.epochs(timeline).values()
    return {each.generation: dict(each.observed) for each in epochs if each.observed}


def units_on(workflow: Any, version: str, many: int) -> list[str]:
    """Units that go to a version now."""
    units = (f"unit-{number}" for number in range(100_000))
    found = (unit for unit in units if workflow.peek(unit).version == version)
    return [next(found) for _ in range(many)]


def two_episodes(workflow: Any) -> None:
    """Three units, in two generations of one episode, and one of them in the next episode."""
    workflow.register_challenger("v2", 5_000)
    one, other = units_on(workflow, "v2", 2)
    (third,) = units_on(workflow, "v1", 1)
    for number, unit in enumerate([one, one, third]):
        workflow.spawn_run(f"a{number}", unit=unit)
    workflow.commit_allocation({"v2": 6_000})
    for number, unit in enumerate([one, third, other]):
        workflow.spawn_run(f"b{number}", unit=unit)
    workflow.reject_challenger("v2")
    workflow.register_challenger("v3", 5_000)
    (again,) = {workflow.spawn_run("c0", unit=one).version}
    assert again in {"v1", "v3"}


def test_a_unit_counts_once_in_an_episode_where_it_was_seen_first() -> None:
    """Red when runs are counted, or a unit is forgotten, or remembered into the next episode."""
    timeline, runs = logs(two_episodes)
    found = observed(timeline, counted(runs))
    assert found.pop(5) in ({"v1": 1}, {"v3": 1})
    assert found == {2: {"v1": 1, "v2": 1}, 3: {"v2": 1}}


def test_a_run_without_a_unit_of_its_own_counts_as_one() -> None:
    """Red when only units that were named are counted."""
    timeline, runs = logs(lambda workflow: [workflow.spawn_run(f"run-{n}") for n in range(7)])
    assert observed(timeline, counted(runs)) == {1: {"v1": 7}}


def test_two_workflows_may_have_the_same_unit() -> None:
    """Red when a unit is remembered without its workflow or its tenant."""
    with connect("memory:") as allocations:
        for tenant, name in [("acme", "triage"), ("acme", "other"), ("beta", "triage")]:
            workflow = allocations.workflow(tenant, name)
            workflow.start("v1")
            workflow.spawn_run(f"{name}-1", unit="customer-1")
        counts = counted(list(allocations.runs()))
        epochs = counts.epochs(Timeline(allocations.decisions()))
    assert [[dict(each.observed) for each in found] for found in epochs.values()] == [
        [{"v1": 1}]
    ] * 3


@pytest.mark.parametrize("seed", range(3))
def test_parts_that_other_processes_counted_make_the_count_of_the_whole(seed: int) -> None:
    """Red when a unit that is in two parts counts twice, or where it was seen last."""
    random = Random(seed)

    def act(workflow: Any) -> None:
        workflow.register_challenger("v2", 3_000)
        for number in range(120):
            workflow.spawn_run(f"run-{number}", unit=random.choice([None, f"u{number % 17}"]))
            if number % 40 == 20:
                workflow.commit_allocation({"v2": 3_000 + 50 * number})

    timeline, runs = logs(act)
    borders = sorted(random.sample(range(1, 119), 3))
    parts = [runs[a:b] for a, b in zip([0, *borders], [*borders, None], strict=True)]
    whole = UnitCounts()
    for part in parts:
        later = loads(dumps(counted(part)))
        before = observed(timeline, later)
        whole.merge(later)
        assert observed(timeline, later) == before
    assert observed(timeline, whole) == observed(timeline, counted(runs))


def test_a_unit_that_moved_between_parts_stays_where_it_was_first() -> None:
    """Red when `merge` keeps the later part's place of a unit."""
    timeline, runs = logs(two_episodes)
    whole = counted(runs[:3])
    whole.merge(counted(runs[3:6]))
    whole.merge(counted(runs[3:6]))
    found = observed(timeline, whole)
    assert {g: {v: n for v, n in arms.items() if n} for g, arms in found.items()} == {
        2: {"v1": 1, "v2": 1},
        3: {"v2": 1},
    }


def test_the_epochs_are_all_generations_with_the_arms_that_have_a_share() -> None:
    """Red when a generation without runs is left out, or an arm without units or without share."""

    def act(workflow: Any) -> None:
        workflow.register_challenger("v2", 500)
        workflow.register_challenger("v3", 0)
        workflow.spawn_run("run-1", unit=units_on(workflow, "v1", 1)[0])

    timeline, runs = logs(act, most=2)
    assert counted(runs).epochs(timeline) == {
        WorkflowKey(*KEY): [  # type: ignore[arg-type]
            Epoch(0, 1, {"v1": 10_000}, {}),
            Epoch(1, 2, {"v1": 9_500, "v2": 500}, {}),
            Epoch(1, 3, {"v1": 9_500, "v2": 500}, {"v1": 1}),
        ]
    }
    assert UnitCounts().epochs(timeline).keys() == {KEY}


def test_a_run_of_a_generation_that_never_was_is_left_to_other_rules() -> None:
    """Red when such a run ends the audit."""
    timeline, runs = logs(lambda workflow: workflow.spawn_run("run-1"))
    assert observed(timeline, counted(edited(runs, 0, generation=9))) == {}


def test_a_log_of_thousands_of_units_over_changed_shares_is_as_expected() -> None:
    """Red when runs of units that stick are compared with shares that came after them."""

    def act(workflow: Any) -> None:
        workflow.register_challenger("v2", 500)
        for share in (500, 2_000, 5_000):
            workflow.commit_allocation({"v2": share})
            for number in range(300):
                workflow.spawn_run(f"{share}-{number}", unit=f"{number % 200}")
                workflow.spawn_run(f"own-{share}-{number}")

    timeline, runs = logs(act)
    (epochs,) = counted(runs).epochs(timeline).values()
    ratio = sample_ratio(epochs)
    assert (ratio.verdict, ratio.units) == ("as expected", 200 + 3 * 300)
    assert ratio.p_value > 0.001
