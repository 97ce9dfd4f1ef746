"""Recording a group of runs: route, verify behind the fence, and settle what became of each."""

from collections.abc import Iterable, Sequence
from copy import copy
from dataclasses import dataclass
from functools import partial

from eventsourcing.persistence import IntegrityError

from alloc_es.allotting import Allotment, Route, RouteCache
from alloc_es.clock import Patience
from alloc_es.errors import (
    AllocationError,
    AnswerLost,
    StoreUnavailable,
    UnknownWorkflow,
)
from alloc_es.events import DecisionEvent, E, Recorded, RunSpawned
from alloc_es.identity import WorkflowKey
from alloc_es.scheduler_errors import IncarnationSuperseded
from alloc_es.store.log import EventLog, Found
from alloc_es.store.recorder import RunGroup


@dataclass(slots=True)
class Counts:
    """What happened to the runs of this connection so far."""

    recorded: int = 0
    known: int = 0
    groups: int = 0
    rerouted: int = 0


class Recording:
    """Settles groups of runs against the two logs; for one thread at a time."""

    def __init__(
        self,
        decisions: EventLog[DecisionEvent],
        runs: EventLog[RunSpawned],
        routes: RouteCache,
        patience: Patience,
    ) -> None:
        self._decisions = decisions
        self._runs = runs
        self._routes = routes
        self._patience = patience
        self.counts = Counts()

    def record(self, allotments: Sequence[Allotment]) -> None:
        """Settle every run: recorded, known from before, or impossible.

        Raises `StoreUnavailable` when that can't be done now, `AnswerLost` when it may have
        been; what was settled before stays so.
        """
        self._route([a for a in allotments if a.route is None])
        left = [a for a in allotments if not a.settled]
        while left:
            # Of those with the same run id the first one is tried; the others then find it.
            distinct: dict[str, Allotment] = {}
            for allotment in left:
                distinct.setdefault(allotment.stream, allotment)
            self._record_distinct([distinct[stream] for stream in sorted(distinct)])
            left = [a for a in left if not a.settled]

    def _route(self, allotments: Sequence[Allotment]) -> None:
        """Allot what came without a route, reading those that are not kept all at once."""
        asked = {a.key for a in allotments}
        routes = {key: route for key in asked if (route := self._routes.get(key))}
        if missing := asked - routes.keys():
            now = self._patience.monotonic()
            found = _read(self._decisions, [key.stream for key in missing])
            for key in missing:
                newest = found.get(key.stream)
                if isinstance(newest, Recorded):
                    routes[key] = Route(newest, now, self._patience.monotonic())
                    self._routes.put(routes[key])
            _refuse((a for a in allotments if a.key not in routes), found)
        for allotment in allotments:
            if not allotment.settled:
                allotment.allot(routes[allotment.key])

    def _record_distinct(self, group: Sequence[Allotment]) -> None:
        now = self._patience.monotonic()
        try:
            position = self._runs.record(_fenced(group), partial(self._reroute, group))
        except IntegrityError as error:
            self._find(group, error)
            return
        except IncarnationSuperseded as error:
            self._supersede(group, error)
            return
        except AnswerLost:
            for allotment in group:
                allotment.doubt()
            raise
        known_at = self._patience.monotonic()
        unsettled = [a for a in group if not a.settled]
        for allotment in unsettled:
            allotment.record(position)
            assert allotment.route is not None
            allotment.route.confirm(now, known_at)
        self.counts.groups += 1
        self.counts.recorded += len(unsettled)

    def _reroute(self, group: Sequence[Allotment], found: Found[DecisionEvent]) -> RunGroup:
        """Allot again what a decision came before; nothing is decided meanwhile."""
        now = self._patience.monotonic()
        routes: dict[WorkflowKey, Route] = {}
        for newest in found.values():
            if isinstance(newest, Recorded):
                route = Route(newest, now, now)
                routes[route.key] = route
                self._routes.replace(route)
        _refuse((a for a in group if a.key not in routes), found)
        left = [a for a in group if not a.settled]
        for allotment in left:
            route = routes[allotment.key]
            assert allotment.route is not None
            if allotment.route.digest != route.digest:
                allotment.allot(route)
                self.counts.rerouted += 1
        return _fenced(left)

    def _supersede(self, group: Sequence[Allotment], error: IncarnationSuperseded) -> None:
        """Refuse a group, but for the runs that an earlier attempt of it has recorded.

        What was sent before is committed by now, or never will be.
        """
        if doubted := [a.stream for a in group if a.in_doubt]:
            self._settle(group, _read(self._runs, doubted))
        for allotment in group:
            if not allotment.settled:
                # Each caller raises it, and a raised error gathers the tracebacks of all who do.
                allotment.fail(copy(error))

    def _find(self, group: Sequence[Allotment], error: IntegrityError) -> None:
        """Settle those of a refused group that are known; the others are tried again."""
        found = _read(self._runs, [a.stream for a in group])
        if not found:
            problem = f"{len(group)} runs could not be recorded: {error}"
            raise StoreUnavailable(problem, retryable=False) from error
        self._settle(group, found)

    def _settle(self, group: Sequence[Allotment], found: Found[RunSpawned]) -> None:
        for allotment in group:
            held = found.get(allotment.stream)
            if isinstance(held, Recorded):
                allotment.find(held.event)
                self.counts.known += 1
            elif held is not None:
                allotment.fail(held)


def _read(log: EventLog[E], streams: Sequence[str]) -> Found[E]:
    """What lies in some streams; a read that was lost leaves nothing in doubt."""
    try:
        return log.newest_of(streams)
    except AnswerLost as error:
        raise StoreUnavailable(error.problem, retryable=error.retryable) from error


def _refuse(allotments: Iterable[Allotment], found: Found[DecisionEvent]) -> None:
    """Say of runs without a route why they have none."""
    for allotment in allotments:
        unreadable = found.get(allotment.key.stream)
        error: AllocationError = UnknownWorkflow(allotment.key)
        allotment.fail(unreadable if isinstance(unreadable, AllocationError) else error)


def _fenced(group: Sequence[Allotment]) -> RunGroup:
    """A group as the store takes it; all runs of a workflow by its newest route."""
    newest: dict[str, Route] = {}
    for allotment in group:
        route = allotment.route
        assert route is not None
        held = newest.setdefault(route.stream, route)
        if held.digest != route.digest and held.read_at < route.read_at:
            newest[route.stream] = route
    for allotment in group:
        route = allotment.route
        assert route is not None
        if newest[route.stream].digest != route.digest:
            allotment.allot(newest[route.stream])
    return RunGroup(
        [a.stream for a in group],
        [a.state for a in group],
        {stream: route.digest for stream, route in newest.items()},
    )
