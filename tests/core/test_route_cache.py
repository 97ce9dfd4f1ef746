"""Routes kept in memory: bounded, the newest generation, and those that are in use."""

import sys
from collections.abc import Iterator
from functools import partial
from random import Random
from threading import Barrier
from weakref import WeakSet

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alloc_es.allotting import Route, RouteCache
from alloc_es.identity import WorkflowKey
from alloc_es.store import Recorded
from tests.core.given import register, run, start
from tests.support.overlap import in_threads

STEPS = 1_000
EVENT = run(start(), register("v2", 500))[0][-1]


class Watched(Route):
    """A route that can be seen to be gone."""

    __slots__ = ("__weakref__",)


def route(number: int, generation: int = 1, read_at: float = 0.0, known_at: float = 0.0) -> Watched:
    """A route of a workflow of its own, at a generation."""
    changed = {"workflow_id": f"workflow-{number}", "generation": generation}
    allocation = EVENT.allocation.model_copy(update=changed)
    event = EVENT.model_copy(update={"allocation": allocation})
    recorded = Recorded(1, event, f"digest {generation} of {number}")
    return Watched(recorded, read_at=read_at, known_at=known_at)


def key(number: int) -> WorkflowKey:
    return route(number).key


def generation(cache: RouteCache, number: int) -> int | None:
    found = cache.get(key(number))
    return found.generation if found else None


USES = st.lists(st.tuples(st.sampled_from(["put", "get", "replace"]), st.integers(0, 30)))


@given(st.integers(1, 12), USES)
def test_no_more_routes_are_kept_than_asked_for(capacity: int, uses: list[tuple[str, int]]) -> None:
    """Red when what is looked up, or replaced, is kept without dropping anything."""
    cache = RouteCache(capacity)
    kept: WeakSet[Watched] = WeakSet()
    for use, number in uses:
        if use == "get":
            cache.get(key(number))
        else:
            made = route(number)
            kept.add(made)
            cache.put(made) if use == "put" else cache.replace(made)
            del made
        assert len(kept) <= capacity


@given(st.integers(2, 12), st.lists(st.integers(0, 30), min_size=1))
def test_the_half_that_was_used_last_is_kept(capacity: int, numbers: list[int]) -> None:
    """Red when a full half drops what was put last, or both halves at once."""
    cache = RouteCache(capacity)
    for number in numbers:
        cache.put(route(number))
    last: list[int] = []
    for number in reversed(numbers):
        if number not in last:
            last.append(number)
    for number in last[: capacity // 2]:
        assert generation(cache, number) == 1, number


@pytest.mark.parametrize("capacity", [4, 10])
def test_a_route_that_is_used_stays_whatever_comes_and_goes(capacity: int) -> None:
    """Red when a look into the older half does not move what it finds into the younger."""
    cache = RouteCache(capacity)
    hot = route(0)
    cache.put(hot)
    for number in range(1, 20 * capacity):
        cache.put(route(number))
        assert cache.get(hot.key) is hot


def test_a_later_generation_takes_the_place_of_an_earlier_one_and_never_the_other_way() -> None:
    """Red when a thread that read before a decision puts back what it read after it."""
    cache = RouteCache(10)
    cache.put(route(0, 3))
    cache.put(route(0, 2))
    assert generation(cache, 0) == 3
    cache.put(route(0, 4))
    assert generation(cache, 0) == 4


def test_an_earlier_generation_is_not_put_before_a_later_one_that_has_grown_old() -> None:
    """Red when a route is compared with the younger half only."""
    cache = RouteCache(4)
    cache.put(route(0, 3))
    cache.put(route(1))
    cache.put(route(0, 2))
    assert generation(cache, 0) == 3


def test_an_earlier_generation_is_believed_when_it_was_read_after_the_later_one_was_known() -> None:
    """Red when the higher generation always wins: in a restored store nothing of the earlier one
    is then ever kept. And when the moment counts at which the later one was asked for.
    """
    cache = RouteCache(10)
    cache.put(route(0, 3, read_at=1.0, known_at=4.0))
    cache.put(route(0, 2, read_at=3.0, known_at=5.0))
    assert generation(cache, 0) == 3
    cache.put(route(0, 2, read_at=4.5, known_at=5.0))
    assert generation(cache, 0) == 2


def test_what_was_found_again_stays_and_is_young_again() -> None:
    """Red when the same decision, read again, costs what was prepared of it, or an older look
    makes it older.
    """
    cache = RouteCache(10)
    kept = route(0, 3, read_at=1.0, known_at=2.0)
    cache.put(kept)
    cache.put(route(0, 3, read_at=5.0, known_at=6.0))
    cache.put(route(0, 3, read_at=3.0, known_at=7.0))
    assert cache.get(kept.key) is kept
    assert (kept.read_at, kept.known_at) == (5.0, 6.0)


def test_what_was_found_under_the_fence_replaces_even_a_later_generation() -> None:
    """Red when `replace` does what `put` does: a store that was restored from a backup would
    be routed by what it no longer holds, at every spawn.
    """
    cache = RouteCache(10)
    cache.put(route(0, 3))
    cache.replace(route(0, 2))
    assert generation(cache, 0) == 2


@pytest.fixture
def hasty_threads() -> Iterator[None]:
    """Threads take turns after a few instructions, not after thousands."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(usual)


@pytest.mark.usefixtures("hasty_threads")
def test_threads_see_no_generation_fall() -> None:
    """Red when of two threads that put at the same time the later wins, not the newer.

    Nothing is dropped here: there are as many keys as a half holds.
    """
    cache = RouteCache(16)
    barrier = Barrier(4)

    def use(seed: int) -> int:
        random = Random(seed)
        barrier.wait()
        for step in range(1, STEPS):
            number = random.randrange(8)
            cache.put(route(number, step))
            found = generation(cache, number)
            assert found is not None
            assert found >= step
        return STEPS

    ended = in_threads(*(partial(use, seed) for seed in range(4)))
    assert ended == [STEPS] * 4
