"""What memory spawning takes: at full load for long, and for each workflow that is kept."""

import platform
import resource
import sys
import tempfile
import tracemalloc
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, cast
from uuid import uuid4

from eventsourcing.domain import DomainEventProtocol

import alloc_es
from alloc_es.clock import Patience
from alloc_es.store import open_store
from tests.bench.goals import AtMost
from tests.bench.ledger import history
from tests.bench.measuring import Case, Contender, Measure
from tests.bench.rivals import TENANT
from tests.bench.scale import Scale
from tests.bench.spawning import open_ledger, started
from tests.support.children import SPAWNED, run_together

_SPAWNERS = 8
_GROUP = 1_000
_PAGE = 250

Job = Callable[[Any, str, int], float]


def at_full_load(scale: Scale) -> Case:
    """How large the process of 8 spawners has become after so many runs."""
    few, many = (f"{runs:,} runs" for runs in scale.memory_runs)
    return Case(
        "The peak memory of a spawning process",
        "MB",
        [
            Contender(name, partial(_in_a_child, _spawning, runs))
            for name, runs in zip((few, many), scale.memory_runs, strict=True)
        ],
        (AtMost(many, few, 1.2),),
        note=(
            f"{_SPAWNERS} threads spawn lists of {min(_GROUP, scale.memory_runs[0]):,} runs into "
            "SQLite as fast as they can; a process for each line, its resident memory at most"
        ),
        rounds=1,
    )


def of_a_workflow(scale: Scale) -> Case:
    """What each workflow adds whose allocation is kept in memory."""
    return Case(
        "The memory of a workflow that is kept",
        "bytes",
        (
            Contender("peeked", partial(_in_a_child, _peeking, scale.cached)),
            Contender(
                "peeked, and a run was spawned",
                partial(_in_a_child, _peeking_and_spawning, scale.cached),
            ),
        ),
        note=f"the mean of {scale.cached:,} workflows with a challenger, by tracemalloc",
        rounds=1,
    )


@contextmanager
def _in_a_child(job: Job, number: int) -> Iterator[Measure]:
    def measured() -> float:
        with tempfile.TemporaryDirectory(prefix="alloc-es-bench-") as directory:
            url = f"sqlite:///{Path(directory) / 'alloc.db'}"
            (found,) = run_together(job, [(url, number)], SPAWNED)
            return float(found)

    yield measured


def _spawning(_: object, url: str, runs: int) -> float:
    """The peak, in megabytes, of a process that spawns."""
    group = min(_GROUP, runs)
    with open_ledger(url) as allocations, ThreadPoolExecutor(_SPAWNERS) as pool:
        workflow_ids = started(allocations)

        def work(place: int) -> None:
            for first in range(place * group, runs, _SPAWNERS * group):
                _spawn_numbers(allocations, workflow_ids, range(first, first + group))

        list(pool.map(work, range(_SPAWNERS)))
    return peak_bytes() / 1e6


def _spawn_numbers(
    allocations: alloc_es.Allocations, workflow_ids: list[str], numbers: range
) -> None:
    asked = [
        alloc_es.SpawnRequest(TENANT, workflow_ids[number % len(workflow_ids)], f"run-{number}")
        for number in numbers
    ]
    for outcome in allocations.spawn_runs(asked):
        if isinstance(outcome, alloc_es.AllocationError):
            raise outcome


def peak_bytes() -> int:
    """The resident memory of this process at its largest."""
    if platform.system() == "Linux":
        # Not getrusage, which also counts what the process was before it began its program.
        lines = Path("/proc/self/status").read_text().splitlines()
        (peak,) = [line.split()[1] for line in lines if line.startswith("VmHWM:")]
        return int(peak) * 1_024
    peak_rss = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak_rss * (1 if sys.platform == "darwin" else 1_024)


def _peeking(_: object, url: str, number: int) -> float:
    return _memory_of_workflows(url, number, spawning=False)


def _peeking_and_spawning(_: object, url: str, number: int) -> float:
    return _memory_of_workflows(url, number, spawning=True)


def _memory_of_workflows(url: str, number: int, *, spawning: bool) -> float:
    ids = [f"workflow-{place}" for place in range(number)]
    _fill(url, ids)
    # Twice as many could be kept, so that none is dropped.
    with alloc_es.connect(url, cached_workflows=4 * number) as allocations:
        first, *others = ids
        _use(allocations, first, spawning=spawning)
        tracemalloc.start()
        for workflow_id in others:
            _use(allocations, workflow_id, spawning=spawning)
        taken, _ = tracemalloc.get_traced_memory()
        return taken / len(others)


def _use(allocations: alloc_es.Allocations, workflow_id: str, *, spawning: bool) -> None:
    workflow = allocations.workflow(TENANT, workflow_id)
    workflow.peek("customer")
    if spawning:
        workflow.spawn_run(f"run of {workflow_id}")


def _fill(url: str, workflow_ids: list[str]) -> None:
    """Start many workflows in few transactions."""
    store = open_store(url, patience=Patience(60), migrate=True)
    for first in range(0, len(workflow_ids), _PAGE):
        # Each with a salt of its own, as they have: equal strings would be kept once.
        page = workflow_ids[first : first + _PAGE]
        events = [event for id_ in page for event in history(id_, 2, uuid4().hex)]
        store.decisions.save(*cast(list[DomainEventProtocol[str]], events))
    store.close()
