"""Where the time of a list of runs goes: its parts, each measured alone."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from time import perf_counter, thread_time
from typing import Any, NoReturn, TypeVar, cast

import alloc_es
from alloc_es.allotting import Allotment, RouteCache
from alloc_es.clock import Patience
from alloc_es.identity import Actor
from alloc_es.recording import Recording, _fenced
from alloc_es.store.recorder import RunGroup
from tests.bench.measuring import Case, Contender, Measure, own_garbage
from tests.bench.plain import PlainOpener, ready_rows
from tests.bench.rivals import ACTOR, TENANT
from tests.bench.scale import Scale
from tests.bench.spawning import WORKFLOWS, open_ledger, requests, spawn, started
from tests.bench.stores import Stores

T = TypeVar("T")
Clock = Callable[[], float]


def parts_of_a_list(stores: Stores, scale: Scale) -> Case:
    """`spawn_runs` beside what it is made of."""
    url = stores.url

    def recording(name: str, clock: Clock = perf_counter, *, empty: bool = False) -> Contender:
        return Contender(name, partial(_recording, url, scale, clock, empty))

    return Case(
        f"The parts of a list of {scale.group:,} runs, {stores.kind}",
        "ms",
        (
            Contender("alloc-es, the whole list", partial(_whole, url, scale)),
            Contender("parse, route and encode", partial(_preparing, url, scale)),
            Contender("sort, group and settle", partial(_settling, url, scale)),
            recording("driver and store: lock, check, insert"),
            recording("of that, this thread's own work", thread_time),
            recording("the same with no runs: lock and check", empty=True),
            Contender("answers", partial(_answering, url, scale)),
            Contender(
                "driver: executemany into an equal table", partial(_plain, stores.plain, scale)
            ),
        ),
        note="the driver's lines are given ready-made strings",
    )


class _Ready:
    """A store, and lists of runs of its workflows at each stage on their way to it."""

    def __init__(self, allocations: alloc_es.Allocations, group: int) -> None:
        self.allocations = allocations
        self._group = group
        self._workflow_ids = started(allocations)
        for workflow_id in self._workflow_ids:
            allocations.workflow(TENANT, workflow_id).peek("customer")

    def asked(self) -> list[alloc_es.SpawnRequest]:
        """As a caller gives them."""
        return requests(self._workflow_ids, self._group)

    def parsed(self, asked: list[alloc_es.SpawnRequest]) -> list[Allotment]:
        """As they are given to the writer. No public call stops here."""
        parsed = self.allocations._ledger.spawner._parsed(asked, Actor(ACTOR))
        return cast(list[Allotment], parsed)

    def grouped(self) -> RunGroup:
        """As they are given to the store."""
        return _fenced(sorted(self.parsed(self.asked()), key=lambda each: each.stream))

    def insert(self, group: RunGroup) -> None:
        """Give them to the store."""
        self.allocations._store.runs.recorder.insert_runs(group, _refuse)


@contextmanager
def _ready(url: str, scale: Scale) -> Iterator[_Ready]:
    with open_ledger(url) as allocations:
        yield _Ready(allocations, scale.group)


@contextmanager
def _whole(url: str, scale: Scale) -> Iterator[Measure]:
    with _ready(url, scale) as ready:
        yield lambda: _timed(scale, ready.asked, partial(spawn, ready.allocations))


@contextmanager
def _preparing(url: str, scale: Scale) -> Iterator[Measure]:
    with _ready(url, scale) as ready:
        yield lambda: _timed(scale, ready.asked, ready.parsed)


@contextmanager
def _settling(url: str, scale: Scale) -> Iterator[Measure]:
    """What the writer does around the store, with a store that takes everything at once."""
    nowhere = cast(Any, _TakesAll())
    recording = Recording(nowhere, nowhere, RouteCache(WORKFLOWS), Patience(60))
    with _ready(url, scale) as ready:
        yield lambda: _timed(scale, lambda: ready.parsed(ready.asked()), recording.record)


class _TakesAll:
    """A log of runs that has room for everything and keeps nothing."""

    def record(self, group: RunGroup, reroute: object) -> int:  # noqa: ARG002
        """A position."""
        return 1


@contextmanager
def _recording(url: str, scale: Scale, clock: Clock, empty: bool) -> Iterator[Measure]:
    """What the store's recorder takes for a group of runs that are ready."""
    with _ready(url, scale) as ready:

        def group() -> RunGroup:
            full = ready.grouped()
            return full._replace(streams=[], states=[]) if empty else full

        yield lambda: _timed(scale, group, ready.insert, clock)


@contextmanager
def _answering(url: str, scale: Scale) -> Iterator[Measure]:
    with _ready(url, scale) as ready:

        def recorded() -> list[Allotment]:
            allotments = ready.parsed(ready.asked())
            for allotment in allotments:
                allotment.record(1)
            return allotments

        def answer(allotments: list[Allotment]) -> None:
            for allotment in allotments:
                allotment.outcome()

        yield lambda: _timed(scale, recorded, answer)


@contextmanager
def _plain(opener: PlainOpener, scale: Scale) -> Iterator[Measure]:
    with opener() as plain:
        yield lambda: _timed(scale, lambda: ready_rows(scale.group), plain.insert_many)


def _timed(
    scale: Scale,
    prepare: Callable[[], T],
    work: Callable[[T], object],
    clock: Clock = perf_counter,
) -> float:
    """The mean milliseconds of the work on a list; what is prepared is not counted."""
    prepared: Sequence[T] = [prepare() for _ in range(scale.lists)]
    with own_garbage():
        began = clock()
        for each in prepared:
            work(each)
        return (clock() - began) * 1_000 / scale.lists


def _refuse(_: object) -> NoReturn:
    raise AssertionError("nobody decides meanwhile")
