"""`current_split`: who serves each workflow now, and how its traffic is split."""

from collections.abc import Sequence

from alloc_es.events import DecisionEvent
from alloc_es.projection import Column, Projection, Rows, Table
from alloc_es.store import Recorded

_SPLIT = Table(
    "current_split",
    "One row for each workflow: its newest decision, and what that left behind.",
    (
        Column("tenant_id", "text", "The tenant."),
        Column("workflow_id", "text", "The workflow."),
        Column("generation", "integer", "The newest generation."),
        Column("position", "integer", "The position of its decision in the decision log."),
        Column("current", "text", "The version that the control arm runs."),
        Column("current_share_bps", "integer", "The control's share, in basis points."),
        Column("challengers", "integer", "How many challengers are live."),
        Column("episode", "integer", "The episode that units are hashed in."),
        Column("last_decision", "text", "What the newest decision did, in a few words."),
        Column("decided_by", "text", "Who sent its command."),
        Column("reason", "text", "Why, in the sender's words; may be empty."),
        Column("decided_at", "time", "When, by the sender's clock; it orders nothing."),
    ),
    key=("tenant_id", "workflow_id"),
)
_ARMS = Table(
    "current_arms",
    "One row for each arm of each workflow: the control, and every live challenger.",
    (
        Column("tenant_id", "text", "The tenant."),
        Column("workflow_id", "text", "The workflow."),
        Column("version", "text", "The version that the arm runs."),
        Column("arm", "text", "`control` or `challenger`."),
        Column("share_bps", "integer", "Its share of the traffic, in basis points."),
        Column("since_generation", "integer", "The generation at which it took this place."),
        Column("since", "time", "When that was, by the sender's clock."),
    ),
    key=("tenant_id", "workflow_id", "version"),
)


def apply(events: Sequence[Recorded[DecisionEvent]], rows: Rows) -> None:
    """Each decision carries the whole allocation, so the newest of a workflow counts."""
    newest = {entry.event.key: entry for entry in events}
    rows.put(
        _SPLIT.name,
        (
            (
                *key,
                entry.generation,
                entry.position,
                entry.event.allocation.current,
                entry.event.allocation.control.share_bps,
                len(entry.event.allocation.challengers),
                entry.event.allocation.episode,
                entry.event.summary,
                entry.actor,
                entry.reason,
                entry.time,
            )
            for key, entry in newest.items()
        ),
    )
    rows.remove(_ARMS.name, newest)
    rows.insert(
        _ARMS.name,
        (
            (*key, arm.version, arm.name, arm.share_bps, arm.since_generation, arm.since)
            for key, entry in newest.items()
            for arm in entry.event.allocation.arms
        ),
    )


PROJECTION = Projection(
    name="current_split",
    version=1,
    meaning="Who serves each workflow now, and how its traffic is split.",
    logs=("decisions",),
    tables=(_SPLIT, _ARMS),
    apply=apply,
)
