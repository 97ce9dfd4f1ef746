"""What the handles of one connection share."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from alloc_es.clock import Patience
from alloc_es.committing import Committer
from alloc_es.events import DecisionEvent
from alloc_es.identity import Actor
from alloc_es.spawning import Spawner
from alloc_es.store import EventLog


@dataclass(frozen=True, slots=True)
class Ledger:
    """What the handles of one connection share."""

    decisions: EventLog[DecisionEvent]
    committer: Committer
    spawner: Spawner
    patience: Patience
    actor: Actor
    max_challengers: int
    clock: Callable[[], datetime]
    new_id: Callable[[], str]
    check_usable: Callable[[], None]
    check_incarnation: Callable[[], None]
