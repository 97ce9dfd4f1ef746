"""What is measured side by side: the same decision, kept in three ways on the same store."""

from abc import abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager

from tests.bench.held import Held

TENANT = "acme"
ACTOR = "scheduler-a"
REASON = "the eval set says so"
CURRENT = "v1"
CHALLENGER = "v2"


class LostRace(Exception):
    """The expected generation was no longer the newest."""


class Rival(Held):
    """One way to keep allocations, connected to one store.

    A `commit` loads what is stored, compares its generation with the expected one and
    writes a new share of the challenger, durably; all do that much, and no more is asked.
    """

    @abstractmethod
    def fill(self, key: str, generations: int) -> None:
        """Bring a new key to a generation, 2 or more: version v1 and the challenger v2."""

    @abstractmethod
    def commit(self, key: str, share_bps: int, expected: int) -> int:
        """Set the challenger's share and return the new generation; raises `LostRace`."""

    @abstractmethod
    def read(self, key: str) -> int:
        """Load the newest state from the store and return its generation."""

    @abstractmethod
    def contend(self, key: str, share_bps: int) -> None:
        """Set the share, whoever else does: after a lost race again, on fresh state."""

    @abstractmethod
    def insert_run(self, key: str, run_id: str) -> None:
        """Record a run in a commit of its own."""


Opener = Callable[[], AbstractContextManager[Rival]]
"""Connects a rival to its store; can be sent to another process."""
