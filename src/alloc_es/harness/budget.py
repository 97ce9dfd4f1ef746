"""How many threads participants may have together, and who has them."""

import os
from pathlib import Path
from threading import Lock

from alloc_es.harness.errors import ThreadBudgetSpent

THREADS_PER_CORE = 4
"""Participants mostly wait for the store, so a core serves several."""

_TOPOLOGY = Path("/sys/devices/system/cpu")


def physical_cores() -> int:
    """The physical cores that this process may run on; logical ones where that can't be told."""
    usable = _usable()
    cores = {_core(number) for number in usable}
    return len(usable) if None in cores else len(cores)


def _usable() -> set[int]:
    if hasattr(os, "sched_getaffinity"):
        return os.sched_getaffinity(0)
    return set(range(os.cpu_count() or 1))


def _core(number: int) -> tuple[str, str] | None:
    """The package and core of a logical processor, as Linux tells it."""
    place = _TOPOLOGY / f"cpu{number}" / "topology"
    try:
        package, core = (
            (place / name).read_text().strip() for name in ("physical_package_id", "core_id")
        )
    except OSError:
        return None
    return package, core


class Budget:
    """Threads that are handed out by name, and refused when they are spent."""

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self._given: dict[str, int] = {}
        self._lock = Lock()

    @property
    def given(self) -> dict[str, int]:
        """Who has how many."""
        with self._lock:
            return dict(self._given)

    def take(self, name: str, threads: int) -> None:
        """Hand threads out; raises `ThreadBudgetSpent` when too few are left."""
        with self._lock:
            if sum(self._given.values()) + threads > self.threads:
                raise ThreadBudgetSpent(name, threads, self.threads, self._given)
            self._given[name] = threads

    def give_back(self, name: str) -> None:
        """Take back what a participant had, if it had any."""
        with self._lock:
            self._given.pop(name, None)
