"""A log of a million runs: a process that has just started, and what a rebuild takes."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from time import perf_counter
from uuid import uuid4

# A process that starts imports it when it connects; the import is not what is measured.
from tests.bench.goals import AtMost, Within
from tests.bench.measuring import Case, Contender, Measure
from tests.bench.memory import peak_bytes
from tests.bench.reading_logs import RunLog, workflow_ids
from tests.bench.rivals import TENANT
from tests.bench.scale import Scale
from tests.bench.spawning import RUNS_PER_SECOND, open_ledger
from tests.support.children import SPAWNED, run_together

_MODEL = "run_ledger"
_REBUILD, _VERIFY = "rebuild", "verify"


def first_run(few: RunLog, many: RunLog, scale: Scale) -> Case:
    """The first routed run of a process, by how many runs are in the log."""
    names = {log.runs: f"{log.runs:,} runs in the log" for log in (many, few)}
    return Case(
        "The first run of a process, PostgreSQL",
        "ms",
        [Contender(names[log.runs], partial(_starting, log)) for log in (few, many)],
        (AtMost(names[many.runs], names[few.runs], 1.2),),
        note=(
            "from before `connect` to the answer of `spawn_run`, in a process of its own for each "
            "figure; the start of the interpreter and the imports are not counted"
        ),
        rounds=scale.starts,
    )


@dataclass(frozen=True, slots=True)
class _Took:
    """What a job in a process of its own took."""

    seconds: float
    peak_bytes: int


@dataclass
class _Jobs:
    """The two long jobs on a log, each done once, in a process of its own."""

    log: RunLog
    _done: dict[str, _Took] = field(default_factory=dict)

    def took(self, job: str) -> _Took:
        """What a job took; a rebuild comes before what needs one."""
        if job == _VERIFY:
            self.took(_REBUILD)
        if job not in self._done:
            (self._done[job],) = run_together(_working, [(self.log.url(), job)], SPAWNED)
        return self._done[job]


def whole_log(log: RunLog) -> list[Case]:
    """Rebuilding `run_ledger` from all of the log, and verifying it: the time, and the memory."""
    jobs = _Jobs(log)
    what = f"run_ledger of {log.runs:,} runs, PostgreSQL"
    rate = partial(_figure, jobs, lambda took: log.runs / took.seconds)
    memory = partial(_figure, jobs, lambda took: took.peak_bytes / 1e6)
    return [
        Case(
            f"Rebuilding and verifying {what}",
            RUNS_PER_SECOND,
            [Contender(job, partial(rate, job)) for job in (_REBUILD, _VERIFY)],
            note="each in a process of its own, from `connect` on",
            rounds=1,
        ),
        Case(
            f"The peak memory of rebuilding and verifying {what}",
            "MB",
            [Contender(job, partial(memory, job)) for job in (_REBUILD, _VERIFY)],
            (Within(_REBUILD, 300, "MB"),),
            note="the resident memory of the same two processes at most",
            rounds=1,
        ),
    ]


@contextmanager
def _figure(jobs: _Jobs, figure: Callable[[_Took], float], job: str) -> Iterator[Measure]:
    yield lambda: figure(jobs.took(job))


@contextmanager
def _starting(log: RunLog) -> Iterator[Measure]:
    def measured() -> float:
        (taken,) = run_together(_first_run, [(log.url(), workflow_ids()[0])], SPAWNED)
        return float(taken)

    log.url()
    yield measured


def _first_run(_: object, url: str, workflow_id: str) -> float:
    """The milliseconds from nothing to a run."""
    run_id = uuid4().hex
    began = perf_counter()
    with open_ledger(url) as allocations:
        allocations.workflow(TENANT, workflow_id).spawn_run(run_id)
        return (perf_counter() - began) * 1_000


def _working(_: object, url: str, job: str) -> _Took:
    began = perf_counter()
    with open_ledger(url) as allocations:
        projections = allocations.projections()
        if job == _REBUILD:
            projections.rebuild(_MODEL)
        else:
            found = projections.verify(_MODEL)
            assert found.difference is None, found.difference
        return _Took(perf_counter() - began, peak_bytes())
