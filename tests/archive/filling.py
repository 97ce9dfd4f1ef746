"""Given a store with runs, some of which are archived."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from itertools import count
from pathlib import Path
from typing import NamedTuple

from alloc_es import Allocations, Recorded, RunSpawned, connect
from alloc_es.archiving import Archived, archive
from alloc_es.projections import Projections
from tests.core.given import START
from tests.projections.writing import spawn

KEY = ("acme", "triage")
RUNS = 12


class Filled(NamedTuple):
    """An open store, what its run log held when it was filled, and where to archive."""

    allocations: Allocations
    url: str
    runs: list[Recorded[RunSpawned]]
    home: Path

    def archive(self, up_to: int, name: str = "first") -> Archived:
        """Archive so many of the runs that were there."""
        made = archive(self.allocations, self.home / name, up_to=self.runs[up_to - 1].position)
        assert made is not None
        return made

    def reopened(self, *names: str) -> Allocations:
        """Another connection, with some of the archives."""
        archives = [self.home / name for name in names]
        return connect(self.url, actor="ada", migrate=False, archives=archives)


@contextmanager
def filled(url: str, home: Path, *, at_once: int = RUNS) -> Iterator[Filled]:
    """A store of one workflow with a challenger, and the runs `run 01` to `run 12`.

    So many `at_once`, the nth of these lists at `at_minute(n)`.
    """
    minutes = count(-1)
    with connect(url, actor="ada", clock=lambda: at_minute(next(minutes))) as allocations:
        workflow = allocations.workflow(*KEY)
        workflow.start("v1")
        workflow.register_challenger("v2", share_bps=4_000)
        for first in range(0, RUNS, at_once):
            numbers = range(first + 1, first + at_once + 1)
            spawn(allocations, workflow, [f"run {number:02}" for number in numbers])
        yield Filled(allocations, url, list(allocations.runs()), home)


def at_minute(number: int) -> datetime:
    """A time on the clock of `filled`."""
    return START + timedelta(minutes=number)


def caught_up(allocations: Allocations) -> Projections:
    """The read models, of which `run_ledger` is at the end of the log."""
    projections = allocations.projections()
    projections.catch_up("run_ledger")
    return projections
