"""The p-value at one moment is the textbook's, and exact where counts are small."""

from fractions import Fraction
from math import comb

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import chdtrc

from alloc_es.sample_ratio import Epoch, sample_ratio
from tests.sample_ratio.given import at_95_5, epoch


def binomial(units: int, share: Fraction) -> list[Fraction]:
    return [comb(units, k) * share**k * (1 - share) ** (units - k) for k in range(units + 1)]


def total(first: list[Fraction], second: list[Fraction]) -> list[Fraction]:
    """How the sum of two independent counts is distributed."""
    sums = [Fraction(0)] * (len(first) + len(second) - 1)
    for a, chance in enumerate(first):
        for b, other in enumerate(second):
            sums[a + b] += chance * other
    return sums


@settings(max_examples=60)
@given(
    st.lists(
        st.tuples(st.sampled_from([1, 50, 500, 2_500, 5_000, 9_900]), st.integers(0, 9)),
        min_size=1,
        max_size=3,
    ),
    st.data(),
)
def test_a_small_count_s_chance_is_exact_over_epochs_of_different_shares(
    splits: list[tuple[int, int]], data: st.DataObject
) -> None:
    """Red when the binomials of epochs are taken for one, or the wrong tail is summed."""
    counts = [data.draw(st.integers(0, units)) for _, units in splits]
    epochs = [
        Epoch(1, number, {"v1": 10_000 - bps, "v2": bps}, {"v1": units - count, "v2": count})
        for number, ((bps, units), count) in enumerate(zip(splits, counts, strict=True))
    ]
    sums = [Fraction(1)]
    for bps, units in splits:
        sums = total(sums, binomial(units, Fraction(bps, 10_000)))
    expected = sum(Fraction(bps * units, 10_000) for bps, units in splits)
    units, got = sum(each for _, each in splits), sum(counts)
    if min(expected, units - expected) >= 5:
        return
    lower, upper = sum(sums[: got + 1]), sum(sums[got:])
    owed = {lower, upper} if got == expected else {lower if got < expected else upper}
    p_value = sample_ratio(epochs).p_value
    assert any(p_value == pytest.approx(float(each), rel=1e-9) for each in owed)


@pytest.mark.parametrize(("control", "challenger"), [(94, 5), (99, 0)])
def test_below_five_expected_units_the_chance_is_exact(control: int, challenger: int) -> None:
    """Red when the approximation is used for small counts."""
    chances = binomial(99, Fraction(5, 100))
    tail = sum(chances[5:]) if challenger else chances[0]
    assert at_95_5(control, challenger).p_value == pytest.approx(float(tail), rel=1e-9)


def test_from_five_expected_units_on_it_is_pearson_s() -> None:
    """Red when the exact chance is used, one-sided, where the approximation holds."""
    ratio = at_95_5(92, 8)
    assert ratio.p_value == pytest.approx(chdtrc(1, 9 / 95 + 9 / 5), rel=1e-9)


def test_with_three_arms_it_is_the_textbook_s_sum() -> None:
    """Red when arms are taken for independent of each other."""
    ratio = sample_ratio([epoch(v1=(90, 880), v2=(6, 75), v3=(4, 45))])
    statistic = 400 / 900 + 225 / 60 + 25 / 40
    assert ratio.p_value == pytest.approx(chdtrc(2, statistic), rel=1e-9)


def test_differences_are_summed_over_the_epochs_before_they_are_squared() -> None:
    """Red when what is expected in sum is taken for the shares of one split."""
    first = epoch(2, v1=(90, 880), v2=(10, 120))
    second = epoch(3, v1=(50, 490), v2=(50, 510))
    statistic = 30**2 / (1_000 * 0.09 + 1_000 * 0.25)
    assert sample_ratio([first, second]).p_value == pytest.approx(chdtrc(1, statistic), rel=1e-9)


def test_challengers_that_never_met_are_two_degrees_of_freedom() -> None:
    """Red when the covariance's rank is taken from the number of epochs or arms."""
    first = epoch(2, v1=(90, 880), v2=(10, 120))
    second = epoch(4, v1=(90, 890), v3=(10, 110))
    statistic = 20**2 / 90 + 10**2 / 90
    assert sample_ratio([first, second]).p_value == pytest.approx(chdtrc(2, statistic), rel=1e-9)


def test_arms_that_met_in_changing_company_are_measured_by_their_covariance() -> None:
    """Red when what an arm that is taken out leaves to the others is lost."""
    epochs = [
        epoch(2, v1=(90, 880), v2=(10, 120)),
        epoch(3, v1=(60, 620), v2=(30, 290), v3=(10, 90)),
        epoch(5, v3=(50, 480), v1=(20, 230), v4=(30, 290)),
    ]
    covariance = np.zeros((4, 4))
    off = np.zeros(4)
    for each in epochs:
        shares = np.array([each.shares.get(f"v{n}", 0) / 10_000 for n in range(1, 5)])
        observed = np.array([each.observed.get(f"v{n}", 0) for n in range(1, 5)])
        covariance += 1_000 * (np.diag(shares) - np.outer(shares, shares))
        off += observed - 1_000 * shares
    statistic = off @ np.linalg.pinv(covariance, hermitian=True) @ off
    assert sample_ratio(epochs).p_value == pytest.approx(chdtrc(3, statistic), rel=1e-9)


def test_a_thousand_challengers_are_a_thousand_degrees_of_freedom() -> None:
    """Red when rounding adds up, or the covariances of all are laid out at once and never end."""
    epochs = [epoch(n, v1=(95, 960), **{f"c{n}": (5, 40)}) for n in range(1_000)]
    statistic = 1_000 * 10**2 / 47.5
    assert sample_ratio(epochs).p_value == pytest.approx(chdtrc(1_000, statistic), rel=1e-9)


def test_one_small_arm_does_not_make_the_others_inexact_or_silent() -> None:
    """Red when the arm with the fewest expected units is asked, and not the one furthest off."""
    ratio = sample_ratio([epoch(v1=(89.99, 9_199), v2=(10, 800), v3=(0.01, 1))])
    assert ratio.p_value == pytest.approx(chdtrc(1, 200**2 / 900), rel=1e-9)
    tiny = sample_ratio([epoch(v1=(90, 900), v2=(9.9, 89), v3=(0.1, 11))])
    upper = 1 - sum(binomial(1_000, Fraction(1, 1_000))[:11])
    assert tiny.p_value == pytest.approx(float(upper), rel=1e-6)


def test_a_surplus_beyond_every_float_is_zero_and_takes_no_time() -> None:
    """Red when millions of counts are laid out to add up nothing."""
    ratio = sample_ratio([epoch(v1=(99.99, 0), v2=(0.01, 40_000))])
    assert ratio.p_value == 0.0
