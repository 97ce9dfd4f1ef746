"""A scheduler process that is stopped in the middle of a command and of a spawn, and wakes up."""

from collections.abc import Callable
from multiprocessing.connection import Connection
from threading import Event, Semaphore
from typing import Any

from alloc_es import (
    AllocationError,
    Incarnation,
    IncarnationSuperseded,
    Workflow,
    connect,
)
from tests.support.overlap import in_threads

KEY = ("acme", "triage")
NAME = "scheduler-a"

Outcome = str | AllocationError
"""What an attempt recorded, or how it was refused."""


def be_stopped(pipe: Connection, url: str, held: Incarnation) -> None:
    """Decide and spawn as an incarnation, and tell the parent when both are about to record.

    When the parent has answered they go on, and what came of them is sent; then what comes of
    the next attempts.
    """
    arrived, go_on = Semaphore(0), Event()
    with connect(url, incarnation=held, timeout=60) as allocations:
        log, runs = allocations._store.decisions, allocations._store.runs
        log.append = held_up(log.append, arrived, go_on)  # type: ignore[method-assign]
        runs.record = held_up(runs.record, arrived, go_on)  # type: ignore[method-assign]

        def answer() -> str:
            for _ in range(2):
                arrived.acquire()
            pipe.send("about to record")
            pipe.recv()
            go_on.set()
            return "answered"

        workflow = allocations.workflow(*KEY)
        pipe.send(in_threads(*attempts(workflow, "in the middle"), answer)[:2])
        pipe.send(in_threads(*attempts(workflow, "afterwards")))


def attempts(workflow: Workflow, run_id: str) -> tuple[Callable[[], Outcome], ...]:
    """A decision, and a run."""

    def decide() -> Outcome:
        return type(workflow.promote_challenger("v2").event).__name__

    def spawn() -> Outcome:
        return workflow.spawn_run(run_id).run_id

    return decide, spawn


def held_up(genuine: Callable[..., Any], arrived: Semaphore, go_on: Event) -> Callable[..., Any]:
    """The same call, which says that it has come and waits until it may go on."""

    def call(*arguments: Any) -> Any:
        arrived.release()
        go_on.wait()
        return genuine(*arguments)

    return call


def facts(error: object) -> tuple[str, int, int | None]:
    """What the refusal of an old incarnation says."""
    assert isinstance(error, IncarnationSuperseded), error
    return error.name, error.incarnation, error.successor
