"""One trigger: what a rejection without a replacement says to whoever generates versions."""

from dataclasses import dataclass
from datetime import datetime

from alloc_es.delivering import Delivery
from alloc_es.errors import StoreUnavailable
from alloc_es.events import ChallengerRejectedWithoutReplacement, DecisionEvent
from alloc_es.identity import WorkflowKey
from alloc_es.store import Recorded, Store


@dataclass(frozen=True, slots=True)
class Trigger:
    """A challenger was rejected and nothing took its slot: generate another.

    `generation` is the one that the rejection made; a challenger registered with it as the
    expected one is refused, without harm, if anything was decided since. `position` is the
    trigger's place in the decision log, and its name: the same in every delivery.
    `remaining` are the challengers that stayed live. `attempt` counts the deliveries to
    this consumer, from 1.
    """

    key: WorkflowKey
    version: str
    reason: str
    actor: str
    generation: int
    position: int
    remaining: tuple[str, ...]
    time: datetime
    attempt: int

    @property
    def tenant_id(self) -> str:
        """The tenant whose challenger was rejected."""
        return self.key.tenant_id

    @property
    def workflow_id(self) -> str:
        """The workflow whose challenger was rejected."""
        return self.key.workflow_id


def read_trigger(store: Store, delivery: Delivery) -> Trigger:
    """The trigger that is delivered, with what the decision log says of it."""
    key = WorkflowKey.parse(delivery.tenant_id, delivery.workflow_id)
    found: Recorded[DecisionEvent] | None = store.decisions.at(key.stream, delivery.generation)
    if found is None or not isinstance(found.event, ChallengerRejectedWithoutReplacement):
        problem = f"{store.where} has no rejection at generation {delivery.generation}"
        raise StoreUnavailable(f"{problem} of {key}: it was restored", retryable=False)
    event = found.event
    return Trigger(
        key=key,
        version=event.version,
        reason=event.reason,
        actor=event.actor,
        generation=event.generation,
        position=delivery.position,
        remaining=event.allocation.challengers,
        time=event.recorded_at,
        attempt=delivery.attempts,
    )
