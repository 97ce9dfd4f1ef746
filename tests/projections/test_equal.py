"""Rebuild == catch-up == live == a fresh fold, row for row."""

from collections import Counter
from collections.abc import Callable
from functools import partial
from itertools import count
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from alloc_es import Allocations, Projections
from tests.projections.disturbing import Killed, batches
from tests.projections.reading import folded, model
from tests.projections.writing import Writer

# An example appends to the same logs, so each is larger than the one before.
EXAMPLES = 3


def check(allocations: Allocations) -> None:
    """Demand that each read model is what the plainest fold of the logs makes of them."""
    for projection in allocations.projections().known.values():
        assert model(allocations, projection) == folded(allocations, projection)


def again_and_again(
    allocations: Allocations, call: Callable[[Projections], None], seen: Counter[str]
) -> None:
    """Do something to read models, each time with new hands where the last ones were killed."""
    while True:
        try:
            call(allocations.projections())
            return
        except Killed:
            seen["killed"] += 1


def rebuild(name: str, models: Projections) -> None:
    models.rebuild(name)


def test_live_and_caught_up_and_rebuilt_and_folded_models_are_the_same(
    allocations: Allocations,
) -> None:
    """Red when rows depend on where a batch ends, or rows and checkpoint are written apart."""
    seen: Counter[str] = Counter()
    numbers = count(1)

    @settings(max_examples=EXAMPLES)
    @given(st.randoms(use_true_random=True))
    def holds(random: Random) -> None:
        writer = Writer(allocations, random, next(numbers))
        names = list(allocations.projections().known)
        with batches(random), allocations.projections().follow() as follower:
            writer.write(40)
            for name in names:
                allocations.projections().wait_for(name, timeout=60)
            assert set(follower.states.values()) <= {"following", "building"}
        check(allocations)

        writer.write(40)
        with batches(random, killed=0.3) as kills:
            again_and_again(allocations, lambda models: models.catch_up(), seen)
        check(allocations)

        with batches(random, killed=0.1) as more:
            for name in names:
                again_and_again(allocations, partial(rebuild, name), seen)
                writer.write(3)
            again_and_again(allocations, lambda models: models.catch_up(), seen)
        check(allocations)
        seen.update([*kills, *more])

    holds()
    for name in allocations.projections().known:
        assert allocations.projections().verify(name).difference is None
    assert min(seen["in the midst"], seen["behind"]) >= EXAMPLES
    assert seen["killed"] == seen["in the midst"] + seen["behind"]
    decided = Counter(type(entry.event).__name__ for entry in allocations.decisions())
    assert min(decided.values()) >= EXAMPLES
