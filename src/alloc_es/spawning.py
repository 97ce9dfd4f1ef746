"""Spawning runs: route in memory, verify and record in groups, answer after the commit."""

import asyncio
import weakref
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from itertools import repeat
from threading import Lock
from typing import NamedTuple

from alloc_es.allotting import Allotment, Route, RouteCache
from alloc_es.clock import Patience
from alloc_es.errors import (
    AllocationError,
    InvalidIdentifier,
    InvalidSetting,
    RunIdTaken,
    StoreUnavailable,
    UnknownWorkflow,
)
from alloc_es.events import DecisionEvent, Recorded, RunSpawned
from alloc_es.grouping import Batch, GroupWriter, taken_lock
from alloc_es.identity import Actor, RunId, Unit, WorkflowKey, parse_identifier, run_stream
from alloc_es.recording import Recording
from alloc_es.routing import Routing
from alloc_es.store.log import EventLog
from alloc_es.wording import shown

PEEK_AGE = 1.0
"""Seconds for which `peek` answers from memory what no spawn has verified since."""

_TURNS = 64


class SpawnRequest(NamedTuple):
    """One run for `Allocations.spawn_runs`.

    `unit` is what sticks to an arm, by default the run itself; `actor` is who asks, by
    default the connection's.
    """

    tenant_id: str
    workflow_id: str
    run_id: str
    unit: str | None = None
    actor: str | None = None


class SpawnCounts(NamedTuple):
    """What became of the runs that a connection was asked for, since it was made.

    `recorded` and `known` runs (those that an earlier call had recorded) in how many
    `groups`; how many runs were `rerouted` because a decision had come in between; and how
    many times a group was `retried` because the store was unavailable.
    """

    recorded: int
    known: int
    groups: int
    rerouted: int
    retried: int


