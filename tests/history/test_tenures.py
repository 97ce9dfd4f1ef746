"""Which versions served, as what, from when to when, and how that ended."""

from typing import Any

from hypothesis import given as for_all
from hypothesis import settings

import alloc_es
from alloc_es.identity import Version
from alloc_es.tenures import Tenure, runs_served, tenures
from tests.core.given import commit, promote, register, reject, roll_back, start
from tests.core.histories import History, events_of, histories
from tests.history.given import history, recorded

WHOLE = history(
    start("v1"),
    register("v2", 500),
    commit({"v2": 2000}),
    promote("v2"),
    register("v3"),
    reject("v3"),
    register("v4"),
    reject("v4", "v5"),
    roll_back(drop=("v5",)),
)


def told(tenure: Tenure) -> tuple[Any, ...]:
    ended = tenure.ended.generation if tenure.ended else None
    return (tenure.version, tenure.role, tenure.began.generation, ended, tenure.outcome)


def test_each_service_of_a_version_is_a_tenure_with_its_ends_and_its_outcome() -> None:
    """Red when an outcome is taken for another one, or a tenure ends with its last share."""
    assert [told(tenure) for tenure in tenures(WHOLE)] == [
        ("v1", "current", 1, 4, "superseded"),
        ("v2", "challenger", 2, 4, "promoted"),
        ("v2", "current", 4, 9, "rolled back"),
        ("v3", "challenger", 5, 6, "rejected"),
        ("v4", "challenger", 7, 8, "replaced"),
        ("v5", "challenger", 8, 9, "dropped"),
        ("v1", "current", 9, None, None),
    ]


def test_a_tenure_has_the_generations_at_which_its_share_changed() -> None:
    """Red when each generation is a change, or the first share is left out."""
    shares = {(each.version, each.role): each.shares for each in tenures(WHOLE)[:4]}
    assert shares == {
        ("v1", "current"): ((1, 10_000), (2, 9_500), (3, 8_000)),
        ("v2", "challenger"): ((2, 500), (3, 2_000)),
        ("v2", "current"): ((4, 10_000), (5, 9_500), (6, 10_000), (7, 9_500)),
        ("v3", "challenger"): ((5, 500),),
    }


@settings(max_examples=100)
@for_all(histories())
def test_the_tenures_of_a_generation_are_its_arms(made: History) -> None:
    """Red when a tenure begins late, ends early, or covers the generation that ended it."""
    decisions = recorded(events_of(made))
    found = tenures(decisions)
    for each in decisions:
        serving = [tenure for tenure in found if tenure.covers(each.generation)]
        arms = {
            (arm.version, "current" if arm.name == "control" else "challenger")
            for arm in each.event.allocation.arms
        }
        assert {(tenure.version, tenure.role) for tenure in serving} == arms
        assert len(serving) == len(arms)


@settings(max_examples=50)
@for_all(histories())
def test_the_read_model_says_the_same(made: History) -> None:
    """Red when the tenures of the log and those of `decision_history` part."""
    decisions = recorded(events_of(made))
    rows = read_model(made)
    assert rows == {told(tenure) for tenure in tenures(decisions)}


def read_model(made: History) -> set[tuple[Any, ...]]:
    """The tenures that `decision_history` has of a history, in the form of `told`."""
    with alloc_es.connect("memory:") as allocations:
        for event in events_of(made):
            allocations._ledger.decisions.append(event)
        projections = allocations.projections()
        projections.catch_up("decision_history")
        rows = projections.rows("tenures_closed") + projections.rows("tenures_open")
    names = ("version", "role", "since_generation", "until_generation", "outcome")
    return {tuple(row.get(name) for name in names) for row in rows}


def test_runs_are_counted_for_the_tenure_of_their_generation() -> None:
    """Red when the runs of both tenures of a version are given to one, or lost ones are hidden."""
    found = tenures(WHOLE)
    runs = {("v1", 1): 5, ("v1", 3): 2, ("v2", 3): 4, ("v2", 4): 8, ("v1", 9): 1, ("v9", 2): 3}
    counts = {(Version(version), generation): n for (version, generation), n in runs.items()}
    assert runs_served(found, counts) == ([7, 4, 8, 0, 0, 0, 1], 3)
