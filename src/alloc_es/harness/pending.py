"""Requests to a participant: those under way, and which id stands for which."""

from collections import OrderedDict
from dataclasses import dataclass, field
from hashlib import sha256
from threading import Event

from alloc_es.harness.outcomes import Done, Refused
from alloc_es.harness.roles import Request


@dataclass(eq=False)
class Pending:
    """A request that was sent: `settled` is set once there is an `outcome`, or none can come.

    One that is `in_doubt` says that the store may have recorded it all the same.
    """

    request_id: str
    request: Request
    outcome: Done | Refused | None = None
    in_doubt: bool = False
    settled: Event = field(default_factory=Event)
    heard: Event = field(default_factory=Event)
    standing: str | None = None


class Asked:
    """Which request each of the newest ids stands for; of each a digest is kept."""

    _MOST = 10_000

    def __init__(self) -> None:
        self._digests: OrderedDict[str, bytes] = OrderedDict()

    def is_same(self, request_id: str, request: Request) -> bool:
        """Whether an id is new, or stands for this request already."""
        digest = sha256(repr(request).encode("utf-8", "surrogatepass")).digest()
        known = self._digests.setdefault(request_id, digest)
        if len(self._digests) > self._MOST:
            self._digests.popitem(last=False)
        return known == digest
