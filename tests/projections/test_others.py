"""What others do meanwhile: another version, a purge, an administrator, a Ctrl-C."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest

from alloc_es import Allocations, ProjectionOutdated, connect
from alloc_es.store.sqlite_datastore import _WriteTransaction
from tests.projections.models import seen
from tests.projections.reading import builds, execute, query, relations
from tests.support.raw import raw

KEY = ("acme", "triage")
VIEWED = seen(views={"tenants_seen": "SELECT DISTINCT tenant_id FROM seen"})


def test_two_versions_that_rebuild_at_once_come_to_an_end(
    durable: Allocations, durable_url: str
) -> None:
    """Red when each gives up the other's build and begins anew, for ever."""
    workflow = durable.workflow(*KEY)
    workflow.start("v1")
    for number in range(30):
        workflow.register_challenger(f"c{number}")
        workflow.reject_challenger(f"c{number}")

    def rebuild(version: int) -> None:
        with connect(durable_url) as own, suppress(ProjectionOutdated):
            own.projections(seen(version=version)).rebuild("seen")

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(rebuild, (2, 3)))
    (status,) = [s for s in durable.projections(seen()).status() if s.name == "seen"]
    assert status.built in (2, 3)
    assert len(durable.projections(seen(version=status.built)).rows("seen")) == 61


def test_a_build_that_a_newer_version_gave_up_is_not_begun_anew(durable: Allocations) -> None:
    """Red when it is: the newer one would be given up in turn."""
    durable.workflow(*KEY).start("v1")
    newer = durable.projections(seen(version=2))

    def overtaken(*_: int) -> None:
        newer._rebuilding(newer.known["seen"]).begin()

    with pytest.raises(ProjectionOutdated) as refused:
        durable.projections(seen()).rebuild("seen", report=overtaken)
    assert refused.value.built == 2


def test_a_purge_in_front_of_the_first_build_takes_its_number(allocations: Allocations) -> None:
    """Red when a first build that is begun meanwhile does not hear of the purge, or the purge
    begins one itself.
    """
    allocations.workflow(*KEY).start("v1")
    projections = allocations.projections(seen())
    before = relations(allocations)
    projections.purge("seen", "acme")
    assert builds(allocations, "seen") == [(1, "old")]
    assert relations(allocations) == before
    (status,) = [each for each in projections.status() if each.name == "seen"]
    assert (status.standing, status.left_out) == ("not built", ("acme",))
    projections.catch_up("seen")
    assert projections.rows("seen") == []


@pytest.mark.parametrize("view", ["tenants_seen", "seen"])
def test_a_rebuild_mends_views_that_were_dropped(durable: Allocations, view: str) -> None:
    """Red when only the base views are made, or a view that is not there can't be dropped."""
    durable.workflow(*KEY).start("v1")
    projections = durable.projections(VIEWED)
    projections.catch_up("seen")
    with durable._store.desk.writing() as session:
        session.run(f"DROP VIEW {view}{' CASCADE' if session.keeps_views else ''}")
    projections.rebuild("seen")
    assert query(durable, "SELECT * FROM tenants_seen") == [("acme",)]
    assert {"seen", "tenants_seen"} <= relations(durable)


@pytest.mark.parametrize("text", ["nonsense", "2026-03-01T12:00:01+00:00"])
def test_verify_finds_a_time_that_other_hands_have_written(sqlite_url: str, text: str) -> None:
    """Red when it can't be read, or counts for the same as the form that sorts."""
    with connect(sqlite_url) as allocations:
        allocations.workflow(*KEY).start("v1")
        projections = allocations.projections()
        projections.catch_up("current_split")
        execute(allocations, "UPDATE current_split__1 SET decided_at = ?", text)
        difference = projections.verify("current_split").difference
        assert difference is not None
        assert difference.found is not None
        assert difference.found["decided_at"] == text


def test_verify_begins_again_when_the_model_steps_back(durable: Allocations) -> None:
    """Red when a fold that is ahead of the model is compared with it."""
    durable.workflow(*KEY).start("v1")
    projections = durable.projections(seen())
    projections.catch_up("seen")
    durable.workflow("acme", "second").start("v1")
    projections.catch_up("seen")
    steps: list[int] = []

    def step_back(done: int, _: int) -> None:
        if not steps:
            execute(durable, "DELETE FROM seen__1 WHERE position = ?", 2)
            statement = "UPDATE projection_builds SET decisions_position = ? WHERE name = ?"
            execute(durable, statement, 1, "seen")
        steps.append(done)

    verified = projections.verify("seen", report=step_back)
    assert (verified.difference, verified.rows) == (None, 1)
    assert len(steps) > 1


def test_an_interrupted_begin_leaves_no_transaction_open(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Red when a connection goes back to the pool as a Ctrl-C has left it."""
    with connect(sqlite_url) as allocations:
        allocations.workflow(*KEY).start("v1")
        genuine = _WriteTransaction.__enter__

        def interrupted(self: _WriteTransaction) -> None:
            genuine(self)
            raise KeyboardInterrupt

        with monkeypatch.context() as patched:
            patched.setattr(_WriteTransaction, "__enter__", interrupted)
            with pytest.raises(KeyboardInterrupt):
                allocations.workflow(*KEY).register_challenger("v2")
        with raw(sqlite_url) as other:
            other.execute("BEGIN IMMEDIATE")
            other.execute("ROLLBACK")
        assert allocations.workflow(*KEY).register_challenger("v2").generation == 2


def test_a_tenant_of_a_model_of_another_version_is_not_put_in_place(
    allocations: Allocations,
) -> None:
    """Red when the swap does not look whose rows the live ones are."""
    allocations.workflow(*KEY).start("v1")
    projections = allocations.projections(seen())
    projections.catch_up("seen")

    def upgraded(*_: int) -> None:
        statement = "UPDATE projection_builds SET version = ? WHERE name = ? AND state = 'live'"
        execute(allocations, statement, 2, "seen")

    with pytest.raises(ProjectionOutdated):
        projections.rebuild("seen", tenant_id="acme", report=upgraded)
