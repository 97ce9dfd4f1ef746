"""With its archive at hand a log reads as before; without it, what is missing is refused."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from threading import Semaphore

import pytest

from alloc_es import (
    AllocationError,
    Allocations,
    RunArchived,
    RunIdTaken,
    RunsArchived,
    SpawnRequest,
    connect,
)
from alloc_es.archives import Archives, AttachedArchive, Manifest
from alloc_es.evidence import open_evidence
from alloc_es.exchange.parquet_runs import write_runs
from alloc_es.rules import findings
from alloc_es.store.recorder import Stored
from tests.archive.filling import KEY, RUNS, Filled, caught_up
from tests.fence.holding import WAYS, Spawn
from tests.support.raw import RUNS as TABLE
from tests.support.raw import raw

Reading = Callable[[Allocations], object]

READINGS: dict[str, Reading] = {
    "the log": lambda allocations: list(allocations.runs()),
    "the log from the middle": lambda allocations: list(allocations.runs(after=3)),
    "a rebuild": lambda allocations: allocations.projections().rebuild("run_ledger"),
    "a rebuild of one tenant": lambda allocations: allocations.projections().rebuild(
        "run_ledger", tenant_id="acme"
    ),
    "a comparison": lambda allocations: allocations.projections().verify("run_ledger"),
}


@pytest.mark.parametrize("reading", READINGS)
def test_a_read_of_archived_runs_needs_their_archive(sqlite_store: Filled, reading: str) -> None:
    """Red when a reader is given the rest of the log for the whole."""
    caught_up(sqlite_store.allocations)
    sqlite_store.archive(5, "first")
    sqlite_store.archive(8, "second")
    for at_hand, missing in (([], "first"), (["second"], "first"), (["first"], "second")):
        with sqlite_store.reopened(*at_hand) as allocations, pytest.raises(RunsArchived) as refused:
            READINGS[reading](allocations)
        assert refused.value.archive == missing
        assert refused.value.archived_to == sqlite_store.runs[7].position
    with sqlite_store.reopened("second", "first") as allocations:
        READINGS[reading](allocations)


def test_the_log_reads_as_before(store: Filled) -> None:
    """Red when runs of an archive are left out, doubled, or read as others."""
    store.archive(5, "first")
    store.archive(8, "second")
    with store.reopened("first", "second") as allocations:
        assert list(allocations.runs()) == store.runs
        for after in range(RUNS + 1):
            assert list(allocations.runs(after=after)) == [
                run for run in store.runs if run.position > after
            ]
        decisions = list(allocations.decisions())
        assert list(findings(decisions, list(allocations.runs()), {})) == []


def test_a_reader_behind_the_archive_needs_none(sqlite_store: Filled) -> None:
    """Red when every read is refused once something is archived."""
    made = sqlite_store.archive(8)
    assert list(sqlite_store.allocations.runs(after=made.up_to)) == sqlite_store.runs[8:]


def test_a_read_ends_inside_of_an_archive(sqlite_store: Filled) -> None:
    """Red when the end of a read is not handed on to the archive."""
    sqlite_store.archive(8)
    with sqlite_store.reopened("first") as allocations:
        log = allocations._store.runs
        batch = log.batch(sqlite_store.runs[1].position, up_to=sqlite_store.runs[4].position)
        assert batch.events == sqlite_store.runs[2:5]
        assert log.batch(sqlite_store.runs[1].position, limit=2).events == sqlite_store.runs[2:4]


def test_read_models_are_the_same_from_an_archive(sqlite_store: Filled) -> None:
    """Red when an archive's runs are applied otherwise than the log's."""
    before = caught_up(sqlite_store.allocations).rows("run_counts")
    sqlite_store.archive(8)
    with sqlite_store.reopened("first") as allocations:
        projections = allocations.projections()
        projections.rebuild("run_ledger")
        assert projections.rows("run_counts") == before
        assert projections.verify("run_ledger").difference is None


def test_a_read_model_that_has_passed_goes_on_without_the_archive(sqlite_store: Filled) -> None:
    """Red when following is refused because something was archived."""
    projections = caught_up(sqlite_store.allocations)
    sqlite_store.archive(8)
    sqlite_store.allocations.workflow(*KEY).spawn_run("another")
    projections.catch_up("run_ledger")
    assert len(projections.rows("run_ledger")) == RUNS + 1


def test_a_model_that_cannot_be_built_is_not_begun_and_others_are_built(
    sqlite_store: Filled,
) -> None:
    """Red when a build is begun that has no first event, or the others are not brought up."""
    sqlite_store.archive(8)
    projections = sqlite_store.allocations.projections()
    with pytest.raises(RunsArchived):
        projections.catch_up()
    standing = {each.name: each.standing for each in projections.status()}
    assert standing == {
        "current_split": "live",
        "decision_history": "not built",
        "generate_triggers": "live",
        "run_ledger": "not built",
    }


def test_a_follower_says_what_is_missing_and_the_others_go_on(sqlite_store: Filled) -> None:
    """Red when a follower's thread ends at it, or tries again for ever without a word."""
    sqlite_store.archive(8)
    told: list[str] = []
    halted = Semaphore(0)

    def tell(sentence: str) -> None:
        if "archive first" in sentence:
            told.append(sentence)
            halted.release()

    projections = sqlite_store.allocations.projections()
    names = ("run_ledger", "decision_history", "current_split")
    with projections.follow(*names, tell=tell) as follower:
        assert halted.acquire(timeout=30)
        assert halted.acquire(timeout=30)
        sqlite_store.allocations.workflow(*KEY).commit_allocation({"v2": 100})
        projections.wait_for("current_split")
    assert sorted(each.partition(":")[0] for each in told) == ["decision_history", "run_ledger"]
    assert [follower.states[name] for name in names] == ["stopped", "stopped", "following"]


