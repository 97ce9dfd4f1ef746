"""What differs between two allocations of a workflow, down to the buckets."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

from alloc_es.allocation import Allocation, Arm
from alloc_es.identity import Version
from alloc_es.split import holds


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two allocations of a workflow, and what differs.

    `came` and `left` are the versions that serve in one of them only. `shares` are those, in
    basis points before and after, that differ; a version that does not serve has 0. `moved`
    is how many buckets went from one version to another. `rehashed` says that the units are
    hashed anew, so that a bucket does not hold the units that it held before.
    """

    before: Allocation
    after: Allocation
    came: tuple[Version, ...]
    left: tuple[Version, ...]
    shares: Mapping[Version, tuple[int, int]]
    moved: Mapping[tuple[Version, Version], int]
    rehashed: bool


def compare(before: Allocation, after: Allocation) -> Comparison:
    """What differs between two allocations; of one workflow, in either order."""
    old, new = before.split, after.split
    shares = {version: (old.get(version, 0), new.get(version, 0)) for version in {**old, **new}}
    return Comparison(
        before=before,
        after=after,
        came=tuple(version for version in new if version not in old),
        left=tuple(version for version in old if version not in new),
        shares={version: pair for version, pair in shares.items() if pair[0] != pair[1]},
        moved=_moved(before, after),
        rehashed=_seed(before) != _seed(after),
    )


def arm_of(allocation: Allocation, bucket: int) -> Arm:
    """The arm that a bucket belongs to."""
    return next(arm for arm in allocation.arms if holds(arm.slots, bucket))


def _moved(before: Allocation, after: Allocation) -> dict[tuple[Version, Version], int]:
    """How many buckets went from one version to another, most first."""
    arms = (*before.arms, *after.arms)
    borders = sorted({border for arm in arms for slot in arm.slots for border in slot})
    moved: Counter[tuple[Version, Version]] = Counter()
    for first, end in pairwise(borders):
        pair = (arm_of(before, first).version, arm_of(after, first).version)
        if pair[0] != pair[1]:
            moved[pair] += end - first
    return dict(moved.most_common())


def _seed(allocation: Allocation) -> tuple[int, str]:
    return allocation.hash_version, allocation.salt
