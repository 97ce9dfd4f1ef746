"""Whether the versions of a workflow got the units that their shares promised them."""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import permutations
from typing import Any, Literal, NamedTuple

from alloc_es.errors import InvalidSetting
from alloc_es.split import BUCKETS

ALPHA = 0.01
"""How often all tests of a call together may ring, at any of the times that they are read, where
nothing is wrong."""

Verdict = Literal["as expected", "alarm", "not enough data"]

# The effects that are bet on: a version's odds divided and multiplied by exp(0.001) to exp(16),
# each twice as strong as the one before. Between two of them a bet loses less than a tenth of
# what the right one would win.
_LOG_ODDS = tuple(sign * 2.0**power for power in range(-10, 5) for sign in (-1, 1))

# Pearson's approximation holds from here on.
_FEWEST_EXPECTED = 5

# Where fewer than five are expected, the chance of more than so many is below the smallest float.
_MOST_COUNTED = 400


class Epoch(NamedTuple):
    """One split while it held, and the units that were seen first in it.

    `shares` has every arm's basis points, the control's first. `observed` counts units by the
    version that they got; a version that got none may be left out.
    """

    episode: int
    generation: int
    shares: Mapping[str, int]
    observed: Mapping[str, int]


class VersionRatio(NamedTuple):
    """What one version got: units `observed`, and `expected` as the sum over the splits.

    `anytime_p_value` and `verdict` are those of its own test; None for a version that was
    never a challenger, as what it got is what the challengers left.
    """

    version: str
    observed: int
    expected: float
    anytime_p_value: float | None
    verdict: Verdict | None


@dataclass(frozen=True, slots=True)
class SampleRatio:
    """What `sample_ratio` found, of so many `units` in so many `epochs` with two arms or more.

    `p_value` holds for a look at a moment that was fixed beforehand. `anytime_p_value` holds
    however often, and whenever, it is looked at; the verdict follows from it alone.
    """

    verdict: Verdict
    p_value: float
    anytime_p_value: float
    units: int
    epochs: int
    versions: tuple[VersionRatio, ...]


def sample_ratio(epochs: Sequence[Epoch], *, alpha: float = ALPHA, tests: int = 1) -> SampleRatio:
    """Compare the units that the versions of one workflow got with the shares that held.

    Epochs come in the order of their generations. Those with one arm tell nothing and are
    left out. `tests` is how many workflows are looked at together. The answer is

    - "alarm" if the versions' counts are so far off that this happens in no more than `alpha`
      of all calls with nothing wrong, however often each is repeated while units come in;
    - else "not enough data" unless every live challenger (where none is live, any challenger
      of before) would have rung the alarm if it had got no unit: an empty arm is never called
      healthy;
    - else "as expected".

    The test of each challenger, it against the rest, is a test martingale. A unit of an epoch
    falls on it with the known probability s, also if that was decided in the light of the
    units before. A bet that its odds are r times those multiplies a capital of 1 by
    r / (1 - s + r s) for each unit that falls on it and by 1 / (1 - s + r s) for each other
    one; the capital is spread evenly over a fixed grid of r. If nothing is wrong it grows to
    c times its beginning, ever, with a probability of at most 1 / c (Ville, "Étude critique
    de la notion de collectif", 1939). So its inverse is a p-value at every time of looking.
    Many bets at once: the method of mixtures (Robbins, "Statistical methods related to the
    law of the iterated logarithm", Annals of Mathematical Statistics 41, 1970). For sample
    ratios, also where probabilities change with time: Lindon and Malek, "Anytime-Valid
    Inference for Multinomial Count Data", NeurIPS 2022. The k-th challenger of the workflow
    gets 1 / (k (k + 1)) of `alpha`, as nobody knows how many will come, and each workflow
    1 / `tests` of it.

    `p_value` is Pearson's chi-squared of the differences summed over the epochs, with their
    covariance, where at least 5 units are expected on every arm. (With one epoch that is the
    textbook's sum.) Else it is of the arm that is furthest off, measured in standard
    deviations: the exact chance of so few units on it, or of so many, by the sum of the
    epochs' binomials.

    Raises `InvalidSetting` for an `alpha` or `tests` that can't be, and where SciPy is
    missing.
    """
    if not 0 < alpha < 1:
        raise InvalidSetting("alpha", f"{alpha} is not between 0 and 1")
    if tests < 1:
        raise InvalidSetting("tests", f"{tests} is not at least 1")
    special = _special()
    threshold = math.log(tests / alpha)
    telling = [epoch for epoch in epochs if _tells(epoch)]
    arms = _arms(telling)
    versions = tuple(arm.judged(threshold) for arm in arms)
    p_values = [each.anytime_p_value for each in versions if each.anytime_p_value is not None]
    return SampleRatio(
        verdict=_verdict(versions, _challengers(epochs[-1]) if epochs else set()),
        p_value=_chance(special, arms, telling),
        anytime_p_value=min(p_values, default=1.0),
        units=sum(map(_units, telling)),
        epochs=len(telling),
        versions=versions,
    )


