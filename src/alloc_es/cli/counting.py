"""How many runs each version got at each generation: from a read model, or from the log."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Literal, NamedTuple

from alloc_es.app import Allocations
from alloc_es.events import Recorded, RunSpawned
from alloc_es.evidence import Evidence, StoreEvidence, Unreadable
from alloc_es.identity import Version, WorkflowKey

_MODEL = "run_ledger"
_TABLE = "run_counts"
_TOLD_EVERY = 1_000


class RunCounts(NamedTuple):
    """Runs by version and generation, `counted` where, up to a position of the run log."""

    runs: Mapping[tuple[Version, int], int]
    counted: Literal["run_ledger", "run log"]
    position: int
    end: int


Report = Callable[[int, int], object]


def count_runs(held: Evidence, key: WorkflowKey, end: int, report: Report) -> RunCounts:
    """Count a workflow's runs up to the end of the run log, or where the read model is."""
    if isinstance(held, StoreEvidence) and (found := _by_model(held.allocations, key, end)):
        return found
    runs = (run.event for run in told_runs(held, end, report) if run.event.key == key)
    return RunCounts(Counter((run.version, run.generation) for run in runs), "run log", end, end)


def told_runs(held: Evidence, end: int, report: Report) -> Iterator[Recorded[RunSpawned]]:
    """Every run up to a position, with word of how far it is. Raises `UnreadableEvent`."""
    report(0, end)
    for number, run in enumerate(readable(held.runs(0, end)), start=1):
        yield run
        if number % _TOLD_EVERY == 0:
            report(run.position, end)


def readable(
    rows: Iterable[Recorded[RunSpawned] | Unreadable],
) -> Iterator[Recorded[RunSpawned]]:
    """The rows; raises the error of the first that can't be read."""
    for row in rows:
        if isinstance(row, Unreadable):
            raise row.error
        yield row


def _by_model(allocations: Allocations, key: WorkflowKey, end: int) -> RunCounts | None:
    """What `run_ledger` says, where it is built by the installed version and has the tenant.

    Its position is looked up first: the counts are those of that position, or newer.
    """
    projections = allocations.projections()
    status = next((each for each in projections.status() if each.name == _MODEL), None)
    if status is None or status.standing not in ("live", "stopped") or not status.positions:
        return None
    if key.tenant_id in status.left_out:
        return None
    rows = projections.rows(_TABLE, tenant_id=key.tenant_id, workflow_id=key.workflow_id)
    runs: dict[tuple[Version, int], int] = {}
    for row in rows:
        version, generation, count = (row[name] for name in ("version", "generation", "runs"))
        assert isinstance(version, str)
        assert isinstance(generation, int)
        assert isinstance(count, int)
        runs[Version(version), generation] = count
    return RunCounts(runs, "run_ledger", status.positions["runs"], end)
