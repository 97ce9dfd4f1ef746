"""`run_ledger`: which version each run got, and how many runs each arm got."""

from collections import Counter
from collections.abc import Sequence

from alloc_es.events import RunSpawned
from alloc_es.projection import Column, Projection, Rows, Table
from alloc_es.store import Recorded

_RUNS = Table(
    "run_ledger",
    "One row for each run.",
    (
        Column("tenant_id", "text", "The tenant."),
        Column("workflow_id", "text", "The workflow."),
        Column("run_id", "text", "The run; unique inside its tenant."),
        Column("version", "text", "The version that it got."),
        Column("arm", "text", "`control` or `challenger`."),
        Column("generation", "integer", "The generation that it was allotted at."),
        Column("episode", "integer", "The episode of that generation."),
        Column("unit", "text", "What was routed."),
        Column("bucket", "integer", "The bucket that the unit fell into, 0 to 9,999."),
        Column("actor", "text", "Who spawned it."),
        Column("recorded_at", "time", "When, by the spawner's clock; it orders nothing."),
        Column("position", "integer", "Its position in the run log."),
        Column(
            "decision_position",
            "integer",
            "The position of the decision log at which its generation was the newest.",
            optional=True,
        ),
    ),
    key=("tenant_id", "run_id"),
    indexes=(("tenant_id", "workflow_id", "position"),),
)
COUNTS = Table(
    "run_counts",
    "How many runs each version got, in each generation of each workflow.",
    (
        Column("tenant_id", "text", "The tenant."),
        Column("workflow_id", "text", "The workflow."),
        Column("episode", "integer", "The episode."),
        Column("generation", "integer", "The generation."),
        Column("arm", "text", "`control` or `challenger`."),
        Column("version", "text", "The version that the arm ran."),
        Column("runs", "integer", "How many runs it got; an arm without any has no row."),
    ),
    key=("tenant_id", "workflow_id", "episode", "generation", "arm", "version"),
)


def apply(events: Sequence[Recorded[RunSpawned]], rows: Rows) -> None:
    """A row for each run, and one more in its count."""
    rows.insert(_RUNS.name, [_row(entry.position, entry.event) for entry in events])
    count(events, rows)


def count(events: Sequence[Recorded[RunSpawned]], rows: Rows) -> None:
    """Add the runs to the counts."""
    runs = Counter(_place(entry.event) for entry in events)
    rows.add(COUNTS.name, {place: (number,) for place, number in runs.items()})


def _row(position: int, run: RunSpawned) -> tuple[object, ...]:
    return (
        run.tenant_id,
        run.workflow_id,
        run.run_id,
        run.version,
        run.arm,
        run.generation,
        run.episode,
        run.unit,
        run.bucket,
        run.actor,
        run.recorded_at,
        position,
        run.decision_position,
    )


def _place(run: RunSpawned) -> tuple[object, ...]:
    return (run.tenant_id, run.workflow_id, run.episode, run.generation, run.arm, run.version)


PROJECTION = Projection(
    name="run_ledger",
    version=1,
    meaning="Which version each run got, and how many runs each arm got.",
    logs=("runs",),
    tables=(_RUNS, COUNTS),
    apply=apply,
)