def _special() -> Any:
    try:
        from scipy import special
    except ImportError as error:
        problem = f"it needs the extra: pip install 'alloc-es[statistics]' ({error})"
        raise InvalidSetting("sample ratio", problem) from error
    return special


@dataclass(slots=True)
class _Arm:
    """One version over all epochs: `units` that came while it had a share, by that share.

    `place` is its own among the challengers, from 1; `astray` are its units beyond any share.
    """

    version: str
    place: int | None = None
    observed: int = 0
    astray: int = 0
    units: Counter[int] = field(default_factory=Counter)

    @property
    def expected(self) -> float:
        return sum(units * share for share, units in self.units.items()) / BUCKETS

    @property
    def variance(self) -> float:
        shares = self.units.items()
        return sum(units * share * (BUCKETS - share) for share, units in shares) / BUCKETS**2

    @property
    def deviation(self) -> float:
        """How far off it is, in standard deviations."""
        return abs(self.observed - self.expected) / math.sqrt(self.variance)

    def rest(self) -> "_Arm":
        """All other versions together, as one arm."""
        units = Counter({BUCKETS - share: units for share, units in self.units.items()})
        return _Arm("", observed=self.units.total() - self.observed, units=units)

    def judged(self, threshold: float) -> VersionRatio:
        """What its test says; `threshold` is the logarithm of a capital that rings."""
        facts = self.version, self.observed, self.expected
        if self.astray:
            return VersionRatio(*facts, 0.0, "alarm")
        if self.place is None:
            return VersionRatio(*facts, None, None)
        part = math.log(self.place * (self.place + 1))
        won = capital(self.observed, self.units) - part
        verdict: Verdict = "not enough data"
        if won >= threshold:
            verdict = "alarm"
        elif capital(0, self.units) - part >= threshold:
            verdict = "as expected"
        return VersionRatio(*facts, math.exp(-max(0.0, won)), verdict)


def capital(observed: int, units: Mapping[int, int]) -> float:
    """The logarithm of what a capital of 1 became that was spread over the grid of bets.

    `units` came while their arm had the share, in basis points, that is their key; `observed`
    of them fell on it. A *test martingale*: what it will be after the next unit is, on
    average, what it is now, whatever share the arm has by then.
    """
    stakes = [(count, _stakes(share)) for share, count in units.items()]
    bets = [
        observed * log_odds - math.fsum(count * stake[bet] for count, stake in stakes)
        for bet, log_odds in enumerate(_LOG_ODDS)
    ]
    best = max(bets)
    return best + math.log(math.fsum(math.exp(bet - best) for bet in bets) / len(bets))


@lru_cache(maxsize=BUCKETS)
def _stakes(share: int) -> tuple[float, ...]:
    """What each bet loses with every unit, as a logarithm, before what it wins."""
    return tuple(math.log1p(math.expm1(odds) * share / BUCKETS) for odds in _LOG_ODDS)


def _units(epoch: Epoch) -> int:
    return sum(epoch.observed.values())


def _challengers(epoch: Epoch) -> set[str]:
    """The versions behind the control that have a share."""
    return {version for version in [*epoch.shares][1:] if epoch.shares[version]}


def _tells(epoch: Epoch) -> bool:
    """Whether more than one arm could get a unit, or did."""
    shares = {version for version, share in epoch.shares.items() if share}
    return len(shares) > 1 or any(epoch.observed[version] for version in {*epoch.observed} - shares)


