"""Spawning runs: route by the newest allocation and record which version the run got."""

from collections.abc import Callable
from datetime import datetime

from alloc_es.allocation import Allocation
from alloc_es.clock import Patience
from alloc_es.committing import append
from alloc_es.errors import RunIdTaken, StoreUnavailable, UnknownWorkflow
from alloc_es.events import DecisionEvent, RunSpawned
from alloc_es.identity import Actor, RunId, Unit, WorkflowKey, run_stream
from alloc_es.routing import Routing, route
from alloc_es.store.log import EventLog


class Spawner:
    """Routes and records runs; safe for threads."""

    def __init__(
        self,
        decisions: EventLog[DecisionEvent],
        runs: EventLog[RunSpawned],
        patience: Patience,
        clock: Callable[[], datetime],
    ) -> None:
        self._decisions = decisions
        self._runs = runs
        self._patience = patience
        self._clock = clock

    def peek(self, key: WorkflowKey, unit: Unit) -> Routing:
        """Where a unit would go now; records nothing. Raises `UnknownWorkflow`."""
        return route(self._allocation(key, self._patience.deadline()), unit)

    def spawn(self, key: WorkflowKey, run_id: RunId, unit: Unit, actor: Actor) -> RunSpawned:
        """Record a run's version; *atomic*, and *idempotent* by the run id.

        Raises `UnknownWorkflow`, `RunIdTaken`, `StoreUnavailable` or `OutcomeUnknown`.
        """
        deadline = self._patience.deadline()
        event = self._allot(key, run_id, unit, actor, deadline)
        place = append(self._runs, event, self._patience, deadline)
        if place.holder is None:
            raise StoreUnavailable(f"run {run_id} of {key} could not be recorded", retryable=False)
        return event if place.ours else _known(place.holder.event, key)

    def find(self, key: WorkflowKey, run_id: RunId) -> RunSpawned | None:
        """What a run id was allotted, or None. Raises `RunIdTaken` for another workflow's."""
        stream = run_stream(key.tenant_id, run_id)
        held = self._patience.insist(lambda: self._runs.newest(stream))
        return _known(held.event, key) if held else None

    def _allot(
        self, key: WorkflowKey, run_id: RunId, unit: Unit, actor: Actor, deadline: float
    ) -> RunSpawned:
        routing = route(self._allocation(key, deadline), unit)
        return RunSpawned(
            tenant_id=key.tenant_id,
            workflow_id=key.workflow_id,
            run_id=run_id,
            unit=unit,
            version=routing.version,
            arm=routing.arm,
            generation=routing.generation,
            bucket=routing.bucket,
            slot=routing.slot,
            episode=routing.episode,
            salt=routing.salt,
            hash_version=routing.hash_version,
            actor=actor,
            recorded_at=self._clock(),
        )

    def _allocation(self, key: WorkflowKey, deadline: float) -> Allocation:
        newest = self._patience.insist(lambda: self._decisions.newest(key.stream), deadline)
        if newest is None:
            raise UnknownWorkflow(key)
        return newest.event.allocation


def _known(recorded: RunSpawned, asked: WorkflowKey) -> RunSpawned:
    if recorded.key != asked:
        raise RunIdTaken(recorded, asked)
    return recorded.model_copy(update={"replayed": True})
