"""`Allocations.explain_run` on every store."""

import pytest

import alloc_es
from alloc_es import InvalidIdentifier, UnknownRun
from alloc_es.store.recorder import LogRecorder


def test_a_run_is_explained_by_the_decision_that_it_names_and_the_next(store_url: str) -> None:
    """Red when the newest decision is taken, or the run of another tenant."""
    with alloc_es.connect(store_url, actor="operator") as allocations:
        for tenant in ("acme", "beta"):
            workflow = allocations.workflow(tenant, "triage")
            workflow.start("v1")
            workflow.register_challenger("v2", 5000)
            workflow.spawn_run("run-1", unit=f"of {tenant}")
            workflow.promote_challenger("v2")
            workflow.register_challenger("v3")
        history = allocations.workflow("beta", "triage").history()
        found = allocations.explain_run("beta", "run-1")
        assert found.run.event.unit == "of beta"
        assert (found.decision, found.following) == (history[1], history[2])
        assert (found.verified, found.digest_matches, found.holds) == (True, True, True)
        assert found.recomputed is not None
        assert found.recomputed.version == found.run.event.version


def test_a_run_that_was_never_spawned_is_refused(store_url: str) -> None:
    """Red when it is None, or a run of another tenant is found."""
    with alloc_es.connect(store_url) as allocations:
        workflow = allocations.workflow("acme", "triage")
        workflow.start("v1")
        workflow.spawn_run("run-1")
        with pytest.raises(UnknownRun) as raised:
            allocations.explain_run("beta", "run-1")
        refusal = raised.value
        facts = (refusal.tenant_id, refusal.run_id, refusal.where)
        assert facts == ("beta", "run-1", allocations.store)
        with pytest.raises(InvalidIdentifier):
            allocations.explain_run("acme", "")


def test_it_asks_each_log_once(sqlite_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Red when the whole history of the workflow is read, or a log is asked twice."""
    with alloc_es.connect(sqlite_url) as allocations:
        workflow = allocations.workflow("acme", "triage")
        workflow.start("v1")
        workflow.register_challenger("v2", 0)
        workflow.spawn_run("run-1")
        for share in range(1, 20):
            workflow.commit_allocation({"v2": share})
        seen: list[int] = []
        recorder: type[LogRecorder] = type(allocations._store.decisions.recorder)
        select = recorder.select_events

        def counted(*given: object, **keywords: object) -> object:
            rows = select(*given, **keywords)  # type: ignore[arg-type]
            seen.append(len(rows))
            return rows

        monkeypatch.setattr(recorder, "select_events", counted)
        assert allocations.explain_run("acme", "run-1").holds
        assert seen == [1, 2]