class Spawner:
    """Routes and records runs; safe for threads and event loops."""

    def __init__(
        self,
        decisions: EventLog[DecisionEvent],
        runs: EventLog[RunSpawned],
        patience: Patience,
        clock: Callable[[], datetime],
        cached_workflows: int,
    ) -> None:
        self._decisions = decisions
        self._runs = runs
        self._patience = patience
        self._clock = clock
        self._routes = RouteCache(cached_workflows)
        self._reading = [Lock() for _ in range(_TURNS)]
        self._recording = Recording(decisions, runs, self._routes, patience)
        self._writer = GroupWriter(self._recording.record, patience)
        # When nobody closes it, and when the interpreter ends.
        weakref.finalize(self, self._writer.close)

    def close(self) -> None:
        """Record what waits; later runs are refused. Whoever closes it again waits as long."""
        self._writer.close()

    def peek(self, key: WorkflowKey, unit: Unit) -> Routing:
        """Where a unit would go now; records nothing. Raises `UnknownWorkflow`."""
        route = self._routes.get(key)
        if route is None or self._patience.monotonic() - route.read_at > PEEK_AGE:
            route = self._read(key)
        return route.router.route(unit)

    def learn(self, decision: Recorded[DecisionEvent], read_at: float) -> None:
        """Take over what this process decided, or read when it was the newest.

        Also where nothing is kept: another thread may be about to keep what it read before.
        """
        self._routes.put(Route(decision, read_at, self._patience.monotonic()))

    def spawn(
        self, key: WorkflowKey, run_id: RunId, unit: Unit, actor: Actor, timeout: float | None
    ) -> RunSpawned:
        """Record a run's version; *atomic*, and *idempotent* by the run id.

        Raises `UnknownWorkflow`, `RunIdTaken`, `StoreUnavailable` or `OutcomeUnknown`.
        """
        allotment = self._prepared(Allotment(key, run_id, unit, actor, self._clock()))
        return _only(self._settle((allotment,), timeout))

    async def aspawn(
        self, key: WorkflowKey, run_id: RunId, unit: Unit, actor: Actor, timeout: float | None
    ) -> RunSpawned:
        """The same from a task; the event loop goes on meanwhile."""
        allotment = self._prepared(Allotment(key, run_id, unit, actor, self._clock()))
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        batch = self._writer.submit((allotment,), future, timeout or self._patience.timeout)
        await self._writer.await_(batch, future)
        return _only(batch)

    def spawn_all(
        self, requests: Sequence[SpawnRequest], actor: Actor, timeout: float | None
    ) -> list[RunSpawned | AllocationError]:
        """Record up to a group of runs together; an outcome for each, in their order."""
        parsed = self._parsed(requests, actor)
        allotments = [item for item in parsed if isinstance(item, Allotment)]
        if not allotments:
            return [item for item in parsed if not isinstance(item, Allotment)]
        try:
            outcomes = iter(self._settle(allotments, timeout).outcomes())
        except StoreUnavailable as error:
            outcomes = repeat(error)
        return [next(outcomes) if isinstance(item, Allotment) else item for item in parsed]

    def find(self, key: WorkflowKey, run_id: RunId) -> RunSpawned | None:
        """What a run id was allotted, or None. Raises `RunIdTaken` for another workflow's."""
        stream = run_stream(key.tenant_id, run_id)
        held = self._patience.insist(lambda: self._runs.newest(stream))
        if held is None:
            return None
        if held.event.key != key:
            raise RunIdTaken(held.event, key)
        return held.event.model_copy(update={"replayed": True})

    def counts(self) -> SpawnCounts:
        """What was done so far."""
        counts = self._recording.counts
        return SpawnCounts(
            counts.recorded, counts.known, counts.groups, counts.rerouted, self._writer.retries
        )

    def _parsed(
        self, requests: Sequence[SpawnRequest], actor: Actor
    ) -> list[Allotment | AllocationError]:
        now = self._clock()
        has_room = self._writer.has_room
        keys: dict[tuple[str, str], WorkflowKey] = {}
        routes: dict[WorkflowKey, Route | None] = {}
        parsed: list[Allotment | AllocationError] = []
        for tenant_id, workflow_id, run_id, unit, named in requests:
            try:
                try:
                    key = keys[tenant_id, workflow_id]
                except (KeyError, TypeError):
                    key = WorkflowKey.parse(tenant_id, workflow_id)
                    keys[key] = key
                    routes[key] = self._routes.get(key) if has_room else None
                allotment = Allotment(
                    key,
                    RunId(parse_identifier("run id", run_id)),
                    Unit(parse_identifier("unit", run_id if unit is None else unit)),
                    actor if named is None else Actor(parse_identifier("actor", named)),
                    now,
                )
            except InvalidIdentifier as error:
                parsed.append(error)
            else:
                route = routes[key]
                if route is not None:
                    allotment.allot(route)
                parsed.append(allotment)
        return parsed

    def _prepared(self, allotment: Allotment) -> Allotment:
        """Allot by what is kept; what can't be is left to the writer."""
        if self._writer.has_room:
            route = self._routes.get(allotment.key)
            if route is not None:
                allotment.allot(route)
        return allotment

    def _settle(self, allotments: Sequence[Allotment], timeout: float | None) -> Batch:
        lock = taken_lock()
        batch = self._writer.submit(allotments, lock, timeout or self._patience.timeout)
        self._writer.wait(batch, lock)
        return batch

    def _read(self, key: WorkflowKey) -> Route:
        """Read a route, once for all the threads that ask at the same time."""
        asked_at = self._patience.monotonic()
        turn = self._reading[hash(key) % _TURNS]
        if not turn.acquire(timeout=self._patience.timeout):
            raise StoreUnavailable(f"other reads kept the one of {key} waiting")
        try:
            route = self._routes.get(key)
            now = self._patience.monotonic()
            # What was read since this thread asked will do, however long the read took.
            if route is not None and route.read_at >= min(asked_at, now - PEEK_AGE):
                return route
            newest = self._patience.insist(lambda: self._decisions.newest(key.stream))
            if newest is None:
                raise UnknownWorkflow(key)
            route = Route(newest, now, self._patience.monotonic())
            self._routes.put(route)
            return route
        finally:
            turn.release()


def parse_requests(requests: object) -> list[SpawnRequest]:
    """The requests that a caller gave; raises `InvalidSetting` for what is none."""
    if not isinstance(requests, Iterable):
        raise InvalidSetting("requests", f"{shown(requests)} holds no requests; give a list")
    asked = list(requests)
    for number, request in enumerate(asked):
        if not isinstance(request, SpawnRequest):
            problem = f"item {number}, {shown(request)}, is no SpawnRequest"
            raise InvalidSetting("requests", problem)
    return asked


def _only(batch: Batch) -> RunSpawned:
    (outcome,) = batch.outcomes()
    if isinstance(outcome, AllocationError):
        raise outcome
    return outcome
