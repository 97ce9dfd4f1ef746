"""A process that asks for the same runs as its twin; see `tests.support.children`."""

from collections.abc import Sequence
from typing import Any

from alloc_es import RunSpawned, SpawnRequest, connect


def ask(
    barrier: Any, url: str, name: str, lists: Sequence[Sequence[SpawnRequest]]
) -> tuple[int, list[dict[str, Any]]]:
    """Ask for lists of runs, the first together with the twin: how many were known, and all.

    The twins wait for each other once more behind the first list, so that neither is done
    before the other has begun.
    """
    answers: list[dict[str, Any]] = []
    with connect(url, actor=name, timeout=60, migrate=False) as allocations:
        barrier.wait()
        for number, requests in enumerate(lists):
            for outcome in allocations.spawn_runs([r._replace(unit=name) for r in requests]):
                assert isinstance(outcome, RunSpawned), outcome
                answers.append(outcome.model_dump(mode="json"))
            if number == 0:
                barrier.wait()
        return allocations.spawn_counts().known, answers
