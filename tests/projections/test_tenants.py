"""One tenant of a read model is rebuilt or purged, and the others' rows stay as they are."""

from collections.abc import Callable
from random import Random

import pytest

from alloc_es import Allocations, Projection, ProjectionNotBuilt, ProjectionOutdated
from alloc_es.store.session import Row
from tests.projections.disturbing import batches
from tests.projections.models import older
from tests.projections.reading import builds, execute, folded, model, query
from tests.projections.writing import Writer, spawn

BOTH_LOGS = "decision_history"
"""A projection that follows both logs, and adds, inserts, removes and reads."""

Rows = dict[str, list[Row]]


@pytest.fixture
def written(allocations: Allocations) -> Allocations:
    """Two tenants with the same workflows' names, in models that are up to date."""
    return write(allocations)


def write(allocations: Allocations) -> Allocations:
    for tenant in ("acme", "beta"):
        for name in ("triage", "a/b"):
            workflow = allocations.workflow(tenant, name)
            workflow.start("v1")
            workflow.register_challenger("v2")
            spawn(allocations, workflow, [f"{name} {number}" for number in range(10)])
            workflow.reject_challenger("v2")
    allocations.projections().catch_up()
    return allocations


def installed(allocations: Allocations) -> list[Projection]:
    return list(allocations.projections().known.values())


def stored(allocations: Allocations, projection: Projection, where: str, *values: str) -> Rows:
    """The rows that the live tables themselves hold, as they are stored."""
    (number,) = (build for build, state in builds(allocations, projection.name) if state == "live")
    return {
        table.name: query(
            allocations,
            f"SELECT * FROM {table.name}__{number} WHERE {where} ORDER BY {', '.join(table.key)}",
            *values,
        )
        for table in projection.tables
    }


def of(allocations: Allocations, projection: Projection, tenant: str) -> Rows:
    """What the logs say of one tenant."""
    return {
        name: [row for row in rows if row[0] == tenant]
        for name, rows in folded(allocations, projection).items()
    }


def test_a_tenant_is_rebuilt_and_the_others_rows_stay_byte_for_byte(written: Allocations) -> None:
    """Red when a tenant's rebuild writes more than the tenant's rows, or less: what another
    hand has changed in the others' is still there.
    """
    for projection in installed(written):
        for table in projection.tables:
            execute(written, f"UPDATE {table.name}__1 SET workflow_id = workflow_id || '!'")
        others = stored(written, projection, "tenant_id <> ?", "acme")
        assert stored(written, projection, "tenant_id = ?", "acme") != of(
            written, projection, "acme"
        )
        written.projections().rebuild(projection.name, tenant_id="acme")
        assert stored(written, projection, "tenant_id <> ?", "acme") == others
        assert stored(written, projection, "tenant_id = ?", "acme") == of(
            written, projection, "acme"
        )
        assert (1, "live") in builds(written, projection.name)


def test_a_purged_tenant_is_gone_and_stays_out(written: Allocations) -> None:
    """Red when a purge forgets a table or the events to come, or touches another tenant."""
    for projection in installed(written):
        others = stored(written, projection, "tenant_id <> ?", "acme")
        written.projections().purge(projection.name, "acme")
        assert stored(written, projection, "true") == others
    for tenant in ("acme", "beta"):
        workflow = written.workflow(tenant, "triage")
        workflow.register_challenger("v9")
        spawn(written, workflow, ["late"])
        workflow.reject_challenger("v9")
    written.projections().catch_up()
    for projection in installed(written):
        assert model(written, projection) == of(written, projection, "beta")
        assert written.projections().verify(projection.name).difference is None
        written.projections().rebuild(projection.name)
        assert model(written, projection) == of(written, projection, "beta")
        assert written.projections().verify(projection.name).difference is None


def test_a_purged_tenant_comes_back_when_it_is_rebuilt_by_itself(written: Allocations) -> None:
    """Red when what is purged stays purged, or comes back without what happened meanwhile."""
    for projection in installed(written):
        models = written.projections()
        models.purge(projection.name, "acme")
        spawn(written, written.workflow("acme", "triage"), [f"while {projection.name} was away"])
        models.rebuild(projection.name, tenant_id="acme")
        models.catch_up()
        assert model(written, projection) == folded(written, projection)
    spawn(written, written.workflow("acme", "triage"), ["later"])
    written.projections().catch_up()
    for projection in installed(written):
        assert model(written, projection) == folded(written, projection)
        assert written.projections().verify(projection.name).difference is None


