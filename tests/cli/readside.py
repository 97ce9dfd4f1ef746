"""What the tests of `projections` and `triggers` share: projections to install, and signals."""

import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

import alloc_es
from alloc_es.projection import Column, Projection, Rows, Table, installed
from tests.cli.terminal import Terminal

PATIENCE = 60.0


def brittle(version: int = 1) -> Projection:
    """A projection that counts decisions and can't handle one on a workflow called `bad`."""

    def apply(events: Sequence[alloc_es.Recorded[Any]], rows: Rows) -> None:
        for entry in events:
            if entry.event.key.workflow_id == "bad":
                raise ZeroDivisionError("nothing is divided by it")
            rows.add("counted", {tuple(entry.event.key): (1,)})

    columns = (
        Column("tenant_id", "text", "The tenant."),
        Column("workflow_id", "text", "The workflow."),
        Column("decisions", "integer", "How many."),
    )
    table = Table("counted", "Decisions.", columns, key=("tenant_id", "workflow_id"))
    return Projection(
        "brittle", version, "Breaks on purpose.", ("decisions",), (table,), apply=apply
    )


def install(monkeypatch: pytest.MonkeyPatch, *more: Projection) -> None:
    """Have more projections installed for commands that run inside this process."""
    for module in ("app", "cli.projecting"):
        monkeypatch.setattr(f"alloc_es.{module}.installed", lambda: ([*installed()[0], *more], {}))


def runs(url: str, number: int) -> None:
    """Spawn runs of a workflow that has one version; a thousand are a batch."""
    with alloc_es.connect(url, migrate=False) as allocations:
        allocations.workflow("acme", "lone").start("v1")
        requests = [alloc_es.SpawnRequest("acme", "lone", f"run-{n}") for n in range(number)]
        outcomes = allocations.spawn_runs(requests)
        assert all(isinstance(outcome, alloc_es.RunSpawned) for outcome in outcomes)


def reject(terminal: Terminal, *versions: str) -> None:
    """Register and reject challengers, each without a replacement."""
    with alloc_es.connect(terminal.store, actor="operator") as allocations:
        workflow = allocations.workflow("acme", "triage")
        for version in versions:
            workflow.register_challenger(version)
            workflow.reject_challenger(version, reason=f"{version} is worse")


@contextmanager
def signalled(number: signal.Signals, ready: Callable[[], object]) -> Iterator[None]:
    """Send this process a signal as soon as something is so; one that comes late is lost."""
    over = threading.Event()

    def send() -> None:
        while not over.wait(0.01):
            if ready():
                os.kill(os.getpid(), number)
                return

    thread = threading.Thread(target=send)
    handler = signal.signal(number, lambda *_: None)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(PATIENCE)
        signal.signal(number, handler)
