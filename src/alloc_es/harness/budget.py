"""How many threads participants may have together, and who has them."""

from threading import Lock

from alloc_es.harness.errors import ThreadBudgetSpent

THREADS_PER_CORE = 4
"""Participants mostly wait for the store, so a core serves several."""


class Budget:
    """Threads that are handed out by name, and refused when they are spent; safe for threads."""

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self._given: dict[str, int] = {}
        self._lock = Lock()

    def __repr__(self) -> str:
        given = self.given
        holders = "".join(f", {name} has {count}" for name, count in given.items())
        return f"<Budget, {sum(given.values())} of {self.threads} threads given{holders}>"

    @property
    def given(self) -> dict[str, int]:
        """Who has how many."""
        with self._lock:
            return dict(self._given)

    def take(self, name: str, threads: int) -> None:
        """Let a name have so many threads, instead of those it has.

        Raises `ThreadBudgetSpent` when too few are left, and then nothing has changed.
        """
        with self._lock:
            others = {each: count for each, count in self._given.items() if each != name}
            if sum(others.values()) + threads > self.threads:
                raise ThreadBudgetSpent(name, threads, self.threads, others)
            self._given[name] = threads

    def give_back(self, name: str) -> None:
        """Take back what a name has, if it has any."""
        with self._lock:
            self._given.pop(name, None)
