"""What the sample ratio says of a workflow: as expected, alarm, or not enough data."""

import subprocess
import sys
from itertools import pairwise

import pytest

from alloc_es.errors import InvalidSetting
from alloc_es.sample_ratio import Epoch, VersionRatio, sample_ratio
from tests.sample_ratio.given import at_95_5, epoch


def test_counts_that_are_those_of_the_shares_are_as_expected() -> None:
    """Red when expected counts are of equal shares."""
    ratio = at_95_5(9_500, 500)
    assert (ratio.verdict, ratio.p_value, ratio.anytime_p_value) == ("as expected", 1.0, 1.0)
    assert (ratio.units, ratio.epochs) == (10_000, 1)
    assert ratio.versions == (
        VersionRatio("v1", 9_500, 9_500.0, None, None),
        VersionRatio("v2", 500, 500.0, 1.0, "as expected"),
    )


def test_a_challenger_that_gets_nothing_of_a_thousand_is_an_alarm() -> None:
    """Red when versions without a unit are left out."""
    ratio = at_95_5(1_000, 0)
    assert (ratio.verdict, ratio.versions[1].verdict) == ("alarm", "alarm")
    assert ratio.versions[1][:3] == ("v2", 0, 50.0)
    assert ratio.p_value < 1e-12
    assert ratio.anytime_p_value < 1e-12


def test_a_challenger_that_gets_nothing_of_forty_is_not_enough_data() -> None:
    """Red when an arm whose emptiness could not ring is called healthy, or rings."""
    ratio = at_95_5(40, 0)
    assert ratio.verdict == "not enough data"
    assert ratio.p_value == pytest.approx(0.95**40, abs=1e-12)
    assert ratio.anytime_p_value == 1.0


def test_where_emptiness_could_not_ring_no_count_is_called_healthy() -> None:
    """Red when the units that came are asked, and not those that could have been missing."""
    assert at_95_5(38, 2).verdict == "not enough data"


@pytest.mark.parametrize("share", [0.01, 1, 5, 50, 99.99])
@pytest.mark.parametrize("units", [0, 1, 10, 40, 145, 1_000, 10_000, 10_000_000])
def test_an_empty_arm_is_never_called_healthy(share: float, units: int) -> None:
    """Red when what could not ring counts as what did not."""
    ratio = sample_ratio([epoch(v1=(100 - share, units), v2=(share, 0))])
    assert ratio.verdict in {"alarm", "not enough data"}


@pytest.mark.parametrize(
    "epochs",
    [
        [],
        [epoch(v1=(100, 50_000))],
        [epoch(v1=(95, 0), v2=(5, 0))],
        [Epoch(1, 2, {"v1": 10_000, "v2": 0}, {"v1": 50_000})],
    ],
    ids=["no epoch", "one arm", "no unit", "a challenger without a share"],
)
def test_without_a_unit_that_could_go_two_ways_there_is_not_enough_data(
    epochs: list[Epoch],
) -> None:
    """Red when units of a split with one arm are counted, or nothing is as expected."""
    ratio = sample_ratio(epochs)
    assert (ratio.verdict, ratio.units, ratio.p_value) == ("not enough data", 0, 1.0)
    assert ratio.anytime_p_value == 1.0


def test_every_epoch_is_compared_with_its_own_shares() -> None:
    """Red when a changed history is judged by one split."""
    first = epoch(2, v1=(95, 950), v2=(5, 50))
    second = epoch(3, v1=(50, 2_500), v2=(50, 2_500))
    ratio = sample_ratio([first, second])
    assert (ratio.verdict, ratio.p_value, ratio.units) == ("as expected", 1.0, 6_000)
    assert [each.expected for each in ratio.versions] == [3_450, 2_550]
    assert at_95_5(3_450, 2_550).verdict == "alarm"
    assert sample_ratio([epoch(v1=(50, 3_450), v2=(50, 2_550))]).verdict == "alarm"


def test_what_the_shares_leave_open_does_not_hide_behind_what_they_do_not() -> None:
    """Red when units of a split with one arm dilute the differences."""
    alone = [epoch(1, v1=(100, 1_000_000))]
    lost = [epoch(2, v1=(95, 1_000), v2=(5, 0))]
    assert sample_ratio(alone + lost) == sample_ratio(lost)


