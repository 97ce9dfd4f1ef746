"""From a unit to its bucket, and from the bucket to the arm that owns it."""

from dataclasses import dataclass
from hashlib import sha256

from alloc_es.allocation import Allocation, ArmName
from alloc_es.identity import Unit, Version
from alloc_es.split import BUCKETS, Slot, holds

HASH_VERSION = 1
"""The hash that new episodes are pinned to."""


@dataclass(frozen=True, slots=True)
class Routing:
    """Where a unit goes: what a run would be allotted, with nothing recorded."""

    version: Version
    arm: ArmName
    generation: int
    bucket: int
    unit: Unit
    slot: Slot
    episode: int
    salt: str
    hash_version: int


def bucket_of(unit: str, *, salt: str, hash_version: int = HASH_VERSION) -> int:
    """The bucket of a unit, 0..9,999.

    SHA-256 over three fields (the hash version in decimal, the salt, the unit), each as
    its UTF-8 bytes behind their number as 4 bytes, big-endian; the digest's first 8
    bytes, big-endian, modulo 10,000. `docs/reference/bucketing.md` has the same in SQL.
    """
    digest = sha256(_field(str(hash_version)) + _field(salt) + _field(unit)).digest()
    return int.from_bytes(digest[:8], "big") % BUCKETS


def route(allocation: Allocation, unit: Unit) -> Routing:
    """Route a unit by an allocation. The same two give the same answer, everywhere."""
    bucket = bucket_of(unit, salt=allocation.salt, hash_version=allocation.hash_version)
    for arm in allocation.arms:
        slot = holds(arm.slots, bucket)
        if slot is not None:
            return Routing(
                version=arm.version,
                arm=arm.name,
                generation=allocation.generation,
                bucket=bucket,
                unit=unit,
                slot=slot,
                episode=allocation.episode,
                salt=allocation.salt,
                hash_version=allocation.hash_version,
            )
    raise AssertionError(f"no arm of {allocation.key} owns bucket {bucket}")


def _field(text: str) -> bytes:
    encoded = text.encode()
    return len(encoded).to_bytes(4, "big") + encoded
