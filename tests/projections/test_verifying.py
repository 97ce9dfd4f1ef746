"""`verify` finds the first row that is not what the logs say, and changes nothing."""

from random import Random

import pytest

from alloc_es import (
    Allocations,
    Difference,
    ProjectionNotBuilt,
    ProjectionOutdated,
    Verified,
)
from tests.projections.disturbing import batches
from tests.projections.models import older
from tests.projections.reading import execute, query, relations
from tests.projections.writing import spawn

RUNS = ("B", "a", "b", "é", "\uffee", "𝄞")


@pytest.fixture
def written(allocations: Allocations) -> Allocations:
    """Runs whose order by bytes is `RUNS`, in a read model that is up to date."""
    workflow = allocations.workflow("acme", "triage")
    workflow.start("v1")
    spawn(allocations, workflow, [*reversed(RUNS)])
    allocations.projections().catch_up()
    return allocations


def verified(allocations: Allocations, name: str = "run_ledger") -> Verified:
    return allocations.projections().verify(name)


def difference(allocations: Allocations) -> Difference:
    found = verified(allocations).difference
    assert found is not None
    return found


def test_a_model_that_is_what_the_logs_say_has_no_difference(written: Allocations) -> None:
    """Red when rows are compared that were applied behind the checkpoint, or none at all."""
    for name in written.projections().known:
        found = verified(written, name)
        assert (found.name, found.difference) == (name, None)
    found = verified(written)
    assert (found.positions, found.rows) == ({"runs": 6}, 7)
    spawn(written, written.workflow("acme", "triage"), ["not applied yet"])
    assert verified(written) == found


def test_a_changed_row_is_found_and_told_by_column(written: Allocations) -> None:
    """Red when keys alone are compared."""
    change = "UPDATE run_ledger__1 SET version = 'v9', bucket = bucket + 1 WHERE run_id = 'b'"
    execute(written, change)
    found = difference(written)
    assert (found.table, found.key) == ("run_ledger", {"tenant_id": "acme", "run_id": "b"})
    assert found.found is not None
    assert found.expected is not None
    bucket = found.expected["bucket"]
    assert found.found["bucket"] == int(str(bucket)) + 1
    assert str(found) == (
        "run_ledger: in the row of tenant_id acme, run_id b, version is v9, not v1,"
        f" bucket is {found.found['bucket']}, not {bucket}"
    )


@pytest.mark.parametrize("run", RUNS)
def test_a_missing_row_is_found(written: Allocations, run: str) -> None:
    """Red when rows are compared in different orders, or only as far as the shorter table."""
    execute(written, "DELETE FROM run_ledger__1 WHERE run_id = ?", run)
    found = difference(written)
    assert found.key == {"tenant_id": "acme", "run_id": run}
    assert found.found is None
    assert found.expected is not None
    assert found.expected["run_id"] == run
    assert str(found) == f"run_ledger: the row of tenant_id acme, run_id {run} is missing"


@pytest.mark.parametrize("run", ["A", "Z", "aa", "zz", "ê", "\U0001f680"])
def test_an_added_row_is_found(written: Allocations, run: str) -> None:
    """Red when rows of the read model are looked up in the logs' by half."""
    execute(
        written,
        "INSERT INTO run_ledger__1 SELECT tenant_id, workflow_id, ?, version, arm, generation,"
        " episode, unit, bucket, actor, recorded_at, position, decision_position"
        " FROM run_ledger__1 WHERE run_id = 'b'",
        run,
    )
    found = difference(written)
    assert found.key == {"tenant_id": "acme", "run_id": run}
    assert found.expected is None
    assert found.found is not None
    assert str(found) == f"run_ledger: the row of tenant_id acme, run_id {run} is in no log"


def test_the_first_of_several_differences_is_told(written: Allocations) -> None:
    """Red when the difference is that of the database's order of languages, or the last one."""
    execute(written, "UPDATE run_counts__1 SET runs = runs + 1")
    assert difference(written).table == "run_counts"
    for run in reversed(RUNS):
        execute(written, "UPDATE run_ledger__1 SET actor = 'eve' WHERE run_id = ?", run)
        assert difference(written).key["run_id"] == run


def test_a_time_that_is_off_by_a_microsecond_is_found(written: Allocations) -> None:
    """Red when times are compared as they are shown."""
    (time,) = {row[0] for row in query(written, "SELECT max(recorded_at) FROM run_ledger")}
    later = time.replace(".000000Z", ".000001Z")
    execute(written, "UPDATE run_ledger__1 SET recorded_at = ? WHERE run_id = 'b'", later)
    found = difference(written)
    assert found.found is not None
    assert found.expected is not None
    assert {n for n, v in found.found.items() if found.expected[n] != v} == {"recorded_at"}


def test_verify_writes_nothing_to_the_store(
    written: Allocations, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Red when the fold is done in the store, or leaves something there."""
    kept = "SELECT * FROM projection_builds ORDER BY name, build"
    before = query(written, kept), relations(written)

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("it begins to write")

    with batches(Random(1)), monkeypatch.context() as patch:
        patch.setattr(written._store.desk, "writing", refuse)
        for name in written.projections().known:
            assert verified(written, name).difference is None
    assert (query(written, kept), relations(written)) == before


def test_what_was_never_built_or_by_another_version_is_not_compared(
    allocations: Allocations,
) -> None:
    """Red when a missing model passes for an empty one, or another version's for ours."""
    with pytest.raises(ProjectionNotBuilt) as missing:
        verified(allocations)
    assert missing.value.name == "run_ledger"
    allocations.projections().catch_up()
    with older(allocations, "run_ledger"), pytest.raises(ProjectionOutdated):
        verified(allocations)


def test_progress_is_told_up_to_the_checkpoint(written: Allocations) -> None:
    """Red when progress is counted from elsewhere, or to the end of the log."""
    spawn(written, written.workflow("acme", "triage"), ["not applied yet"])
    told: list[tuple[int, int]] = []
    with batches(Random(3)):
        written.projections().verify("run_ledger", report=lambda *each: told.append(each))
    assert told[-1] == (6, 6)
    assert [done for done, _ in told] == sorted({done for done, _ in told})
