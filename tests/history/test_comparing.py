"""What differs between two allocations."""

from hypothesis import given as for_all
from hypothesis import settings

from alloc_es.comparing import compare
from tests.core.given import commit, moved, promote, register, reject, start
from tests.core.histories import History, events_of, histories
from tests.history.given import history

DECISIONS = history(
    start(),
    register("v2", 1000),
    commit({"v2": 3000}),
    promote("v2"),
    register("v3", 500, salt="salt-2"),
)
AT = [None, *(each.event.allocation for each in DECISIONS)]


def test_versions_that_came_and_left_are_named_with_their_shares() -> None:
    """Red when a version that left is one that came, or an unchanged share is told."""
    before, after = AT[3], AT[5]
    assert before
    assert after
    found = compare(before, after)
    assert (found.before, found.after) == (before, after)
    assert (found.came, found.left) == (("v3",), ("v1",))
    assert found.shares == {"v1": (7000, 0), "v2": (3000, 9500), "v3": (0, 500)}
    backwards = compare(after, before)
    assert (backwards.came, backwards.left) == (("v1",), ("v3",))
    assert compare(before, before).shares == {}


def test_units_are_hashed_anew_where_an_episode_began_in_between() -> None:
    """Red when only the generation, or the hash version, is looked at."""
    one, two, three, five = AT[1], AT[2], AT[3], AT[5]
    assert one and two and three and five  # noqa: PT018 - they are for the type checker
    assert compare(two, three).rehashed is False
    assert compare(one, two).rehashed is True
    assert compare(three, five).rehashed is True


@settings(max_examples=100)
@for_all(histories())
def test_the_buckets_that_moved_are_all_those_with_another_owner(made: History) -> None:
    """Red when a bucket is counted for a neighbour, or not at all."""
    allocations = [event.allocation for event in events_of(made)]
    for before, after in zip(allocations, allocations[2:] or allocations, strict=False):
        found = compare(before, after)
        assert found.moved == moved(before, after)
        assert list(found.moved.values()) == sorted(found.moved.values(), reverse=True)


def test_a_replacement_moves_the_buckets_of_the_one_that_it_replaces() -> None:
    replaced = history(start(), register("v2", 1000), reject("v2", "v3"))
    before, after = (each.event.allocation for each in replaced[1:])
    assert compare(before, after).moved == {("v2", "v3"): 1000}
