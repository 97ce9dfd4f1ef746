"""Shares as people and programs give them, and who owns which buckets."""

from decimal import Decimal
from enum import IntEnum
from fractions import Fraction

import pytest

from alloc_es.errors import InvalidSplit
from alloc_es.identity import Version
from alloc_es.split import (
    ALL_BUCKETS,
    Share,
    Slots,
    cut,
    holds,
    join,
    parse_share_bps,
    resize,
    size,
)

A, B = Version("a"), Version("b")


class Ramp(IntEnum):
    FIRST = 100


@pytest.mark.parametrize(
    ("text", "bps"),
    [
        ("5%", 500),
        ("5.0%", 500),
        ("0.25%", 25),
        ("0.01%", 1),
        ("0.010%", 1),
        ("0%", 0),
        ("100%", 10_000),
        ("00005%", 500),
        ("33.33%", 3_333),
        ("0.29%", 29),
        ("1bp", 1),
        ("500bp", 500),
        ("500bps", 500),
        ("500.0bp", 500),
        ("0bp", 0),
        ("10000bp", 10_000),
    ],
)
def test_a_share_with_its_unit_is_read_exactly(text: str, bps: int) -> None:
    """Red when `Share.parse` computes in floating point (0.29 % is 28.999… then)."""
    share = Share.parse(text)
    assert (share, share.bps) == (bps, bps)
    assert type(share) is Share
    assert type(share.bps) is int


AMBIGUOUS = ["5", "0.05", "500", "0", "", "%", "bp", "5 %", " 5%", "5% ", "5%\n", "5pct", "5‰"]
NOT_A_NUMBER = ["NaN%", "inf%", "-inf%", "1e2%", "0x5%", "1_0%", "1,5%", ".5%", "5.%", "five%"]
SIGNED = ["-5%", "+5%", "-0%", "-1bp"]
NOT_ASCII = ["\uff15%", "\u0665%", "5\uff05", "\u2075%"]
TOO_LONG = ["1" * 5_000 + "%", "0." + "0" * 5_000 + "1%", "9" * 5_000, "1" * 6 + "bp"]
UNITS = ["5BP", "5Bp", "5%%", "5%bp", "5bp%"]


@pytest.mark.parametrize(
    "text",
    [*AMBIGUOUS, *NOT_A_NUMBER, *SIGNED, *NOT_ASCII, *TOO_LONG, *UNITS],
    ids=lambda text: ascii(text)[:20],
)
def test_what_is_ambiguous_or_no_number_is_refused_with_how_to_write_it(text: str) -> None:
    r"""Red when the unit is optional, or `\d` stands where `[0-9]` does."""
    with pytest.raises(InvalidSplit) as raised:
        Share.parse(text)
    assert raised.value.problem == f"{text!r} is not a share"
    assert raised.value.advice == "write it with its unit: 5%, 0.25% or 500bp"


@pytest.mark.parametrize("text", ["0.005%", "0.001%", "0.5bp", "33.333%", "99.999999999%"])
def test_a_share_finer_than_a_basis_point_is_refused_and_not_rounded(text: str) -> None:
    """Red when `Share.parse` rounds: 0.005 % would be nothing."""
    with pytest.raises(InvalidSplit) as raised:
        Share.parse(text)
    assert raised.value.problem == f"{text!r} is finer than one basis point"


@pytest.mark.parametrize("text", ["101%", "100.01%", "10001bp", "99999%"])
def test_a_share_of_more_than_everything_is_refused(text: str) -> None:
    with pytest.raises(InvalidSplit) as raised:
        Share.parse(text)
    assert "outside 0..10000" in raised.value.problem


@pytest.mark.parametrize(("bps", "text"), [(0, "0%"), (1, "0.01%"), (500, "5%"), (10_000, "100%")])
def test_a_share_is_shown_in_per_cent_and_reads_back(bps: int, text: str) -> None:
    assert str(Share(bps)) == text
    assert Share.parse(text) == bps


@pytest.mark.parametrize("value", [0, 1, 500, 10_000, Share(500), Ramp.FIRST])
def test_an_integer_of_basis_points_becomes_a_plain_int(value: int) -> None:
    parsed = parse_share_bps(value)
    assert parsed == value
    assert type(parsed) is int


@pytest.mark.parametrize(
    "value",
    [True, False, 5.0, 0.05, float("nan"), Decimal(5), Fraction(5), "500", "5%", None, b"5", [5]],
    ids=repr,
)
def test_a_share_that_is_no_integer_is_refused(value: object) -> None:
    """Red when a boolean passes for an integer, or a float is made one."""
    with pytest.raises(InvalidSplit) as raised:
        parse_share_bps(value)
    assert raised.value.problem == f"a share of {value!r} is a {type(value).__name__}"
    assert "Share.parse" in raised.value.advice