@pytest.mark.parametrize("spawn", WAYS)
def test_the_id_of_an_archived_run_stands_for_it_for_ever(
    sqlite_store: Filled, spawn: Spawn
) -> None:
    """Red when an archived id gets a second allotment, or its archive is not asked."""
    first = sqlite_store.runs[0].event
    sqlite_store.archive(8)
    with pytest.raises(RunArchived) as refused:
        spawn(sqlite_store.allocations, "run 01", "another unit")
    facts = (refused.value.tenant_id, refused.value.run_id, refused.value.archive)
    assert facts == ("acme", "run 01", "first")
    assert refused.value.position == sqlite_store.runs[0].position
    with sqlite_store.reopened("first") as allocations:
        again = spawn(allocations, "run 01", "another unit")
        assert again == first.model_copy(update={"replayed": True})
        assert list(allocations.runs()) == sqlite_store.runs


def test_archived_ids_fail_none_of_their_neighbours(store: Filled) -> None:
    """Red when one archived id fails a list, or is taken for a fault of the store."""
    store.archive(8)
    asked = [SpawnRequest(*KEY, name) for name in ("new 1", "run 02", "run 12", "new 2")]
    outcomes = store.allocations.spawn_runs(asked)
    known = store.runs[11].event.model_copy(update={"replayed": True})
    assert isinstance(outcomes[1], RunArchived)
    assert outcomes[2] == known
    new = [outcomes[0], outcomes[3]]
    assert [each.replayed for each in new if not isinstance(each, AllocationError)] == [False] * 2


def test_an_archived_id_is_that_of_its_workflow(sqlite_store: Filled) -> None:
    """Red when the archive's run is given to another workflow."""
    sqlite_store.archive(8)
    with sqlite_store.reopened("first") as allocations:
        other = allocations.workflow("acme", "other")
        other.start("v1")
        for ask in (other.spawn_run, other.find_run):
            with pytest.raises(RunIdTaken):
                ask("run 03")
        assert allocations.workflow("beta", "triage").find_run("run 03") is None


