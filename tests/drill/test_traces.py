"""What a drill leaves in a store that is in use: its own events, and nothing else."""

import threading
from collections.abc import Iterator

import pytest

import alloc_es
from alloc_es import Allocations
from alloc_es.drill.drill import drill
from alloc_es.drill.settings import Settings
from tests.projections.reading import relations, rows

TABLES = ("current_split", "current_arms", "decisions", "run_ledger", "run_counts")
ONLY_ACME = {table: {"acme"} for table in TABLES}


class Stopped(Exception):
    """What an application raises in the middle of a drill."""


@pytest.fixture
def used(durable_url: str) -> Iterator[Allocations]:
    """A store with a workflow in use, its read models built, and a scheduler at work."""
    with alloc_es.connect(durable_url, actor="operator") as allocations:
        workflow = allocations.workflow("acme", "triage")
        workflow.start("v1")
        workflow.register_challenger("v2", 1_000)
        workflow.spawn_run("run-1", unit="customer-17")
        allocations.projections().catch_up()
        allocations.new_incarnation("scheduler-1")
        yield allocations


def settings(url: str) -> Settings:
    return Settings(url=url, mode="thread", rounds=8, faults={"crowd": 1, "clock step": 1})


def tenants(allocations: Allocations) -> dict[str, set[object]]:
    """Whose rows each read model has, when it is up to date."""
    allocations.projections().catch_up()
    projections = allocations.projections()
    return {table: {row["tenant_id"] for row in projections.rows(table)} for table in TABLES}


def test_a_drill_leaves_nothing_behind_but_its_events(used: Allocations, durable_url: str) -> None:
    """Red when a read model shows the drill, or it supersedes a user's own participant."""
    before = {table: rows(used, table) for table in TABLES}
    made, decided = relations(used), used.position()
    verdict = drill(settings(durable_url))
    assert (verdict.passed, verdict.left_in) == (True, {})
    assert verdict.planned == verdict.faults == {"crowd": 1, "clock step": 1}
    assert tenants(used) == ONLY_ACME
    assert {table: rows(used, table) for table in TABLES} == before
    assert relations(used) == made
    newest = used.newest_incarnation("scheduler-1")
    assert newest
    assert newest.number == 1
    events = [each.event for each in used.decisions(after=decided)]
    assert {event.key.tenant_id for event in events} == {verdict.tenant}
    assert all("drill" in event.reason for event in events)
    assert len(events) == verdict.decisions
    assert sum(run.event.tenant_id == verdict.tenant for run in used.runs()) == verdict.runs
    with used.triggers("generate-loop", follow=False) as triggers:
        assert list(triggers) == []


def test_a_drill_builds_no_read_model_and_is_left_out_of_those_to_come(durable_url: str) -> None:
    """Red when a drill makes a table, or whoever builds the read models later sees it."""
    with alloc_es.connect(durable_url, actor="operator") as allocations:
        allocations.workflow("acme", "triage").start("v1")
        before = relations(allocations)
        verdict = drill(settings(durable_url))
        assert (verdict.problems, verdict.left_in) == ((), {})
        assert relations(allocations) == before
        for status in allocations.projections().status():
            assert (status.standing, status.left_out) == ("not built", (verdict.tenant,))
        allocations.projections().catch_up("current_split")
        shown = {row["tenant_id"] for row in allocations.projections().rows("current_split")}
        assert shown == {"acme"}


@pytest.mark.parametrize("error", [Stopped, KeyboardInterrupt])
def test_a_drill_that_is_broken_off_leaves_nothing_behind_either(
    used: Allocations, durable_url: str, error: type[BaseException]
) -> None:
    """Red when read models show half a drill, or a thread of it goes on."""

    def stop(done: int) -> None:
        if done == 3:
            raise error

    with pytest.raises(error) as ended:
        drill(settings(durable_url), on_round=stop)
    (tenant,) = {each.event.key.tenant_id for each in used.decisions()} - {"acme"}
    note = f"the drill's tenant is {tenant}, which the read models leave out"
    assert ended.value.__notes__ == [note]
    assert tenants(used) == ONLY_ACME
    names = [thread.name for thread in threading.enumerate()]
    assert [name for name in names if name.startswith("drill-")] == []


def test_a_drill_beside_other_traffic_finds_nothing(used: Allocations, durable_url: str) -> None:
    """Red when what others decide and spawn is taken for the drill's."""
    workflow = used.workflow("acme", "triage")

    def go_on(done: int) -> None:
        workflow.commit_allocation({"v2": 1_000 + done})
        workflow.spawn_run(f"run-{done + 1}", unit="customer-18")

    verdict = drill(settings(durable_url), on_round=go_on)
    assert verdict.problems == ()
    assert verdict.decisions == 4 + 8 + 1
    assert sum(run.event.tenant_id == "acme" for run in used.runs()) == 9


def test_a_read_model_that_can_t_leave_a_drill_out_is_named(
    used: Allocations, durable_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Red when a read model that still shows the drill is passed over in silence."""
    purge = alloc_es.Projections.purge

    def outdated(self: alloc_es.Projections, name: str, tenant_id: str) -> int:
        if name == "run_ledger":
            raise alloc_es.ProjectionOutdated(name, built=1, known=2)
        return purge(self, name, tenant_id)

    monkeypatch.setattr(alloc_es.Projections, "purge", outdated)
    verdict = drill(settings(durable_url))
    assert (list(verdict.left_in), verdict.passed) == (["run_ledger"], True)
    assert "was built by its version 1" in verdict.left_in["run_ledger"]
    assert used.store == verdict.store


def test_a_drill_creates_no_store(durable_url: str) -> None:
    """Red when a mistyped store comes to be."""
    with pytest.raises(alloc_es.StoreUnavailable):
        drill(settings(durable_url))
    with pytest.raises(alloc_es.StoreUnavailable):
        alloc_es.connect(durable_url, migrate=False)
