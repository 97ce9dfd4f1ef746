"""A store with a past: who decided what at which minute, and what the runs got meanwhile."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path

import alloc_es
from tests.cli.terminal import Terminal

START = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
RUNS = 20
"""How many runs each of the first three generations got."""


def remembered(url: str) -> Terminal:
    """Six generations of acme/triage at 12:01 to 12:06, the first at position 2; 60 runs.

    Salts and ids are the same every time, and so is where the runs went.
    """
    ids, minutes = count(1), count(0)
    with alloc_es.connect(
        url,
        actor="ada",
        clock=lambda: START + timedelta(minutes=now),
        new_id=lambda: f"id-{next(ids)}",
    ) as allocations:
        now = next(minutes)
        allocations.workflow("acme", "other").start("w1")
        workflow = allocations.workflow("acme", "triage")
        acts: tuple[Callable[[], object], ...] = (
            lambda: workflow.start("v1", reason="first release"),
            lambda: workflow.register_challenger("v2"),
            lambda: workflow.commit_allocation({"v2": 2000}, reason="it does well", actor="bob"),
            lambda: workflow.promote_challenger("v2"),
            lambda: workflow.register_challenger("v3"),
            lambda: workflow.reject_challenger("v3", reason="worse on the eval set"),
        )
        for generation, act in enumerate(acts, start=1):
            now = next(minutes)
            act()
            if generation <= 3:
                names = [f"run-{generation}-{n}" for n in range(RUNS)]
                allocations.spawn_runs(
                    [alloc_es.SpawnRequest("acme", "triage", name) for name in names]
                )
    return Terminal(url)


def exported(terminal: Terminal, directory: Path) -> str:
    """The path of an export of everything, as CloudEvents."""
    path = directory / "logs.jsonl"
    terminal.ok("export", "--out", str(path))
    return str(path)