def test_a_tenant_that_nobody_knows_is_rebuilt_and_purged_to_nothing(written: Allocations) -> None:
    """Red when a tenant without events is an error: who purges by a list has such ones."""
    for projection in installed(written):
        before = model(written, projection)
        written.projections().rebuild(projection.name, tenant_id="nobody")
        written.projections().purge(projection.name, "nobody")
        assert model(written, projection) == before


def in_the_midst(act: Callable[[], object]) -> Callable[[int, int], None]:
    """A report of progress at which something is done, once, when a batch was applied."""
    waiting = [act]

    def report(done: int, _: int) -> None:
        if done and waiting:
            waiting.pop()()

    return report


def test_a_tenant_that_comes_back_while_all_are_rebuilt_is_in_the_new_model(
    written: Allocations,
) -> None:
    """Red when a rebuild goes on without the events that it left out while the tenant was
    purged, or when the one that is begun in its stead leaves them out again.
    """
    models, others = written.projections(), written.projections()
    models.purge(BOTH_LOGS, "acme")
    come_back = in_the_midst(lambda: others.rebuild(BOTH_LOGS, tenant_id="acme"))
    with batches(Random(1)):
        models.rebuild(BOTH_LOGS, report=come_back)
    assert model(written, models.known[BOTH_LOGS]) == folded(written, models.known[BOTH_LOGS])
    assert (1, "live") not in builds(written, BOTH_LOGS)


@pytest.mark.parametrize("whose", ["acme", None])
def test_a_tenant_that_is_purged_while_it_is_rebuilt_stays_out(
    written: Allocations, whose: str | None
) -> None:
    """Red when a purge leaves unfinished builds alone, of the tenant or of all, so that what
    was purged is put in.
    """
    models, others = written.projections(), written.projections()
    purge = in_the_midst(lambda: others.purge(BOTH_LOGS, "acme"))
    with batches(Random(1)):
        models.rebuild(BOTH_LOGS, tenant_id=whose, report=purge)
    projection = models.known[BOTH_LOGS]
    assert model(written, projection) == of(written, projection, "beta")


def test_who_works_on_a_build_that_is_gone_does_nothing_to_the_next_one(
    written: Allocations,
) -> None:
    """Red when the number of a build is given again: a tenant's build that somebody else has
    finished was taken for the build of all tenants that followed, which lost a batch to it.
    """
    name = "run_ledger"
    others = written.projections()

    def finish_and_begin_another() -> None:
        others.rebuild(name, tenant_id="acme")
        others._rebuilding(others.known[name]).begin()

    def report(*_: int) -> None:
        if waiting:
            waiting.pop()()

    waiting = [finish_and_begin_another]
    with batches(Random(1)):
        written.projections().rebuild(name, tenant_id="acme", report=report)
    written.projections().rebuild(name)
    assert model(written, others.known[name]) == folded(written, others.known[name])


def test_a_tenant_of_a_model_that_is_not_there_can_not_be_rebuilt(
    allocations: Allocations,
) -> None:
    """Red when a model comes into being with one tenant in it, or is mixed of two versions."""
    with pytest.raises(ProjectionNotBuilt):
        allocations.projections().rebuild("run_ledger", tenant_id="acme")
    assert builds(allocations, "run_ledger") == []
    write(allocations)
    with older(allocations, "run_ledger"), pytest.raises(ProjectionOutdated):
        allocations.projections().rebuild("run_ledger", tenant_id="acme")


def test_tenants_of_random_histories_are_purged_and_brought_back(allocations: Allocations) -> None:
    """Red when what a tenant's rebuild makes depends on where batches end."""
    random = Random(7)
    writer = Writer(allocations, random, 1)
    writer.write(40)
    models = allocations.projections()
    models.catch_up()
    with batches(random):
        for name in ("decision_history", "current_split"):
            models.purge(name, writer.tenants[0])
            writer.write(10)
            models.catch_up(name)
            models.rebuild(name, tenant_id=writer.tenants[0])
            models.catch_up(name)
            assert model(allocations, models.known[name]) == folded(allocations, models.known[name])