@pytest.mark.parametrize("shares", [{"v1": 10_000}, {"v1": 9_500, "v2": 500, "v3": 0}])
def test_a_unit_on_a_version_without_a_share_is_an_alarm(shares: dict[str, int]) -> None:
    """Red when only versions with a share are looked at."""
    observed = {"v1": 95, "v2": 5, "v3": 1} if "v2" in shares else {"v1": 100, "v3": 1}
    ratio = sample_ratio([Epoch(1, 2, shares, observed)])
    assert (ratio.verdict, ratio.p_value, ratio.anytime_p_value) == ("alarm", 0.0, 0.0)
    assert [each.version for each in ratio.versions if each.verdict == "alarm"] == ["v3"]


def test_the_verdict_is_about_the_live_challenger() -> None:
    """Red when what was enough for one challenger counts for the next."""
    before = epoch(2, v1=(95, 9_500), v2=(5, 500))
    young = epoch(4, v1=(95, 19), v3=(5, 1))
    ratio = sample_ratio([before, young])
    assert ratio.verdict == "not enough data"
    verdicts = [each.verdict for each in ratio.versions]
    assert verdicts == [None, "as expected", "not enough data"]


def test_where_none_is_live_the_verdict_is_about_those_who_were() -> None:
    """Red when a workflow without a challenger forgets what it had."""
    before = epoch(2, v1=(95, 9_500), v2=(5, 500))
    young = epoch(4, v1=(95, 19), v3=(5, 1))
    ended = epoch(5, v1=(100, 10))
    assert sample_ratio([before, young, ended]).verdict == "as expected"
    assert sample_ratio([young, ended]).verdict == "not enough data"


def test_an_alarm_of_an_earlier_challenger_stays_one() -> None:
    """Red when only the live challengers are asked."""
    lost = epoch(2, v1=(95, 1_000), v2=(5, 0))
    fine = epoch(4, v1=(95, 9_500), v3=(5, 500))
    assert sample_ratio([lost, fine]).verdict == "alarm"


def test_the_alarm_is_shared_among_the_workflows_that_are_tested_together() -> None:
    """Red when `tests` or `alpha` is forgotten."""
    assert at_95_5(200, 0).verdict == "alarm"
    assert at_95_5(200, 0, tests=1_000).verdict == "not enough data"
    assert at_95_5(200, 0, alpha=1e-6).verdict == "not enough data"
    assert at_95_5(1_000, 0, tests=1_000).verdict == "alarm"


def test_the_further_off_the_smaller_the_p_values_and_nothing_overflows() -> None:
    """Red when a likelihood is computed and not its logarithm."""
    share = 10**9 // 20
    ratios = [at_95_5(10**9 - share - off, share + off) for off in (10**3, 10**5, 10**6, 10**7)]
    verdicts = [ratio.verdict for ratio in ratios]
    assert verdicts == ["as expected", "alarm", "alarm", "alarm"]
    for far, farther in pairwise(ratios[:-1]):
        assert farther.p_value < far.p_value
        assert farther.anytime_p_value < far.anytime_p_value
    assert at_95_5(10**9, 0).anytime_p_value == at_95_5(0, 10**9).anytime_p_value == 0.0


@pytest.mark.parametrize("wrong", [{"alpha": 0.0}, {"alpha": 1.0}, {"tests": 0}])
def test_a_rate_of_false_alarms_that_can_not_be_is_refused(wrong: dict[str, float]) -> None:
    """Red when `alpha` and `tests` are taken as they come."""
    with pytest.raises(InvalidSetting) as raised:
        at_95_5(95, 5, **wrong)  # type: ignore[arg-type]
    assert raised.value.setting in wrong


def test_without_scipy_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Red when a missing SciPy is an ImportError."""
    monkeypatch.setitem(sys.modules, "scipy", None)
    with pytest.raises(InvalidSetting, match=r"pip install 'alloc-es\[statistics\]'"):
        at_95_5(95, 5)


def test_scipy_is_imported_late_and_its_slow_part_never() -> None:
    """Red when every command waits for SciPy, or any for `scipy.stats`."""
    program = (
        "import sys; import alloc_es.sample_ratio as it; import alloc_es.unit_counts;"
        "assert not {'scipy', 'numpy'} & {*sys.modules};"
        "it.sample_ratio([it.Epoch(1, 2, {'v1': 9500, 'v2': 500}, {'v1': 19, 'v2': 1})]);"
        "assert 'scipy.stats' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)
