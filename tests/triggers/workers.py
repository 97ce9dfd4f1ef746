"""Rejections to react to, workers that react, and what the store says of their deliveries."""

from collections.abc import Iterable
from contextlib import ExitStack, suppress
from types import TracebackType
from typing import Any, Self

from alloc_es import Allocations, Trigger, Triggers, WorkflowAlreadyStarted
from tests.support.raw import Raw

HOUR = 3_600.0
"""The lease of workers whose beats a test makes by itself: four of them are 15 minutes."""

_FOR_EVER = 50 * HOUR

DELIVERIES = (
    "SELECT position, attempts, worker IS NOT NULL, acknowledged_at IS NOT NULL"
    " FROM trigger_deliveries WHERE consumer = ? ORDER BY position"
)


class Time:
    """A monotonic clock that moves by `pace` whenever it is looked at."""

    def __init__(self) -> None:
        self.now = 0.0
        self.pace = 0.0

    def monotonic(self) -> float:
        self.now += self.pace
        assert self.now < _FOR_EVER
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


class Office:
    """Hires workers of the consumer "loop" on one connection."""

    def __init__(self, allocations: Allocations) -> None:
        self.allocations = allocations
        self._workers = ExitStack()

    def hire(self, consumer: str = "loop", **arguments: Any) -> Triggers:
        """A worker that ends where there is nothing to take, with a lease of an hour."""
        settings = {"follow": False, "lease": HOUR, **arguments}
        return self._workers.enter_context(self.allocations.triggers(consumer, **settings))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._workers.close()


def reject(
    allocations: Allocations, *versions: str, tenant: str = "acme", workflow: str = "triage"
) -> list[int]:
    """Register and reject versions, one after the other; the positions of the rejections."""
    handle = allocations.workflow(tenant, workflow)
    with suppress(WorkflowAlreadyStarted):
        handle.start("v1")
    return [_rejected(allocations, version, tenant, workflow) for version in versions]


def _rejected(allocations: Allocations, version: str, tenant: str, workflow: str) -> int:
    handle = allocations.workflow(tenant, workflow)
    handle.register_challenger(version)
    handle.reject_challenger(version, reason=f"{version} is worse", actor="judge")
    return handle.newest().position


def positions(triggers: Iterable[Trigger]) -> list[int]:
    """Where they are in the log."""
    return [trigger.position for trigger in triggers]


def acknowledge_all(worker: Triggers) -> list[int]:
    """Take and acknowledge until nothing is left; what was, in order."""
    done = []
    for trigger in worker:
        worker.acknowledge(trigger)
        done.append(trigger.position)
    return done


def deliveries(allocations: Allocations, consumer: str = "loop") -> list[tuple[int, int, int, int]]:
    """Of each trigger its position, its attempts, and whether it is held, and acknowledged."""
    with allocations._store.desk.reading() as session:
        rows = session.rows(DELIVERIES, consumer)
    return [(row[0], row[1], int(row[2]), int(row[3])) for row in rows]


def acknowledged(store: Raw, consumer: str = "loop") -> int:
    """How many triggers are."""
    counted = (
        "SELECT count(*) FROM trigger_deliveries WHERE consumer = ? AND acknowledged_at IS NOT NULL"
    )
    ((count,),) = store.execute(counted, consumer)
    return int(count)
