"""A process that has just started needs the decisions, and nothing of the run log."""

from collections.abc import Callable
from typing import Any

import pytest

from alloc_es import Allocations, SpawnRequest, connect
from tests.support.recorders import READS, WRITES

RUNS = 1_000


def test_a_process_that_has_just_started_answers_and_routes_without_reading_the_run_log(
    durable_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Red when a run is looked for in the run log before it is recorded."""
    with connect(durable_url) as allocations:
        workflow = allocations.workflow("acme", "triage")
        workflow.start("v1")
        workflow.register_challenger("v2", share_bps=5_000)
        allocations.spawn_runs(SpawnRequest("acme", "triage", f"run-{n}") for n in range(RUNS))
    with connect(durable_url) as restarted:
        asked = asked_of_the_run_log(restarted, monkeypatch)
        workflow = restarted.workflow("acme", "triage")
        assert workflow.allocation().split == {"v1": 5_000, "v2": 5_000}
        assert workflow.peek("customer-1").generation == 2
        assert asked == []
        assert workflow.spawn_run("run-new", unit="customer-1").generation == 2
        assert asked == ["insert_runs"]


def asked_of_the_run_log(allocations: Allocations, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of all that the run log's recorder is asked for from now on."""
    recorder = allocations._store.runs.recorder
    asked: list[str] = []

    def told(name: str, genuine: Callable[..., Any]) -> Callable[..., Any]:
        def ask(*arguments: Any, **more: Any) -> Any:
            asked.append(name)
            return genuine(*arguments, **more)

        return ask

    for name in (*READS, *WRITES):
        monkeypatch.setattr(recorder, name, told(name, getattr(recorder, name)))
    return asked
