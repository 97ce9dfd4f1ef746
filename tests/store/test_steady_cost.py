"""A decision costs the same after a thousand others, counted in questions and rows."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from alloc_es import Patience, Workflow, connect
from tests.support.recorders import READS, RECORDERS, WRITES

CYCLES = 1_000


@pytest.fixture
def workflow(store_url: str) -> Iterator[Workflow]:
    """A workflow that runs v1, through a connection for which no second ever passes.

    So that what is read again because it grew old does not depend on the machine's speed.
    """
    with connect(store_url, patience=Patience(10, monotonic=lambda: 0.0)) as allocations:
        handle = allocations.workflow("acme", "triage")
        handle.start("v1")
        yield handle


@pytest.fixture
def questions(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """Every question that any store is asked from now on, and how many rows answered it."""
    asked: list[tuple[str, int]] = []
    for recorder in RECORDERS:
        for name in (*READS, *WRITES):
            monkeypatch.setattr(recorder, name, counting(getattr(recorder, name), name, asked))
    return asked


def counting(genuine: Any, name: str, asked: list[tuple[str, int]]) -> Any:
    def ask(self: Any, *arguments: Any, **more: Any) -> Any:
        rows = genuine(self, *arguments, **more)
        asked.append((name, len(rows) if isinstance(rows, list) else 1))
        return rows

    return ask


def test_after_1000_cycles_the_next_command_is_accepted_at_the_same_cost(
    workflow: Workflow, questions: list[tuple[str, int]]
) -> None:
    """Red when `newest` reads a stream from its start, or a command folds the history."""
    # Reads the allocation that the other cycles then find in memory.
    cost_of_a_cycle(workflow, questions)
    first = cost_of_a_cycle(workflow, questions)
    for _ in range(CYCLES):
        workflow.register_challenger("v2")
        workflow.reject_challenger("v2")
    assert cost_of_a_cycle(workflow, questions) == first
    generation = 1 + 2 * (CYCLES + 3)
    assert workflow.allocation().generation == generation
    assert workflow.register_challenger("v3", expected_generation=generation).generation
    assert [each.generation for each in workflow.history()] == list(range(1, generation + 2))


def cost_of_a_cycle(
    workflow: Workflow, questions: list[tuple[str, int]]
) -> list[list[tuple[str, int]]]:
    """What the store is asked for two commands, an allocation, a routing and a run."""
    calls: list[Callable[[], object]] = [
        lambda: workflow.register_challenger("v2", command_id=None),
        workflow.allocation,
        lambda: workflow.peek("unit"),
        lambda: workflow.spawn_run(f"run-{workflow.allocation().generation}"),
        lambda: workflow.reject_challenger("v2"),
    ]
    costs = []
    for call in calls:
        questions.clear()
        call()
        costs.append(list(questions))
    return costs
