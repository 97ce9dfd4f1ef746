"""A request to a participant that is under way."""

from dataclasses import dataclass, field
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
