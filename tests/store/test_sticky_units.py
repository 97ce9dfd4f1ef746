"""A unit stays on its arm while the arm's share does not shrink under it, through real stores."""

from collections.abc import Iterator
from itertools import count

import pytest

from alloc_es import AllocationError, Allocations, SpawnRequest, connect
from alloc_es.identity import Version

KEY = ("acme", "triage")
UNITS = [f"customer-{number}" for number in range(1_000)]

Arms = dict[str, Version]


@pytest.fixture
def allocations(store_url: str) -> Iterator[Allocations]:
    """A tournament, with a workflow that runs v1; the salts are always the same."""
    ids = (f"id-{number}" for number in count())
    with connect(store_url, max_challengers=3, new_id=lambda: next(ids)) as opened:
        opened.workflow(*KEY).start("v1")
        yield opened


def spawned(allocations: Allocations, round_: str) -> Arms:
    """The version that each unit's next run gets, which is where a peek says it goes."""
    asked = [SpawnRequest(*KEY, f"{round_} of {unit}", unit) for unit in UNITS]
    runs = allocations.spawn_runs(asked)
    arms: Arms = {}
    for run in runs:
        assert not isinstance(run, AllocationError), run
        arms[run.unit] = run.version
    workflow = allocations.workflow(*KEY)
    assert arms == {unit: workflow.peek(unit).version for unit in UNITS}
    assert len(arms) == len(UNITS)
    return arms


def on(arms: Arms, version: str) -> set[str]:
    return {unit for unit, held in arms.items() if held == version}


def test_a_ramp_of_1_5_20_50_per_cent_keeps_every_unit_of_the_challenger(
    allocations: Allocations,
) -> None:
    """Red when a growing challenger is given other buckets instead of more, or runs are routed
    by an allocation that is no longer the newest.
    """
    workflow = allocations.workflow(*KEY)
    workflow.register_challenger("v2", share_bps=100)
    challenged: set[str] = set()
    for share in (100, 500, 2_000, 5_000):
        workflow.commit_allocation({"v2": share})
        now = on(spawned(allocations, f"{share} bp"), "v2")
        assert challenged <= now
        # A binomial of 1,000 units; five standard deviations are at most 80.
        assert abs(len(now) - share / 10) < 80
        challenged = now
    assert len(challenged) > 400


def test_a_challenger_that_grows_takes_units_from_the_control_alone(
    allocations: Allocations,
) -> None:
    """Red when a growing challenger takes another's buckets, or all shares are dealt anew."""
    workflow = allocations.workflow(*KEY)
    for version in ("b", "c", "d"):
        workflow.register_challenger(version, share_bps=1_000)
    before = spawned(allocations, "first")
    workflow.commit_allocation({"b": 4_000})
    after = spawned(allocations, "second")
    moved = {(before[unit], after[unit]) for unit in UNITS if before[unit] != after[unit]}
    assert moved == {("v1", "b")}
    for version in ("b", "c", "d"):
        assert on(before, version) <= on(after, version)


def test_a_challenger_that_shrinks_gives_units_back_to_the_control_alone(
    allocations: Allocations,
) -> None:
    """Red when what a challenger gives back goes to another one."""
    workflow = allocations.workflow(*KEY)
    for version in ("b", "c", "d"):
        workflow.register_challenger(version, share_bps=2_000)
    before = spawned(allocations, "first")
    workflow.commit_allocation({"b": 500})
    after = spawned(allocations, "second")
    moved = {(before[unit], after[unit]) for unit in UNITS if before[unit] != after[unit]}
    assert moved == {("b", "v1")}


def test_a_unit_keeps_its_arm_from_run_to_run_and_a_new_episode_draws_others(
    allocations: Allocations,
) -> None:
    """Red when the run id goes into the hash beside the unit, or the salt is not renewed."""
    workflow = allocations.workflow(*KEY)
    workflow.register_challenger("v2", share_bps=5_000)
    first = spawned(allocations, "first")
    assert spawned(allocations, "second") == first
    workflow.reject_challenger("v2")
    workflow.register_challenger("v2", share_bps=5_000)
    again = spawned(allocations, "third")
    stayed = sum(first[unit] == again[unit] for unit in UNITS)
    assert 400 < stayed < 600
