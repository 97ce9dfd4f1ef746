"""Spawning runs as fast as they come: from many callers, in lists, from several processes."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from time import perf_counter
from typing import TypeVar, cast
from uuid import uuid4

import alloc_es
from tests.bench.bare import Row
from tests.bench.crew import Crew
from tests.bench.goals import AsFast
from tests.bench.measuring import Case, Contender, Measure, own_garbage
from tests.bench.plain import PlainOpener, PlainPostgres, PlainRuns, ready_rows
from tests.bench.rivals import ACTOR, CHALLENGER, CURRENT, TENANT, Opener
from tests.bench.scale import Scale
from tests.bench.stores import Stores

T = TypeVar("T")

RUNS_PER_SECOND = "runs/s"
WORKFLOWS = 10
"""How many workflows the runs of a list belong to."""

_OTHERS_CONNECTIONS = 8
_TIMEOUT = 60.0


def open_ledger(url: str) -> alloc_es.Allocations:
    """A connection as an application makes it."""
    return alloc_es.connect(url, actor=ACTOR, timeout=_TIMEOUT)


def started(allocations: alloc_es.Allocations) -> list[str]:
    """New workflows with a challenger that gets 5 %."""
    ids = [uuid4().hex for _ in range(WORKFLOWS)]
    for workflow_id in ids:
        workflow = allocations.workflow(TENANT, workflow_id)
        workflow.start(CURRENT)
        workflow.register_challenger(CHALLENGER, 500)
    return ids


def requests(workflow_ids: Sequence[str], count: int) -> list[alloc_es.SpawnRequest]:
    """New runs, spread evenly over workflows."""
    many = len(workflow_ids)
    return [
        alloc_es.SpawnRequest(TENANT, workflow_ids[number % many], uuid4().hex)
        for number in range(count)
    ]


def spawn(allocations: alloc_es.Allocations, asked: list[alloc_es.SpawnRequest]) -> None:
    """Spawn a list of runs, of which none may fail."""
    for outcome in allocations.spawn_runs(asked):
        if isinstance(outcome, alloc_es.AllocationError):
            raise outcome


def callers(stores: Stores, scale: Scale) -> Case:
    """Many callers at once, each with one run, in a few waves."""
    many = f"{scale.callers} tasks"
    threads = f"alloc-es, {scale.callers} threads with spawn_run"
    tasks, library = f"alloc-es, {many} with aspawn_run", "library, 8 threads"
    plain = f"plain INSERT, {_OTHERS_CONNECTIONS} connections"
    return Case(
        f"{scale.callers} concurrent callers, one run each, {stores.kind}",
        RUNS_PER_SECOND,
        (
            Contender(tasks, partial(_by_tasks, stores.url, scale)),
            Contender(threads, partial(_by_threads, stores.url, scale)),
            Contender(library, partial(_by_library, stores.library, scale)),
            Contender(plain, partial(_by_inserts, stores.plain, scale)),
        ),
        (AsFast(tasks, [library], 25), AsFast(tasks, [plain], 3)),
        note=f"{scale.waves} waves of {scale.callers} runs; every run is answered after its commit",
    )


def lists(stores: Stores, scale: Scale) -> Case:
    """Lists of runs in one process, one after another."""
    own, copy, many = f"alloc-es, spawn_runs of {scale.group:,}", "COPY", "executemany"
    by_rows = partial(_by_rows, stores.plain, scale)
    on_postgres = stores.kind == "PostgreSQL"
    others = [Contender(many, partial(by_rows, _inserted))]
    if on_postgres:
        others.insert(0, Contender(copy, partial(by_rows, _copied)))
        others.append(Contender("INSERT … unnest", partial(by_rows, _inserted_arrays)))
    return Case(
        f"Lists of {scale.group:,} runs, {stores.kind}",
        RUNS_PER_SECOND,
        (Contender(own, partial(_by_lists, stores.url, scale)), *others),
        (AsFast(own, [copy if on_postgres else many], 0.5),),
        note=(
            f"a transaction for each list; runs of {WORKFLOWS} workflows; the others are given "
            "ready-made rows, sorted, for an equal table without triggers"
        ),
    )


def processes(stores: Stores, crew: Crew, scale: Scale) -> Case:
    """The same from several processes, all as fast as they can."""
    names = {count: "1 process" if count == 1 else f"{count} processes" for count in scale.spawners}
    one, two, *_ = names.values()
    return Case(
        f"Lists of {scale.group:,} runs by several processes, {stores.kind}",
        RUNS_PER_SECOND,
        [
            Contender(name, partial(_by_processes, crew, stores.url, count, scale))
            for count, name in names.items()
        ],
        (AsFast(two, [one], 1.6),),
        note=f"all together, for {scale.seconds:g} s; each process on {WORKFLOWS} workflows",
    )


@contextmanager
def _by_tasks(url: str, scale: Scale) -> Iterator[Measure]:
    with open_ledger(url) as allocations, asyncio.Runner() as runner:
        workflow = allocations.workflow(TENANT, started(allocations)[0])

        async def wave(run_ids: list[str]) -> None:
            await asyncio.gather(*[workflow.aspawn_run(run_id) for run_id in run_ids])

        yield lambda: _waves(scale, lambda run_ids: runner.run(wave(run_ids)))


@contextmanager
def _by_threads(url: str, scale: Scale) -> Iterator[Measure]:
    with open_ledger(url) as allocations, ThreadPoolExecutor(scale.callers) as pool:
        workflow = allocations.workflow(TENANT, started(allocations)[0])
        yield lambda: _waves(scale, lambda run_ids: list(pool.map(workflow.spawn_run, run_ids)))


@contextmanager
def _by_library(opener: Opener, scale: Scale) -> Iterator[Measure]:
    with opener() as rival, ThreadPoolExecutor(_OTHERS_CONNECTIONS) as pool:
        save = partial(rival.insert_run, uuid4().hex)
        yield lambda: _waves(scale, lambda run_ids: list(pool.map(save, run_ids)))


def _waves(scale: Scale, wave: Callable[[list[str]], object]) -> float:
    """Runs per second of a few waves."""
    waves = [[uuid4().hex for _ in range(scale.callers)] for _ in range(scale.waves)]
    with own_garbage():
        began = perf_counter()
        for run_ids in waves:
            wave(run_ids)
        return scale.waves * scale.callers / (perf_counter() - began)


@contextmanager
def _by_inserts(opener: PlainOpener, scale: Scale) -> Iterator[Measure]:
    """The rows of a wave are dealt out to the connections; each row is a commit."""
    with ExitStack() as opened, ThreadPoolExecutor(_OTHERS_CONNECTIONS) as pool:
        plain = [opened.enter_context(opener()) for _ in range(_OTHERS_CONNECTIONS)]

        def insert(place: int, rows: list[Row]) -> None:
            for row in rows[place::_OTHERS_CONNECTIONS]:
                plain[place].insert(row)

        def measured() -> float:
            waves = [ready_rows(scale.callers) for _ in range(scale.waves)]
            with own_garbage():
                began = perf_counter()
                for rows in waves:
                    list(pool.map(lambda place: insert(place, rows), range(len(plain))))  # noqa: B023
                return scale.waves * scale.callers / (perf_counter() - began)

        yield measured


@contextmanager
def _by_lists(url: str, scale: Scale) -> Iterator[Measure]:
    with open_ledger(url) as allocations:
        workflow_ids = started(allocations)
        yield lambda: _rate(
            scale,
            [requests(workflow_ids, scale.group) for _ in range(scale.lists)],
            partial(spawn, allocations),
        )


@contextmanager
def _by_rows(
    opener: PlainOpener, scale: Scale, insert: Callable[[PlainRuns, Sequence[Row]], None]
) -> Iterator[Measure]:
    with opener() as plain:
        yield lambda: _rate(
            scale,
            [ready_rows(scale.group) for _ in range(scale.lists)],
            lambda rows: insert(plain, rows),
        )


def _rate(scale: Scale, prepared: Sequence[list[T]], record: Callable[[list[T]], object]) -> float:
    """Runs per second of some lists."""
    with own_garbage():
        began = perf_counter()
        for each in prepared:
            record(each)
        return scale.lists * scale.group / (perf_counter() - began)


@contextmanager
def _by_processes(crew: Crew, url: str, count: int, scale: Scale) -> Iterator[Measure]:
    def measured() -> float:
        tallies = crew.together([Spawning(url, scale.group, scale.seconds)] * count)
        began, ended = min(t.began for t in tallies), max(t.ended for t in tallies)
        return sum(t.runs for t in tallies) / (ended - began)

    yield measured


@dataclass(frozen=True, slots=True)
class Tally:
    """What a process spawned, between two moments of the machine's monotonic clock."""

    runs: int
    began: float
    ended: float


@dataclass(frozen=True, slots=True)
class Spawning:
    """Spawns lists of runs for some seconds."""

    url: str
    group: int
    seconds: float

    def __call__(self, wait: Callable[[], object]) -> Tally:
        """Connect, warm up, wait for the others, and spawn."""
        with open_ledger(self.url) as allocations:
            workflow_ids = started(allocations)
            spawn(allocations, requests(workflow_ids, self.group))
            wait()
            began = perf_counter()
            runs = 0
            while perf_counter() < began + self.seconds or not runs:
                spawn(allocations, requests(workflow_ids, self.group))
                runs += self.group
            return Tally(runs, began, perf_counter())


def _inserted(plain: PlainRuns, rows: Sequence[Row]) -> None:
    plain.insert_many(rows)


def _copied(plain: PlainRuns, rows: Sequence[Row]) -> None:
    cast(PlainPostgres, plain).copy(rows)


def _inserted_arrays(plain: PlainRuns, rows: Sequence[Row]) -> None:
    cast(PlainPostgres, plain).insert_arrays(rows)
