"""What a purge leaves out, what removing leaves behind, and views that can't be made."""

from dataclasses import replace

import pytest

from alloc_es import (
    Allocations,
    InvalidSetting,
    ProjectionNotBuilt,
    ProjectionOutdated,
    ProjectionStopped,
)
from tests.projections.models import seen
from tests.projections.reading import relations

VIEW = {"tenants_seen": "SELECT tenant_id FROM seen"}


def started(allocations: Allocations) -> None:
    """Three decisions, two of them of one tenant."""
    for tenant, workflow in (("acme", "triage"), ("acme", "draft"), ("beta", "triage")):
        allocations.workflow(tenant, workflow).start("v1")


def test_what_a_model_leaves_out_is_said_wherever_it_is_looked_at(
    allocations: Allocations,
) -> None:
    """Red when a purged tenant is known to a table of the store only."""
    started(allocations)
    projections = allocations.projections(seen())
    projections.catch_up("seen")
    assert projections.purge("seen", "acme") == 2
    assert projections.purge("seen", "acme") == 0
    assert projections.purge("seen", "nobody") == 0
    (status,) = [each for each in projections.status() if each.name == "seen"]
    assert status.left_out == ("acme", "nobody")
    assert projections.verify("seen").left_out == ("acme", "nobody")
    projections.rebuild("seen", tenant_id="acme")
    assert projections.verify("seen").left_out == ("nobody",)
    assert len(projections.rows("seen")) == 3


def test_a_tenant_of_a_model_that_is_not_built_is_left_out_of_it(
    allocations: Allocations,
) -> None:
    """Red when a purge in front of the first build is forgotten."""
    started(allocations)
    projections = allocations.projections(seen())
    assert projections.purge("seen", "acme") == 0
    projections.catch_up("seen")
    assert [row["tenant_id"] for row in projections.rows("seen")] == ["beta"]


def test_a_model_of_another_version_is_not_purged(allocations: Allocations) -> None:
    """Red when code of one version touches the rows of another one."""
    started(allocations)
    allocations.projections(seen()).catch_up("seen")
    with pytest.raises(ProjectionOutdated):
        allocations.projections(seen(version=2)).purge("seen", "acme")
    assert len(allocations.projections(seen()).rows("seen")) == 3


def test_a_stopped_model_of_another_version_asks_for_a_rebuild(allocations: Allocations) -> None:
    """Red when it is called stopped: mending its code would do nothing."""

    def apply(*_: object) -> None:
        raise LookupError("no rate")

    started(allocations)
    projections = allocations.projections(seen())
    projections.catch_up("seen")
    allocations.workflow("acme", "third").start("v1")
    with pytest.raises(ProjectionStopped, match=r"no rate at test_parting.py:\d+;"):
        allocations.projections(seen(apply)).catch_up("seen")
    (stopped,) = [s for s in allocations.projections(seen()).status() if s.name == "seen"]
    assert stopped.standing == "stopped"
    newer = allocations.projections(seen(version=2))
    (outdated,) = [each for each in newer.status() if each.name == "seen"]
    assert outdated.standing == "outdated"


def test_a_removed_model_leaves_nothing_and_can_be_built_again(
    allocations: Allocations,
) -> None:
    """Red when views, tables or what is left out stay behind, or the logs are touched."""
    before = relations(allocations)
    started(allocations)
    projections = allocations.projections(seen(views=VIEW))
    projections.catch_up("seen")
    projections.purge("seen", "acme")
    allocations.projections().remove("seen")
    assert relations(allocations) == before
    assert "seen" not in [status.name for status in allocations.projections().status()]
    with pytest.raises(InvalidSetting, match="has no read model here"):
        allocations.projections().remove("seen")
    with pytest.raises(ProjectionNotBuilt):
        projections.rows("seen")
    projections.catch_up("seen")
    assert len(projections.rows("seen")) == 3


@pytest.mark.parametrize("select", ["SELECT nothing FROM seen", "SELECT * FROM nowhere", "SELEKT"])
def test_a_view_that_can_not_be_made_stops_its_projection_on_every_store(
    allocations: Allocations, select: str
) -> None:
    """Red when it is taken for the store being away, or only its readers find out."""
    started(allocations)
    broken = seen(views={"tenants_seen": select})
    projections = allocations.projections(broken, replace(SECOND, views={}))
    with pytest.raises(ProjectionStopped) as stopped:
        projections.catch_up()
    met = stopped.value
    assert (met.log, met.position, met.event) == (None, None, "view tenants_seen")
    standings = {status.name: status for status in projections.status()}
    assert standings["zz_seen"].standing == "live"
    assert standings["seen"].standing == "stopped"
    assert str(standings["seen"].failure) == str(met)
    said: list[str] = []
    with projections.follow("seen", tell=said.append) as follower:
        while follower.states["seen"] != "stopped":
            # The test's own time limit ends this if it never comes to pass.
            pass
    assert str(met) in said
    mended = allocations.projections(seen(views=VIEW))
    mended.catch_up("seen")
    (status,) = [each for each in mended.status() if each.name == "seen"]
    assert (status.standing, status.failure) == ("live", None)


SECOND = seen(
    lambda events, rows: rows.insert(
        "zz_seen", [(*entry.event.key, entry.position) for entry in events]
    ),
    name="zz_seen",
    tables=(replace(seen().tables[0], name="zz_seen"),),
)


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        (("acme", "triage"), "a row has 2 values for 3 columns"),
        (("acme", "triage", 1, 2), "a row has 4 values for 3 columns"),
        (7, "object of type 'int' has no len()"),
    ],
)
def test_a_row_of_another_shape_is_refused_alike_on_every_store(
    allocations: Allocations, row: object, problem: str
) -> None:
    """Red when each database says in its own words what a row should be."""
    started(allocations)
    bad = seen(lambda _, rows: rows.put("seen", [row]))  # type: ignore[list-item]
    with pytest.raises(ProjectionStopped) as stopped:
        allocations.projections(bad).catch_up("seen")
    assert stopped.value.error.startswith(f"table seen: {problem}")


@pytest.mark.parametrize("tenant", ["a\0b", "a" + "\0"])
def test_a_text_that_no_store_can_hold_stops_the_projection_on_every_store(
    allocations: Allocations, tenant: str
) -> None:
    """Red when rows are not looked at, and SQLite takes a NUL that PostgreSQL refuses."""
    started(allocations)
    bad = seen(lambda _, rows: rows.put("seen", [(tenant, "w", 1)]))
    with pytest.raises(ProjectionStopped):
        allocations.projections(bad).catch_up("seen")
