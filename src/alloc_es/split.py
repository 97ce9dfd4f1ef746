"""Who owns which of the 10,000 buckets: shares in basis points, slots, and how they change."""

import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Self

from alloc_es.errors import InvalidSplit
from alloc_es.identity import Version
from alloc_es.wording import shown, with_article

BUCKETS = 10_000
"""How many buckets there are; one bucket is one basis point of the traffic."""

DEFAULT_CHALLENGER_SHARE_BPS = 500

Slot = tuple[int, int]
"""A run of buckets `[first, end)`; `first` belongs to it, `end` does not."""

Slots = tuple[Slot, ...]
"""Disjoint slots in ascending order, touching ones joined."""

ALL_BUCKETS: Slots = ((0, BUCKETS),)

_SHARE = re.compile(r"(?P<number>[0-9]{1,5}(?:\.[0-9]{1,9})?)(?P<unit>%|bp|bps)")


class Share(int):
    """A share of the traffic in whole basis points, 0..10,000, that is also an `int`."""

    @classmethod
    def parse(cls, text: object) -> Self:
        """Read a share as people write it: `"5%"`, `"0.25%"`, `"500bp"`.

        Refused with `InvalidSplit`: a bare number (5 % or 5 basis points?), anything not
        finite or not within 0..100 %, and anything finer than one basis point.
        """
        match = _SHARE.fullmatch(text) if isinstance(text, str) else None
        if match is None:
            written = repr(text) if isinstance(text, str) else shown(text)
            raise InvalidSplit(
                f"{written} is not a share", "write it with its unit: 5%, 0.25% or 500bp"
            )
        bps = Decimal(match["number"]) * (100 if match["unit"] == "%" else 1)
        if bps != bps.to_integral_value():
            raise InvalidSplit(f"{text!r} is finer than one basis point", "round it to 0.01%")
        return cls(parse_share_bps(int(bps)))

    @property
    def bps(self) -> int:
        """The share in basis points as a plain `int`."""
        return int(self)

    def __str__(self) -> str:
        return f"{Decimal(int(self)) / 100:f}%"


def parse_share_bps(value: object) -> int:
    """Return a share given by application code as a plain `int` of basis points.

    Raises `InvalidSplit` for floats, booleans and anything outside 0..10,000.
    """
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidSplit(
            f"a share of {shown(value)} is {with_article(type(value).__name__)}",
            "give an integer of basis points (5 % is 500), or Share.parse('5%')",
        )
    if not 0 <= value <= BUCKETS:
        raise InvalidSplit(
            f"a share of {shown(value)} basis points is outside 0..{BUCKETS}",
            "5 % is 500 basis points",
        )
    return int(value)


def size(slots: Slots) -> int:
    """How many buckets the slots hold."""
    return sum(end - first for first, end in slots)


def join(*groups: Slots) -> Slots:
    """The union of disjoint groups of slots, ascending, touching ones joined."""
    joined: list[Slot] = []
    for first, end in sorted(slot for group in groups for slot in group):
        if joined and joined[-1][1] == first:
            joined[-1] = (joined[-1][0], end)
        else:
            joined.append((first, end))
    return tuple(joined)


def cut(slots: Slots, count: int) -> tuple[Slots, Slots]:
    """Part slots into their lowest `count` buckets (fewer, if they hold fewer) and the rest."""
    low: list[Slot] = []
    high: list[Slot] = []
    for first, end in slots:
        middle = min(end, first + count)
        count -= middle - first
        if first < middle:
            low.append((first, middle))
        if middle < end:
            high.append((middle, end))
    return tuple(low), tuple(high)


def resize(
    control: Slots, challengers: Mapping[Version, Slots], shares: Mapping[Version, int]
) -> tuple[Slots, dict[Version, Slots]]:
    """Give each challenger in `shares` as many buckets as its share asks for.

    Returns the control's slots and every challenger's. An arm that shrinks gives back its
    highest buckets, an arm that grows keeps all it has and takes the control's lowest; a
    bucket that another arm gives back in the same change is taken only when the control
    had too few. So no unit leaves an arm that grew, and none moves between two arms whose
    shares were not changed. The caller has checked that the control keeps a bucket.
    """
    freed: Slots = ()
    owned = dict(challengers)
    for version, share in shares.items():
        owned[version], given_back = cut(owned.get(version, ()), share)
        freed = join(freed, given_back)
    for version, share in shares.items():
        wanted = share - size(owned[version])
        taken, control = cut(control, wanted)
        taken_freed, freed = cut(freed, wanted - size(taken))
        owned[version] = join(owned[version], taken, taken_freed)
    return join(control, freed), owned


def holds(slots: Slots, bucket: int) -> Slot | None:
    """The slot that the bucket falls into, or None."""
    return next((slot for slot in slots if slot[0] <= bucket < slot[1]), None)
