"""Where the time of a list of runs goes: its parts, each measured alone."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from time import perf_counter, thread_time
from typing import Any, NoReturn, cast
from uuid import uuid4

from alloc_es.allotting import Allotment, Route, RouteCache
from alloc_es.clock import Patience, utc_now
from alloc_es.identity import Actor, RunId, Unit, WorkflowKey, parse_identifier
from alloc_es.recording import Recording
from alloc_es.store import open_store
from alloc_es.store.log import RunGroup
from tests.bench.ledger import history
from tests.bench.measuring import Case, Contender, Measure, own_garbage
from tests.bench.plain import PlainOpener, ready_rows
from tests.bench.rivals import ACTOR, TENANT
from tests.bench.scale import Scale
from tests.bench.spawning import WORKFLOWS, open_ledger, requests, spawn, started
from tests.bench.stores import Stores

Clock = Callable[[], float]


def parts_of_a_list(stores: Stores, scale: Scale) -> Case:
    """`spawn_runs` beside what it is made of."""

    def own(name: str, group: int, clock: Clock) -> Contender:
        return Contender(name, partial(_recording, stores.url, group, scale.lists, clock))

    return Case(
        f"The parts of a list of {scale.group:,} runs, {stores.kind}",
        "ms",
        (
            Contender("alloc-es, the whole list", partial(_whole, stores.url, scale)),
            Contender("parse, route and encode", partial(_preparing, scale)),
            Contender("sort, group and settle", partial(_settling, scale)),
            own("driver and store: lock, check, insert", scale.group, perf_counter),
            own("of that, this thread's own work", scale.group, thread_time),
            own("the same with no runs: lock and check", 0, perf_counter),
            Contender("answers", partial(_answering, scale)),
            Contender(
                "driver: executemany into an equal table", partial(_plain, stores.plain, scale)
            ),
        ),
        note="the driver's lines are given ready-made strings",
    )


@contextmanager
def _whole(url: str, scale: Scale) -> Iterator[Measure]:
    with open_ledger(url) as allocations:
        workflow_ids = started(allocations)

        def measured() -> float:
            prepared = [requests(workflow_ids, scale.group) for _ in range(scale.lists)]
            with own_garbage():
                began = perf_counter()
                for asked in prepared:
                    spawn(allocations, asked)
                return _mean_ms(perf_counter() - began, scale)

        yield measured


@contextmanager
def _preparing(scale: Scale) -> Iterator[Measure]:
    routes = _routes()

    def measured() -> float:
        ids = _ids(scale)
        with own_garbage():
            began = perf_counter()
            for of_list in ids:
                _prepared(routes, of_list)
            return _mean_ms(perf_counter() - began, scale)

    yield measured


@contextmanager
def _settling(scale: Scale) -> Iterator[Measure]:
    """What the writer does around the store, with a store that takes everything at once."""
    routes = _routes()
    nowhere = cast(Any, _TakesAll())
    recording = Recording(nowhere, nowhere, RouteCache(WORKFLOWS), Patience(60))

    def measured() -> float:
        lists = [_prepared(routes, of_list) for of_list in _ids(scale)]
        with own_garbage():
            began = perf_counter()
            for allotments in lists:
                recording.record(allotments)
            return _mean_ms(perf_counter() - began, scale)

    yield measured


class _TakesAll:
    """A log of runs that has room for everything and keeps nothing."""

    def record(self, group: RunGroup, reroute: object) -> int:  # noqa: ARG002
        """A position."""
        return 1


@contextmanager
def _answering(scale: Scale) -> Iterator[Measure]:
    routes = _routes()

    def measured() -> float:
        lists = [_prepared(routes, of_list) for of_list in _ids(scale)]
        with own_garbage():
            began = perf_counter()
            for allotments in lists:
                for allotment in allotments:
                    allotment.record(1)
                    allotment.outcome()
            return _mean_ms(perf_counter() - began, scale)

    yield measured


@contextmanager
def _recording(url: str, group: int, lists: int, clock: Clock) -> Iterator[Measure]:
    """What the store's recorder takes for a group of runs that are ready."""
    with open_ledger(url) as allocations:
        workflow_ids = started(allocations)
    store = open_store(url, patience=Patience(60), migrate=False)
    fences = {WorkflowKey.parse(TENANT, workflow_id).stream: 2 for workflow_id in workflow_ids}

    def measured() -> float:
        groups = [_group(group, fences) for _ in range(lists)]
        with own_garbage():
            began = clock()
            for ready in groups:
                store.runs.recorder.insert_runs(ready, _refuse)
            return (clock() - began) * 1_000 / lists

    yield measured
    store.close()


@contextmanager
def _plain(opener: PlainOpener, scale: Scale) -> Iterator[Measure]:
    with opener() as plain:

        def measured() -> float:
            prepared = [ready_rows(scale.group) for _ in range(scale.lists)]
            with own_garbage():
                began = perf_counter()
                for rows in prepared:
                    plain.insert_many(rows)
                return _mean_ms(perf_counter() - began, scale)

        yield measured


def _routes() -> list[Route]:
    return [Route(history(uuid4().hex, 2)[-1].allocation, 0.0) for _ in range(WORKFLOWS)]


def _ids(scale: Scale) -> list[list[str]]:
    return [[uuid4().hex for _ in range(scale.group)] for _ in range(scale.lists)]


def _prepared(routes: list[Route], run_ids: list[str]) -> list[Allotment]:
    """What `spawn_runs` does with a list before it gives it to the writer."""
    actor, now = Actor(ACTOR), utc_now()
    allotments = []
    for number, text in enumerate(run_ids):
        route = routes[number % len(routes)]
        run_id = RunId(parse_identifier("run id", text))
        unit = Unit(parse_identifier("unit", text))
        allotment = Allotment(route.key, run_id, unit, actor, now)
        allotment.allot(route)
        allotments.append(allotment)
    return allotments


def _group(count: int, fences: dict[str, int]) -> RunGroup:
    rows = ready_rows(count)
    return RunGroup([row[0] for row in rows], [row[3].decode() for row in rows], fences)


def _refuse(_: object) -> NoReturn:
    raise AssertionError("nobody decides meanwhile")


def _mean_ms(seconds: float, scale: Scale) -> float:
    return seconds * 1_000 / scale.lists
