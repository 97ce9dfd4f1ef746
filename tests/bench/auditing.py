"""What an audit, an explanation, an export and the chain of digests cost."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import cast

from psycopg.sql import SQL, Identifier

import alloc_es
from alloc_es.allotting import Route
from alloc_es.audit import audit
from alloc_es.evidence import open_evidence
from alloc_es.exchange import Format, export
from tests.bench.goals import AsFast, AtMost, Within
from tests.bench.measuring import Case, Contender, Measure, own_garbage
from tests.bench.memory import peak_bytes
from tests.bench.parts import each
from tests.bench.reading_logs import RunLog
from tests.bench.rivals import TENANT
from tests.bench.scale import Scale
from tests.bench.spawning import RUNS_PER_SECOND, open_ledger, requests, spawn, started
from tests.bench.stores import Stores
from tests.support.children import SPAWNED, run_together

_READ = "read and decode the rows alone"
_EXPLAINED = 50
# A difference of some hundredths does not show in rounds of a fifth of a second.
_TIMES = 4


def auditing(few: RunLog, many: RunLog) -> list[Case]:
    """What looks at a whole log, and what looks at one run of it."""
    return [*whole_audit(many), exporting(many), explaining(few, many)]


@dataclass(frozen=True, slots=True)
class _Took:
    seconds: float
    peak_bytes: int


@dataclass
class _Audits:
    """Passes over a log, each done once, in a process of its own."""

    log: RunLog
    _done: dict[int, _Took] = field(default_factory=dict)

    def took(self, processes: int) -> _Took:
        """What an audit by so many processes took; 0 reads and decodes, and checks nothing."""
        if processes not in self._done:
            (self._done[processes],) = run_together(
                _audited, [(self.log.url(), processes)], SPAWNED
            )
        return self._done[processes]


def whole_audit(log: RunLog) -> list[Case]:
    """Every rule on a whole log: the rate, and the memory."""
    audits = _Audits(log)
    what = f"Auditing {log.runs:,} runs, PostgreSQL"
    names = {0: _READ, 1: "audit, 1 process", 2: "audit, 2 processes"}
    rate = partial(_figure, audits, lambda took: log.runs / took.seconds)
    memory = partial(_figure, audits, lambda took: took.peak_bytes / 1e6)
    return [
        Case(
            what,
            RUNS_PER_SECOND,
            [Contender(name, partial(rate, count)) for count, name in names.items()],
            (AsFast(names[1], [_READ], 0.5), AsFast(names[2], [names[1]], 1.6)),
            note="every rule, no read model built; each in a process of its own, once",
            rounds=1,
        ),
        Case(
            f"The peak memory of {what[0].lower()}{what[1:]}",
            "MB",
            [Contender(names[count], partial(memory, count)) for count in (1, 2)],
            (Within(names[1], 400, "MB"),),
            note="resident, of the process that was asked",
            rounds=1,
        ),
    ]


@contextmanager
def _figure(audits: _Audits, figure: Callable[[_Took], float], processes: int) -> Iterator[Measure]:
    yield lambda: figure(audits.took(processes))


def _audited(_: object, url: str, processes: int) -> _Took:
    began = perf_counter()
    if processes:
        found = audit(url, processes=processes)
        assert found.clean, found.findings[:3]
    else:
        with open_evidence(url) as evidence:
            for _ in evidence.runs():
                pass
    return _Took(perf_counter() - began, peak_bytes())


def exporting(log: RunLog) -> Case:
    """A whole log into files."""
    copy = "COPY of the same table to a file"
    return Case(
        f"Exporting {log.runs:,} runs, PostgreSQL",
        RUNS_PER_SECOND,
        (
            Contender(copy, partial(_copying, log)),
            Contender("export, CloudEvents", partial(_exporting, log, "cloudevents")),
            Contender("export, Parquet", partial(_exporting, log, "parquet")),
        ),
        note="COPY writes the stored bytes as they are; an export checks and describes each event",
        rounds=1,
    )


@contextmanager
def _copying(log: RunLog) -> Iterator[Measure]:
    def measured() -> float:
        table = Identifier(log.schema, "run_events")
        began = perf_counter()
        with (
            log.connection() as connection,
            TemporaryDirectory() as scratch,
            (Path(scratch) / "runs").open("wb") as file,
            connection.cursor().copy(SQL("COPY {0} TO STDOUT").format(table)) as copy,
        ):
            for part in copy:
                file.write(part)
        return log.runs / (perf_counter() - began)

    log.url()
    yield measured


@contextmanager
def _exporting(log: RunLog, form: Format) -> Iterator[Measure]:
    def measured() -> float:
        began = perf_counter()
        with TemporaryDirectory() as scratch, open_evidence(log.url()) as evidence, own_garbage():
            export(evidence, Path(scratch) / "export", format=form)
        return log.runs / (perf_counter() - began)

    log.url()
    yield measured


def explaining(few: RunLog, many: RunLog) -> Case:
    """Explaining a run, by how many runs are in the log."""
    names = {log.runs: f"{log.runs:,} runs in the log" for log in (many, few)}
    return Case(
        "Explaining a run, PostgreSQL",
        "ms",
        [Contender(names[log.runs], partial(_explaining, log)) for log in (few, many)],
        (AtMost(names[many.runs], names[few.runs], 1.25),),
        note="`explain_run`: one indexed look-up in each of the two logs, and the run recomputed",
    )


@contextmanager
def _explaining(log: RunLog) -> Iterator[Measure]:
    with open_ledger(log.url()) as allocations:
        after = log.runs // 2
        asked = [run.event.run_id for run in islice(allocations.runs(after=after), _EXPLAINED)]
        yield partial(each, asked, partial(allocations.explain_run, TENANT))


def chain(stores: Stores, scale: Scale) -> Case:
    """Spawning with the digest of the decision on each run, and without."""
    own, without = "alloc-es, as it is", "without the decision's digest on the run"
    return Case(
        f"The chain of digests in lists of {scale.group:,} runs, {stores.kind}",
        RUNS_PER_SECOND,
        (
            Contender(own, partial(_spawning, stores.url, scale, True)),
            Contender(without, partial(_spawning, stores.url, scale, False)),
        ),
        (AsFast(own, [without], 0.9),),
        note=f"`spawn_runs`, {_TIMES * scale.lists} lists in a round",
    )


@contextmanager
def _spawning(url: str, scale: Scale, chained: bool) -> Iterator[Measure]:
    with open_ledger(url) as allocations:
        workflow_ids = started(allocations)
        if not chained:
            _unchain(allocations, workflow_ids)

        def measured() -> float:
            lists: Sequence[list[alloc_es.SpawnRequest]] = [
                requests(workflow_ids, scale.group) for _ in range(_TIMES * scale.lists)
            ]
            with own_garbage():
                began = perf_counter()
                for asked in lists:
                    spawn(allocations, asked)
                return len(lists) * scale.group / (perf_counter() - began)

        yield measured


def _unchain(allocations: alloc_es.Allocations, workflow_ids: Sequence[str]) -> None:
    """Let the routes of these workflows write no digest on runs."""
    spawner = allocations._ledger.spawner
    for workflow_id in workflow_ids:
        workflow = allocations.workflow(TENANT, workflow_id)
        workflow.peek("any")
        route = cast(Route, spawner._routes.get(workflow.key))
        for slot in range(len(route.router.slots)):
            sample, form = route.sample(slot)
            bare = sample.model_copy(update={"decision_digest": None})
            route._samples[slot] = bare, type(form)(bare)
