"""From a unit to its bucket, and from the bucket to the arm that owns it."""

from bisect import bisect_right
from hashlib import sha256
from struct import Struct
from typing import TYPE_CHECKING, NamedTuple

from alloc_es.allocation import HASH_VERSION, Allocation, ArmName
from alloc_es.identity import Unit, Version
from alloc_es.split import BUCKETS, Slot

if TYPE_CHECKING:
    from hashlib import _Hash

_4_bytes = Struct(">I").pack
_first_8_bytes = Struct(">Q24x").unpack
# A fifth of the time of a call of the class, which reads each field's keyword.
_new_tuple = tuple.__new__


class Routing(NamedTuple):
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


class Router:
    """An allocation made ready to route many units; the same unit gets the same answer.

    Finding the slot of a bucket is a binary search among the slots, of which an arm has
    one or a few.
    """

    __slots__ = ("_first_buckets", "_seeded", "slots")

    def __init__(self, allocation: Allocation) -> None:
        owned = sorted(
            ((slot, arm) for arm in allocation.arms for slot in arm.slots), key=lambda pair: pair[0]
        )
        self.slots = tuple(
            Routing(
                version=arm.version,
                arm=arm.name,
                generation=allocation.generation,
                bucket=slot[0],
                unit=Unit(""),
                slot=slot,
                episode=allocation.episode,
                salt=allocation.salt,
                hash_version=allocation.hash_version,
            )
            for slot, arm in owned
        )
        """Where each slot's units go, in the order of the buckets; the unit is left open."""
        self._first_buckets = tuple(slot[0] for slot, _ in owned)
        self._seeded = _seeded(allocation.salt, allocation.hash_version)

    def place(self, unit: str) -> tuple[int, int]:
        """The bucket of a unit, and the index in `slots` of the slot that it falls into."""
        bucket = _bucket(self._seeded, unit)
        return bucket, bisect_right(self._first_buckets, bucket) - 1

    def route(self, unit: Unit) -> Routing:
        """Where a unit goes."""
        bucket = _bucket(self._seeded, unit)
        version, arm, generation, _, _, slot, episode, salt, hash_version = self.slots[
            bisect_right(self._first_buckets, bucket) - 1
        ]
        return _new_tuple(
            Routing,
            (version, arm, generation, bucket, unit, slot, episode, salt, hash_version),
        )


def bucket_of(unit: str, *, salt: str, hash_version: int = HASH_VERSION) -> int:
    """The bucket of a unit, 0..9,999.

    SHA-256 over three fields (the hash version in decimal, the salt, the unit), each as
    its UTF-8 bytes behind their number as 4 bytes, big-endian; the digest's first 8
    bytes, big-endian, modulo 10,000. `docs/reference/bucketing.md` has the same in SQL.
    """
    return _bucket(_seeded(salt, hash_version), unit)


def _bucket(seeded: "_Hash", unit: str) -> int:
    hashed = seeded.copy()
    hashed.update(_field(unit))
    bucket: int = _first_8_bytes(hashed.digest())[0] % BUCKETS
    return bucket


def _seeded(salt: str, hash_version: int) -> "_Hash":
    """A hash that has the fields already which all units of an episode have in common."""
    return sha256(_field(str(hash_version)) + _field(salt))


def _field(text: str) -> bytes:
    encoded = text.encode()
    return _4_bytes(len(encoded)) + encoded
