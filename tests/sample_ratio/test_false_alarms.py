"""However often it is read, it rings falsely as seldom as it says; and it does ring."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alloc_es.sample_ratio import Epoch, capital, sample_ratio
from tests.sample_ratio.given import at_95_5

HISTORIES = st.dictionaries(st.integers(1, 9_999), st.integers(1, 10**6), min_size=1, max_size=4)


@settings(max_examples=200)
@given(HISTORIES, st.floats(0, 1), st.integers(1, 9_999))
def test_the_capital_after_the_next_unit_is_on_average_what_it_was(
    units: dict[int, int], luck: float, share: int
) -> None:
    """Red when a bet wins more than it may lose, under any share of the next unit."""
    observed = round(luck * sum(units.values()))
    more = units | {share: units.get(share, 0) + 1}
    before = capital(observed, units)
    on_it = math.exp(capital(observed + 1, more) - before) * share
    beside = math.exp(capital(observed, more) - before) * (10_000 - share)
    assert (on_it + beside) / 10_000 == pytest.approx(1, rel=1e-6)


def test_the_capital_begins_with_one() -> None:
    """Red when the grid of bets is summed and not averaged."""
    assert capital(0, {}) == pytest.approx(0, abs=1e-12)


def epochs_of(units: int, observed: int, share: int, before: tuple[Epoch, ...]) -> list[Epoch]:
    shares = {"v1": 10_000 - share, "v9": share}
    return [*before, Epoch(9, 90, shares, {"v1": units - observed, "v9": observed})]


def chance_of_an_alarm(
    share: int, most: int, alpha: float, before: tuple[Epoch, ...] = ()
) -> float:
    """Exactly how probable it is that a test which is read after each of `most` units rings.

    The counts that ring are those up to `low` and those from `high` on, which both rise.
    """

    def rings(units: int, observed: int) -> bool:
        ratio = sample_ratio(epochs_of(units, observed, share, before), alpha=alpha)
        return ratio.versions[-1].verdict == "alarm"

    chances = np.zeros(most + 2)
    chances[0] = 1.0
    low, high, rung = -1, 1, 0.0
    for units in range(1, most + 1):
        moved = np.roll(chances, 1) * share / 10_000
        chances = chances * (10_000 - share) / 10_000 + moved
        while rings(units, low + 1) and (low + 1) * 10_000 < units * share:
            low += 1
        while high <= units and not rings(units, high):
            high += 1
        rung += chances[: low + 1].sum() + chances[high:].sum()
        chances[: low + 1] = chances[high:] = 0.0
    assert low >= 0
    assert rung + chances.sum() == pytest.approx(1)
    return rung


@pytest.mark.parametrize(("share", "alpha"), [(500, 0.1), (5_000, 0.1), (500, 0.01)])
def test_it_rings_falsely_in_no_more_than_alpha_of_all_histories_read_after_every_unit(
    share: int, alpha: float
) -> None:
    """Red when a p-value of one moment decides, or the bets' parts sum to more than one."""
    chance = chance_of_an_alarm(share, 400, alpha)
    assert 0 < chance <= alpha / 2


def test_of_the_next_challenger_it_rings_falsely_less_often_so_that_the_sum_stays() -> None:
    """Red when each challenger of a workflow gets all of alpha."""
    before = (Epoch(1, 2, {"v1": 9_500, "v2": 500}, {"v1": 950, "v2": 50}),)
    first, second = chance_of_an_alarm(5_000, 300, 0.1), chance_of_an_alarm(5_000, 300, 0.1, before)
    assert 0 < second < first
    assert second <= 0.1 / 6


def test_a_challenger_that_is_lost_rings_while_it_is_young() -> None:
    """Red when the grid has no bet on an arm that gets nothing."""
    assert at_95_5(150, 0).verdict == "alarm"
    assert at_95_5(0, 10).verdict == "alarm"


@pytest.mark.parametrize(("units", "lost"), [(10_000, 0.3), (1_000_000, 0.03)])
def test_a_challenger_that_loses_a_part_rings_when_many_came(units: int, lost: float) -> None:
    """Red when the grid has no bet on a weak effect."""
    challenger = round(units * 0.05 * (1 - lost))
    assert at_95_5(units - challenger, challenger).verdict == "alarm"
    assert at_95_5(units // 20 * 19, units // 20).verdict == "as expected"
