"""`generate_triggers`: every rejection without a replacement, and who was handed it."""

import json
from collections.abc import Sequence

from alloc_es.events import ChallengerRejectedWithoutReplacement, DecisionEvent
from alloc_es.projection import Column, Projection, Rows, Table
from alloc_es.store import Recorded

_REJECTIONS = Table(
    "rejections",
    "One row for each rejection without a replacement.",
    (
        Column("tenant_id", "text", "The tenant."),
        Column("workflow_id", "text", "The workflow."),
        Column("generation", "integer", "The generation that the rejection made."),
        Column("position", "integer", "Its position in the decision log: the trigger's name."),
        Column("version", "text", "The version that was rejected."),
        Column("reason", "text", "Why, in the sender's words; may be empty."),
        Column("rejected_by", "text", "Who sent the command."),
        Column("rejected_at", "time", "When, by the sender's clock; it orders nothing."),
        Column("remaining", "integer", "How many challengers stayed live."),
        Column("remaining_challengers", "text", "Their versions, as a JSON array."),
    ),
    key=("tenant_id", "workflow_id", "generation"),
    indexes=(("position",),),
)
# The deliveries are kept beside the logs and not built from them: see the store's schema.
_VIEW = """
SELECT rejection.tenant_id, rejection.workflow_id, rejection.generation, rejection.position,
    rejection.version, rejection.reason, rejection.rejected_by, rejection.rejected_at,
    rejection.remaining, rejection.remaining_challengers, consumer.consumer,
    CASE
        WHEN consumer.consumer IS NULL THEN NULL
        WHEN delivery.acknowledged_at IS NOT NULL THEN 'acknowledged'
        WHEN delivery.worker IS NOT NULL THEN 'held'
        ELSE 'pending'
    END AS delivery,
    coalesce(delivery.attempts, 0) AS attempts, delivery.worker, delivery.acknowledged_at
FROM rejections AS rejection
LEFT JOIN trigger_consumers AS consumer ON rejection.position > consumer.begins_after
LEFT JOIN trigger_deliveries AS delivery
    ON delivery.consumer = consumer.consumer AND delivery.position = rejection.position
"""


def apply(events: Sequence[Recorded[DecisionEvent]], rows: Rows) -> None:
    """A row for each rejection; other decisions pass."""
    rows.insert(
        _REJECTIONS.name,
        [
            _row(entry)
            for entry in events
            if isinstance(entry.event, ChallengerRejectedWithoutReplacement)
        ],
    )


def _row(entry: Recorded[DecisionEvent]) -> tuple[object, ...]:
    event = entry.event
    assert isinstance(event, ChallengerRejectedWithoutReplacement)
    remaining = event.allocation.challengers
    return (
        *event.key,
        entry.generation,
        entry.position,
        event.version,
        event.reason,
        event.actor,
        event.recorded_at,
        len(remaining),
        json.dumps(remaining, ensure_ascii=False),
    )


PROJECTION = Projection(
    name="generate_triggers",
    version=1,
    meaning="Every rejection without a replacement, and who was handed it.",
    logs=("decisions",),
    tables=(_REJECTIONS,),
    apply=apply,
    views={"generate_triggers": _VIEW},
)