def test_find_run_looks_into_the_archive(store: Filled) -> None:
    """Red when a run that is archived is said to be unknown."""
    store.archive(8)
    with pytest.raises(RunArchived):
        store.allocations.workflow(*KEY).find_run("run 08")
    with store.reopened("first") as allocations:
        for run in store.runs:
            found = allocations.workflow(*KEY).find_run(run.event.run_id)
            assert found == run.event.model_copy(update={"replayed": True})
        assert allocations.workflow(*KEY).find_run("run 13") is None


def test_ids_with_every_sign_are_told_as_they_are(sqlite_store: Filled) -> None:
    """Red when an id is cut or escaped in the refusal."""
    odd = sqlite_store.allocations.workflow("a/b%2F", "triage")
    odd.start("v1")
    odd.spawn_run("run/1%25")
    sqlite_store.allocations.workflow(*KEY).spawn_run("the newest")
    (*_, run, _) = sqlite_store.allocations.runs()
    sqlite_store.runs.append(run)
    sqlite_store.archive(RUNS + 1)
    with pytest.raises(RunArchived) as refused:
        odd.find_run("run/1%25")
    assert (refused.value.tenant_id, refused.value.run_id) == ("a/b%2F", "run/1%25")


def test_tasks_that_ask_for_archived_ids_get_each_its_run(sqlite_store: Filled) -> None:
    """Red when archives may not be read by several threads."""
    sqlite_store.archive(8)
    with sqlite_store.reopened("first") as allocations:
        workflow = allocations.workflow(*KEY)

        async def ask() -> list[str]:
            asked = [workflow.aspawn_run(f"run {number:02}") for number in range(1, RUNS + 1)]
            return [run.version for run in await asyncio.gather(*asked)]

        assert asyncio.run(ask()) == [run.event.version for run in sqlite_store.runs]


def test_evidence_of_a_store_reads_its_archives(sqlite_store: Filled) -> None:
    """Red when an auditor is given the log without its archives."""
    sqlite_store.archive(8)
    with open_evidence(sqlite_store.url, archives=[sqlite_store.home / "first"]) as evidence:
        assert list(evidence.runs()) == sqlite_store.runs
        run = sqlite_store.runs[2].event
        assert evidence.run(run.tenant_id, run.run_id) == sqlite_store.runs[2]
    with open_evidence(sqlite_store.url) as evidence, pytest.raises(RunsArchived):
        list(evidence.runs())


def test_a_range_without_runs_at_the_end_of_a_file_ends_no_read(
    sqlite_url: str, tmp_path: Path
) -> None:
    """Red when the file of a position is told by where its range ends: behind its last run it
    answers with nothing, which is the end of the log.
    """
    with connect(sqlite_url) as allocations:
        workflow = allocations.workflow(*KEY)
        workflow.start("v1")
        for number in range(4):
            workflow.spawn_run(f"run {number}")
    with raw(sqlite_url) as database:
        rows = [Stored(*row) for row in database.rows(TABLE)]
    sparse = [
        row._replace(position=position)
        for row, position in zip(rows, (3, 97, 150, 205), strict=True)
    ]
    list(write_runs(tmp_path, sparse, after=0, up_to=205, span=100))
    archive = AttachedArchive(tmp_path, Manifest.of("sparse", 0, 205, tmp_path))
    archives = Archives([archive])
    for after, following in ((0, 3), (3, 97), (97, 150), (99, 150), (100, 150), (150, 205)):
        batch = archives.batch(after, up_to=10**9, limit=10)
        assert batch is not None
        assert batch.events[0].position == following
    assert archives.batch(205, up_to=10**9, limit=10) is None
    found = {position: archives.at(position) for position in range(1, 206)}
    assert [position for position, run in found.items() if run] == [3, 97, 150, 205]
