"""What the recording of runs itself calls can't wait for the recording of runs."""

from typing import Any

import pytest

from alloc_es import AllocationError, StoreUnavailable, Workflow
from tests.support.recorders import before_each


def test_a_run_spawned_from_within_the_recording_of_runs_is_refused_at_once(
    workflow: Workflow, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Red when the writer's own thread waits for itself, as in a `__del__` that the collector
    calls there: all callers then wait with it.
    """
    refused: list[Any] = []

    def spawn_another(_: str) -> None:
        try:
            workflow.spawn_run("inner", timeout=5)
        except AllocationError as error:
            refused.append(error)

    before_each(monkeypatch, ("insert_runs",), spawn_another)
    assert workflow.spawn_run("outer").replayed is False
    (error,) = refused
    assert isinstance(error, StoreUnavailable)
    assert (error.retryable, "while runs are recorded" in str(error)) == (False, True)
