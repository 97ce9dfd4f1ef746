"""A decision as a row of flat columns beside the very bytes that were stored."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import cast

from alloc_es import codec
from alloc_es.errors import UnreadableEvent
from alloc_es.events import DecisionEvent, Recorded, RunSpawned
from alloc_es.store.recorder import Stored

DECISION_COLUMNS: Mapping[str, tuple[str, str]] = {
    "position": ("int64", "the decision's position in the decision log"),
    "stream": ("string", "the name of its stream"),
    "generation": ("int64", "the generation that it made"),
    "type": ("string", "the stored type name"),
    "tenant_id": ("string", "the tenant"),
    "workflow_id": ("string", "the workflow"),
    "decision": ("string", "what set the allocation; null where a challenger came or left"),
    "version": ("string", "the workflow version that it was about; null for a new split"),
    "current_version": ("string", "the version that was current behind it"),
    "actor": ("string", "who decided"),
    "reason": ("string", "why, in the sender's words"),
    "recorded_at": ("timestamp[us, tz=UTC]", "when, by the writer's clock"),
    "command_id": ("string", "the command that made it"),
    "previous_digest": ("string", "the digest of the decision before it; null before release 0.5"),
    "digest": ("string", "the SHA-256 of the stored bytes, in hexadecimal"),
    "state": ("binary", "the stored bytes, which are JSON"),
}
"""Column → its type, as Arrow spells it, and what it holds."""

_EPOCH = datetime.fromtimestamp(0, UTC)
_MICROSECOND = timedelta(microseconds=1)


def decision_row(stored: Stored) -> tuple[object, ...]:
    """The columns of a stored row; of one that can't be read those that do not need it."""
    state = bytes(stored.state)
    place = (stored.position, stored.stream, stored.version, stored.topic)
    entry = decision_entry(stored)
    event = None if isinstance(entry, UnreadableEvent) else entry.event
    # Other hands may have put anything into a log.
    if isinstance(event, RunSpawned):
        event = None
    return (*place, *_said(event), codec.digest(state), state)


def decision_entry(stored: Stored) -> Recorded[DecisionEvent] | UnreadableEvent:
    """The decision of a stored row, or why it can't be read."""
    position, stream, version, topic, state = stored
    try:
        event = codec.decode(topic, state, stream=stream, version=version)
    except UnreadableEvent as error:
        return error
    return Recorded(position, cast(DecisionEvent, event), codec.digest(state))


def _said(event: DecisionEvent | None) -> tuple[object, ...]:
    """What is between type and digest."""
    if event is None:
        return (None,) * 10
    allocation = event.allocation
    return (
        *(allocation.tenant_id, allocation.workflow_id),
        *(getattr(event, "decision", None), event.version, allocation.current),
        *(event.actor, event.reason, (event.recorded_at - _EPOCH) // _MICROSECOND),
        *(event.command_id, event.previous_digest),
    )
