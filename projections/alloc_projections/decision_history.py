"""`decision_history`: who changed what, from what to what, and the tenures that came of it."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any, assert_never

from alloc_es.allocation import Allocation
from alloc_es.events import (
    AllocationCommitted,
    ChallengerRegistered,
    ChallengerRejectedWithoutReplacement,
    DecisionEvent,
    RunSpawned,
)
from alloc_es.identity import WorkflowKey
from alloc_es.projection import Column, Projection, Rows, Table
from alloc_es.split import Share
from alloc_es.store import Recorded
from alloc_es.tenures import outcome

_WHOSE = (
    Column("tenant_id", "text", "The tenant."),
    Column("workflow_id", "text", "The workflow."),
)
_DECISIONS = Table(
    "decisions",
    "One row for each decision, and what it left behind.",
    (
        *_WHOSE,
        Column("generation", "integer", "The generation that the decision made."),
        Column("position", "integer", "Its position in the decision log."),
        Column(
            "decision",
            "text",
            "`start`, `registration`, `split`, `promotion`, `replacement`, "
            "`rejection` or `rollback`.",
        ),
        Column("what", "text", "What it did, in a few words."),
        Column("current", "text", "The current version behind it."),
        Column("split", "text", "The split behind it, control first."),
        Column("decided_by", "text", "Who sent the command."),
        Column("reason", "text", "Why, in the sender's words; may be empty."),
        Column("decided_at", "time", "When, by the sender's clock; it orders nothing."),
        Column("command_id", "text", "The command's id."),
    ),
    key=("tenant_id", "workflow_id", "generation"),
)
_TENURE = (
    *_WHOSE,
    Column("version", "text", "The version."),
    Column("since_generation", "integer", "The generation at which it took the place."),
    Column("role", "text", "`current` or `challenger`."),
    Column("since", "time", "When that was, by the sender's clock."),
)
_OPEN = Table(
    "tenures_open",
    "The tenures that last: one of the current version, one of each live challenger.",
    _TENURE,
    key=("tenant_id", "workflow_id", "version", "since_generation"),
)
_CLOSED = Table(
    "tenures_closed",
    "The tenures that ended.",
    (
        *_TENURE,
        Column("until_generation", "integer", "The generation that ended it."),
        Column("until", "time", "When that was, by the sender's clock."),
        Column(
            "outcome",
            "text",
            "`promoted`, `rejected`, `replaced` or `dropped` of a "
            "challenger; `superseded` or `rolled back` of a current version.",
        ),
    ),
    key=("tenant_id", "workflow_id", "version", "since_generation"),
)
_RUNS = Table(
    "tenure_runs",
    "How many runs a version got in each generation.",
    (
        *_WHOSE,
        Column("version", "text", "The version."),
        Column("generation", "integer", "The generation."),
        Column("runs", "integer", "How many runs it got."),
    ),
    key=("tenant_id", "workflow_id", "version", "generation"),
)

_HISTORY_VIEW = """
SELECT tenant_id, workflow_id, generation, position, decision, what,
    lag(current) OVER earlier AS current_before, current AS current_after,
    lag(split) OVER earlier AS split_before, split AS split_after,
    decided_by, reason, decided_at, command_id
FROM decisions
WINDOW earlier AS (PARTITION BY tenant_id, workflow_id ORDER BY generation)
"""
_TENURES_VIEW = """
SELECT tenure.*, CAST((
    SELECT coalesce(sum(runs), 0) FROM tenure_runs AS served
    WHERE served.tenant_id = tenure.tenant_id AND served.workflow_id = tenure.workflow_id
    AND served.version = tenure.version AND served.generation >= tenure.since_generation
    AND (tenure.until_generation IS NULL OR served.generation < tenure.until_generation)
) AS bigint) AS runs
FROM (
    SELECT tenant_id, workflow_id, version, since_generation, role, since,
        until_generation, until, outcome
    FROM tenures_closed
    UNION ALL
    SELECT tenant_id, workflow_id, version, since_generation, role, since, NULL, NULL, NULL
    FROM tenures_open
) AS tenure
"""

_Tenure = tuple[Any, ...]


def apply(events: Sequence[Recorded[Any]], rows: Rows) -> None:
    """Decisions make rows and tenures; runs are counted for the tenures."""
    if isinstance(events[0].event, RunSpawned):
        runs = Counter((*e.event.key, e.event.version, e.event.generation) for e in events)
        rows.add(_RUNS.name, {place: (number,) for place, number in runs.items()})
        return
    rows.insert(_DECISIONS.name, [_row(entry) for entry in events])
    _end_and_begin(events, rows)


def _end_and_begin(events: Sequence[Recorded[DecisionEvent]], rows: Rows) -> None:
    keys = {entry.event.key for entry in events}
    held: dict[WorkflowKey, set[_Tenure]] = defaultdict(set)
    for row in rows.of(_OPEN.name, keys):
        held[WorkflowKey(row[0], row[1])].add(row)
    ended: list[_Tenure] = []
    for entry in events:
        key = entry.event.key
        now = _tenures(entry.event.allocation)
        for tenure in sorted(held[key] - now):
            how = outcome(tenure[4], tenure[2], entry.event)
            ended.append((*tenure, entry.generation, entry.time, how))
        held[key] = now
    rows.insert(_CLOSED.name, ended)
    rows.remove(_OPEN.name, keys)
    rows.insert(_OPEN.name, sorted(tenure for key in keys for tenure in held[key]))


def _tenures(allocation: Allocation) -> set[_Tenure]:
    return {
        (
            *allocation.key,
            arm.version,
            arm.since_generation,
            "current" if arm.name == "control" else "challenger",
            arm.since,
        )
        for arm in allocation.arms
    }


def _decision(event: DecisionEvent) -> str:
    match event:
        case AllocationCommitted():
            return event.decision
        case ChallengerRegistered():
            return "registration"
        case ChallengerRejectedWithoutReplacement():
            return "rejection"
        case _:
            assert_never(event)


def _row(entry: Recorded[DecisionEvent]) -> tuple[object, ...]:
    event = entry.event
    split = ", ".join(f"{version} {Share(bps)}" for version, bps in event.allocation.split.items())
    return (
        *event.key,
        entry.generation,
        entry.position,
        _decision(event),
        event.summary,
        event.allocation.current,
        split,
        event.actor,
        event.reason,
        event.recorded_at,
        event.command_id,
    )


PROJECTION = Projection(
    name="decision_history",
    version=1,
    meaning="Who changed what, from what to what, and the tenures that came of it.",
    logs=("decisions", "runs"),
    tables=(_DECISIONS, _OPEN, _CLOSED, _RUNS),
    apply=apply,
    views={"decision_history": _HISTORY_VIEW, "tenures": _TENURES_VIEW},
)
