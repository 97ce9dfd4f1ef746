"""Others archive, and spawn archived ids, while runs are archived."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier, Event
from typing import Any

import pytest

from alloc_es import ArchivedMeanwhile, InvalidSetting, RunArchived, RunSpawned, connect
from alloc_es.archiving import Archived, archive
from alloc_es.removing import Move
from tests.archive.filling import KEY, RUNS, Filled, filled
from tests.support.overlap import in_threads
from tests.support.raw import RUNS as TABLE
from tests.support.raw import raw, until_one_waits

STEPS = ("keep_ids", "outwait", "take_out")


def test_of_two_archivers_at_once_one_wins(store: Filled, monkeypatch: pytest.MonkeyPatch) -> None:
    """Red when what is archived is not looked at again in the transaction that takes runs out."""
    barrier = Barrier(2, timeout=30)
    genuine = Move.take_out

    def take_out(move: Move, *arguments: Any) -> None:
        barrier.wait()
        genuine(move, *arguments)

    monkeypatch.setattr(Move, "take_out", take_out)
    with store.reopened() as other:
        outcomes = in_threads(
            lambda: store.archive(5, "five"),
            lambda: archive(other, store.home / "eight", up_to=store.runs[7].position),
        )
    assert not barrier.broken
    (won,) = [each for each in outcomes if isinstance(each, Archived)]
    (lost,) = [each for each in outcomes if isinstance(each, ArchivedMeanwhile)]
    assert (lost.archive, lost.archived_to) == (won.name, won.up_to)
    assert lost.directory == str(store.home / ({"five", "eight"} - {won.name}).pop())
    with store.reopened(won.name) as allocations:
        assert list(allocations.runs()) == store.runs


def test_one_that_comes_late_is_refused_before_it_keeps_an_id(
    sqlite_store: Filled, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Red when an archiver goes on behind an archive that it did not know of."""
    with sqlite_store.reopened() as other:
        before(
            monkeypatch,
            "keep_ids",
            lambda: archive(
                other, sqlite_store.home / "other", up_to=sqlite_store.runs[2].position
            ),
        )
        with pytest.raises(ArchivedMeanwhile) as refused:
            sqlite_store.archive(8)
    assert (refused.value.archive, refused.value.archived_to) == (
        "other",
        sqlite_store.runs[2].position,
    )
    with raw(sqlite_store.url) as database:
        assert database.execute("SELECT count(*) FROM archived_runs") == [(3,)]
    with pytest.raises(InvalidSetting, match="holds the files of another archive"):
        sqlite_store.archive(8)


@pytest.mark.sqlite
def test_nobody_else_writes_to_the_directory(sqlite_store: Filled) -> None:
    """Red when two processes may write the files of one archive."""
    refusals = []

    def intrude(_done: int, _goal: int) -> None:
        with sqlite_store.reopened() as other, pytest.raises(InvalidSetting) as refused:
            archive(other, sqlite_store.home / "first", up_to=3)
        refusals.append(refused.value.problem)

    up_to = sqlite_store.runs[4].position
    archive(sqlite_store.allocations, sqlite_store.home / "first", up_to=up_to, report=intrude)
    assert refusals
    assert all("another process archives to" in each for each in refusals)


@pytest.mark.parametrize("step", STEPS)
def test_an_id_that_is_asked_for_in_between_is_given_out_once(
    store: Filled, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Red when a run leaves the log before its id is kept, or a kept id is taken for a fault."""
    answers: list[RunSpawned] = []
    with store.reopened() as other:
        workflow = other.workflow(*KEY)
        before(monkeypatch, step, lambda: answers.append(workflow.spawn_run("run 03")))
        store.archive(8)
        assert answers == [store.runs[2].event.model_copy(update={"replayed": True})]
        with pytest.raises(RunArchived):
            workflow.spawn_run("run 03")


@pytest.mark.postgresql
def test_those_who_spawn_plan_anew_when_there_are_archived_ids(
    postgres_url: str, tmp_path: Path
) -> None:
    """Red when a plan for no archived ids is kept: each group would read all that there are."""
    with filled(postgres_url, tmp_path) as store, raw(postgres_url) as database:
        store.archive(8)
        size = "SELECT reltuples FROM pg_class WHERE oid = 'archived_runs'::regclass"
        assert database.execute(size) == [(8,)]


@pytest.mark.postgresql
def test_runs_leave_the_log_behind_every_group_that_did_not_see_their_ids_kept(
    postgres_url: str, tmp_path: Path
) -> None:
    """Red when an archiver does not wait for those who record: a group that looked for kept ids
    before there were any would find the place of a run free again.
    """
    with (
        filled(postgres_url, tmp_path) as store,
        raw(postgres_url) as group,
        raw(postgres_url) as observer,
        ThreadPoolExecutor(1) as pool,
    ):
        group.execute("BEGIN")
        lock = "SELECT pg_advisory_xact_lock(1634496355, ?::regclass::integer)"
        group.execute(lock, TABLE)
        archiving = pool.submit(store.archive, 8)
        until_one_waits(observer, TABLE)
        assert len(observer.rows(TABLE)) == RUNS
        assert observer.execute("SELECT count(*) FROM archived_runs") == [(8,)]
        group.execute("COMMIT")
        assert archiving.result().runs == 8
        assert len(observer.rows(TABLE)) == RUNS - 8


def test_threads_that_ask_for_old_ids_all_the_time_get_none_of_them_anew(store: Filled) -> None:
    """Red when an id that is being archived is free at some moment."""
    over = Event()

    def ask() -> tuple[int, int]:
        known = archived = 0
        with connect(store.url, actor="another", timeout=30) as allocations:
            workflow = allocations.workflow(*KEY)
            while not (over.is_set() and archived):
                for number, run in enumerate(store.runs[: RUNS - 1], start=1):
                    try:
                        again = workflow.spawn_run(f"run {number:02}")
                        assert again == run.event.model_copy(update={"replayed": True})
                        known += 1
                    except RunArchived:
                        archived += 1
        return known, archived

    def archive_all() -> tuple[int, int]:
        for number in range(1, RUNS):
            store.archive(number, f"archive {number}")
        over.set()
        return 0, 0

    outcomes = in_threads(ask, ask, archive_all)
    for each in outcomes:
        assert not isinstance(each, Exception), each
    assert all(known and archived for known, archived in outcomes[:2])  # type: ignore[misc]
    with store.reopened(*(f"archive {number}" for number in range(1, RUNS))) as allocations:
        assert list(allocations.runs()) == store.runs


def before(monkeypatch: pytest.MonkeyPatch, step: str, act: Callable[[], object]) -> None:
    """Do something once, before the first of the steps of this name."""
    genuine = getattr(Move, step)

    def method(move: Move, *arguments: Any) -> None:
        monkeypatch.undo()
        act()
        genuine(move, *arguments)

    monkeypatch.setattr(Move, step, method)