def _arms(epochs: Iterable[Epoch]) -> list[_Arm]:
    """The versions in the order in which they came."""
    arms: dict[str, _Arm] = {}
    challengers = 0
    for epoch in epochs:
        units = _units(epoch)
        live = _challengers(epoch)
        for version, share in epoch.shares.items():
            arm = arms.setdefault(version, _Arm(version))
            if version in live and arm.place is None:
                challengers += 1
                arm.place = challengers
            arm.units[share] += units
        for version, observed in epoch.observed.items():
            arm = arms.setdefault(version, _Arm(version))
            arm.observed += observed
            arm.astray += 0 if epoch.shares.get(version) else observed
    return list(arms.values())


def _verdict(versions: Iterable[VersionRatio], live: set[str]) -> Verdict:
    """All tests' together: that of the live challengers, if there are any."""
    said = {each.version: each.verdict for each in versions if each.verdict}
    if "alarm" in said.values():
        return "alarm"
    asked = {said.get(version) for version in live}
    enough = asked == {"as expected"} if live else "as expected" in said.values()
    return "as expected" if enough else "not enough data"


def _chance(special: Any, arms: Iterable[_Arm], epochs: Iterable[Epoch]) -> float:
    """The p-value of the counts at this moment."""
    if any(arm.astray for arm in arms):
        return 0.0
    varying = [arm for arm in arms if arm.variance]
    if not varying:
        return 1.0
    if all(arm.expected >= _FEWEST_EXPECTED for arm in varying):
        return _chi_squared(special, varying, epochs)
    farthest = max(varying, key=lambda arm: arm.deviation)
    rarer = min(farthest, farthest.rest(), key=lambda arm: arm.expected)
    if rarer.expected >= _FEWEST_EXPECTED:
        return float(special.chdtrc(1, rarer.deviation**2))
    return _tail(special, rarer)


def _chi_squared(special: Any, arms: Iterable[_Arm], epochs: Iterable[Epoch]) -> float:
    """Pearson's statistic in its general form, the differences measured by their covariance.

    Arms are taken out of it one after the other; each leaves to those that it shared epochs
    with what it had to do with them. The newest go first: they shared with the fewest.
    """
    off = {arm.version: arm.observed - arm.expected for arm in arms}
    shared = _shared(epochs)
    statistic, freedom = 0.0, 0
    for version in reversed(off):
        others: Mapping[str, float] = shared.pop(version, {})
        variance = sum(others.values())
        if variance == 0:
            continue
        statistic += off[version] ** 2 / variance
        freedom += 1
        for other, with_other in others.items():
            off[other] += off[version] * with_other / variance
            del shared[other][version]
            for third, with_third in others.items():
                if third != other:
                    shared[other][third] += with_other * with_third / variance
    return float(special.chdtrc(freedom, statistic))


def _shared(epochs: Iterable[Epoch]) -> dict[str, defaultdict[str, float]]:
    """The covariance of each two arms, without its sign."""
    shared: defaultdict[str, defaultdict[str, float]] = defaultdict(lambda: defaultdict(float))
    for epoch in epochs:
        units = _units(epoch)
        live = {version: share for version, share in epoch.shares.items() if units * share}
        for one, other in permutations(live, 2):
            shared[one][other] += units * live[one] * live[other] / BUCKETS**2
    return shared


def _tail(special: Any, arm: _Arm) -> float:
    """The chance of so few units on an arm, or of so many: the epochs' binomials, summed."""
    import numpy as np

    few = arm.observed <= arm.expected
    end = arm.observed + 1 if few else arm.observed
    if end > _MOST_COUNTED:
        return 0.0
    counts = np.arange(end)
    below = np.where(counts == 0, 1.0, 0.0)
    above = 0.0
    for share, units in arm.units.items():
        most = np.minimum(end - 1 - counts, units)
        above += below @ special.bdtrc(most, units, share / BUCKETS)
        chances = _binomial(special, np.minimum(counts, units), units, share / BUCKETS)
        below = np.convolve(below, np.where(counts <= units, chances, 0.0))[:end]
    return min(1.0, float(below.sum() if few else above))


def _binomial(special: Any, counts: Any, units: int, share: float) -> Any:
    """The chance of each count, from logarithms, as the factors overflow."""
    ways = -math.log1p(units) - special.betaln(units - counts + 1, counts + 1)
    none = special.xlog1py(units - counts, -share)
    return math.e ** (ways + special.xlogy(counts, share) + none)