@pytest.mark.parametrize("value", [-1, 10_001, -(10**30), 10**30])
def test_a_share_outside_the_buckets_is_refused(value: int) -> None:
    """Red when `parse_share_bps` does not look at the range."""
    with pytest.raises(InvalidSplit) as raised:
        parse_share_bps(value)
    assert raised.value.problem == f"a share of {value} basis points is outside 0..10000"


def test_a_size_counts_the_buckets_of_all_slots() -> None:
    assert size(()) == 0
    assert size(((0, 10), (20, 21))) == 11
    assert size(ALL_BUCKETS) == 10_000


@pytest.mark.parametrize(
    ("groups", "joined"),
    [
        ((), ()),
        (((), ()), ()),
        ((((5, 9),), ((0, 5),)), ((0, 9),)),
        ((((0, 5),), ((6, 9),)), ((0, 5), (6, 9))),
        ((((0, 1), (2, 3), (4, 5)), ((1, 2), (3, 4))), ((0, 5),)),
    ],
)
def test_joined_slots_ascend_and_touching_ones_are_one(
    groups: tuple[Slots, ...], joined: Slots
) -> None:
    """Red when `join` leaves touching slots apart."""
    assert join(*groups) == joined


@pytest.mark.parametrize(
    ("slots", "count", "low", "high"),
    [
        ((), 3, (), ()),
        (((0, 10),), 0, (), ((0, 10),)),
        (((0, 10),), 3, ((0, 3),), ((3, 10),)),
        (((0, 10),), 10, ((0, 10),), ()),
        (((0, 10),), 99, ((0, 10),), ()),
        (((0, 2), (5, 9)), 2, ((0, 2),), ((5, 9),)),
        (((0, 2), (5, 9)), 3, ((0, 2), (5, 6)), ((6, 9),)),
    ],
)
def test_a_cut_parts_the_lowest_buckets_from_the_rest(
    slots: Slots, count: int, low: Slots, high: Slots
) -> None:
    """Red when `cut` does not count down what it has taken."""
    assert cut(slots, count) == (low, high)


def test_a_challenger_that_is_new_gets_the_lowest_buckets_of_the_control() -> None:
    assert resize(ALL_BUCKETS, {}, {A: 10}) == (((10, 10_000),), {A: ((0, 10),)})


def test_a_growing_challenger_keeps_what_it_has_and_fills_the_lowest_hole() -> None:
    """Red when `resize` takes the control's highest buckets, or gives the arm a new range."""
    control = ((0, 5), (20, 10_000))
    owned: dict[Version, Slots] = {A: ((5, 10),), B: ((10, 20),)}
    grown = (((25, 10_000),), {A: ((0, 10), (20, 25)), B: ((10, 20),)})
    assert resize(control, owned, {A: 15}) == grown


def test_a_shrinking_challenger_gives_back_its_highest_buckets() -> None:
    owned: dict[Version, Slots] = {A: ((0, 5), (20, 30))}
    shrunk = (((5, 20), (21, 10_000)), {A: ((0, 5), (20, 21))})
    assert resize(((5, 20), (30, 10_000)), owned, {A: 6}) == shrunk


def test_a_challenger_resized_to_nothing_stays_and_owns_no_bucket() -> None:
    assert resize(((10, 10_000),), {A: ((0, 10),)}, {A: 0}) == (ALL_BUCKETS, {A: ()})


def test_challengers_not_named_own_what_they_owned() -> None:
    owned: dict[Version, Slots] = {A: ((0, 10),), B: ((10, 20),)}
    assert resize(((20, 10_000),), owned, {}) == (((20, 10_000),), owned)


def test_freed_buckets_are_taken_only_when_the_control_has_too_few() -> None:
    """Red when `resize` gives away the freed buckets first."""
    owned: dict[Version, Slots] = {A: ((0, 9_990),), B: ((9_990, 9_995),)}
    control, resized = resize(((9_995, 10_000),), owned, {A: 9_980, B: 15})
    assert resized == {A: ((0, 9_980),), B: ((9_980, 9_985), (9_990, 10_000))}
    assert control == ((9_985, 9_990),)


def test_a_bucket_is_held_by_the_slot_that_it_falls_into() -> None:
    """Red when a slot holds its end, or not its first bucket."""
    slots = ((0, 5), (7, 9))
    assert [holds(slots, bucket) for bucket in (0, 4, 5, 6, 7, 8, 9)] == [
        (0, 5),
        (0, 5),
        None,
        None,
        (7, 9),
        (7, 9),
        None,
    ]
    assert holds((), 0) is None
