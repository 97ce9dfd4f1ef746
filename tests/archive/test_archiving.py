"""Runs leave the log from its beginning on, and only when their archive is complete."""

from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from alloc_es import ArchiveMismatch, InvalidSetting, RunsArchived, SpawnRequest, connect
from alloc_es.archives import MANIFEST, Manifest
from alloc_es.archiving import Archived, archive, plan_archive
from alloc_es.exchange.parquet_runs import RunFiles
from tests.archive.filling import KEY, RUNS, Filled, at_minute, filled
from tests.support.raw import RUNS as TABLE
from tests.support.raw import raw


def test_an_archive_holds_the_rows_of_the_log_byte_for_byte(store: Filled) -> None:
    """Red when the files hold other bytes, or other runs, than were taken from the log."""
    with raw(store.url) as database:
        before = database.rows(TABLE)
        made = store.archive(7)
        assert database.rows(TABLE) == before[7:]
    assert made == Archived("first", 7, before[6][0], made.digest, store.home / "first")
    assert [tuple(row.stored) for row in RunFiles(made.directory).rows()] == before[:7]
    manifest, digest = Manifest.read(made.directory)
    assert (manifest.name, manifest.after, manifest.up_to, manifest.runs, digest) == (
        "first",
        0,
        made.up_to,
        7,
        made.digest,
    )


def test_the_next_archive_begins_behind_the_one_before(sqlite_store: Filled) -> None:
    """Red when an archive begins with the first position whatever was archived."""
    first, second = sqlite_store.archive(4, "first"), sqlite_store.archive(9, "second")
    assert (first.runs, second.runs) == (4, 5)
    manifest, _ = Manifest.read(second.directory)
    assert (manifest.after, manifest.up_to) == (first.up_to, second.up_to)
    with raw(sqlite_store.url) as database:
        assert len(database.rows(TABLE)) == RUNS - 9


def test_the_newest_run_stays_so_that_positions_go_on(store: Filled) -> None:
    """Red when all runs are taken: SQLite would give out their positions again."""
    end = store.allocations.position("runs")
    made = archive(store.allocations, store.home / "all", up_to=10**12)
    assert made is not None
    assert (made.runs, made.up_to) == (RUNS - 1, store.runs[-2].position)
    assert store.allocations.position("runs") == end
    store.allocations.workflow("acme", "triage").spawn_run("another")
    assert store.allocations.position("runs") > end


@pytest.mark.postgresql
def test_a_position_between_two_runs_stands_for_the_one_before_it(
    postgres_url: str, tmp_path: Path
) -> None:
    """Red when the archive is said to end where no run is."""
    with filled(postgres_url, tmp_path) as store:
        workflow = store.allocations.workflow(*KEY)
        # A known id burns a position.
        store.allocations.spawn_runs([SpawnRequest(*KEY, n) for n in ("run 01", "z 1", "z 2")])
        workflow.spawn_run("the newest")
        positions = [run.position for run in store.allocations.runs()]
        last = max(p for p in positions if p + 1 not in positions and p < positions[-1])
        made = archive(store.allocations, tmp_path / "first", up_to=last + 1)
    assert made is not None
    assert made.up_to == last


def test_before_a_time_it_stops_at_the_first_run_that_was_not(
    durable_url: str, tmp_path: Path
) -> None:
    """Red when later runs that were recorded before it are archived too, or `<` is `<=`."""
    with (
        filled(durable_url, tmp_path, at_once=4) as store,
        connect(durable_url, clock=lambda: at_minute(1)) as late,
    ):
        late.workflow(*KEY).spawn_run("of a clock that stepped back")
        late.workflow(*KEY).spawn_run("the newest")
        plan = plan_archive(store.allocations, before=at_minute(2))
        assert plan is not None
        assert (plan.after, plan.up_to, plan.runs) == (0, store.runs[3].position, 4)
        made = archive(store.allocations, tmp_path / "first", before=at_minute(2))
        assert made is not None
        assert (made.up_to, made.runs) == (plan.up_to, 4)
        assert archive(store.allocations, tmp_path / "second", before=at_minute(2)) is None


def test_where_nothing_is_left_nothing_is_made(sqlite_store: Filled) -> None:
    """Red when an empty archive is written, or a directory is made for none."""
    sqlite_store.archive(6)
    for wish in ({"up_to": 3}, {"up_to": 0}, {"before": at_minute(1)}):
        assert plan_archive(sqlite_store.allocations, **wish) is None
        assert archive(sqlite_store.allocations, sqlite_store.home / "other", **wish) is None
    assert not (sqlite_store.home / "other").exists()


def test_a_plan_writes_nothing(sqlite_store: Filled) -> None:
    """Red when a plan makes anything."""
    with raw(sqlite_store.url) as database:
        before = database.rows(TABLE)
        plan = plan_archive(sqlite_store.allocations, up_to=sqlite_store.runs[2].position)
        assert plan is not None
        assert (plan.runs, plan.up_to) == (3, sqlite_store.runs[2].position)
        assert database.rows(TABLE) == before
        assert database.execute("SELECT count(*) FROM archived_runs") == [(0,)]


def test_the_same_call_again_answers_the_same(sqlite_store: Filled) -> None:
    """Red when a name that is known is refused whatever was asked."""
    made = sqlite_store.archive(5)
    assert sqlite_store.archive(5) == made
    assert archive(sqlite_store.allocations, made.directory, up_to=3) == made


def test_a_name_that_is_taken_is_refused(sqlite_store: Filled, tmp_path: Path) -> None:
    """Red when a second archive goes into the directory of the first, or has its name."""
    made = sqlite_store.archive(5)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    for directory in (made.directory, elsewhere / "first"):
        with pytest.raises(InvalidSetting, match=r"an archive is called first, .*another name"):
            archive(sqlite_store.allocations, directory, up_to=sqlite_store.runs[8].position)
    assert sorted(each.name for each in made.directory.iterdir()) == [
        MANIFEST,
        f"runs-{made.up_to:020}.parquet",
    ]


def test_a_directory_with_anything_else_in_it_is_left_alone(sqlite_store: Filled) -> None:
    """Red when what lies in the directory is removed or written over."""
    other = sqlite_store.home / "other"
    other.mkdir()
    (other / "runs-2025.parquet").write_text("mine")
    with pytest.raises(InvalidSetting, match=r"holds runs-2025\.parquet; choose a directory"):
        archive(sqlite_store.allocations, other, up_to=sqlite_store.runs[4].position)
    assert [each.read_text() for each in other.iterdir()] == ["mine"]
    assert list(sqlite_store.allocations.runs()) == sqlite_store.runs


def test_the_archive_of_another_store_is_left_alone(sqlite_store: Filled, sqlite_url: str) -> None:
    """Red when files of a whole archive that this store does not know are written over, or
    somebody is told to remove them.
    """
    made = sqlite_store.archive(5)
    written = {path.name: path.read_bytes() for path in made.directory.iterdir()}
    with filled(f"{sqlite_url}-other", sqlite_store.home) as other:
        with pytest.raises(InvalidSetting, match="holds the files of another archive, first"):
            archive(other.allocations, made.directory, up_to=3)
        with pytest.raises(ArchiveMismatch) as refused:
            archive(other.allocations, made.directory, up_to=6)
        assert refused.value.advice == "choose a directory that is empty"
        assert list(other.allocations.runs()) == other.runs
    assert {path.name: path.read_bytes() for path in made.directory.iterdir()} == written


@pytest.mark.parametrize(
    ("wish", "setting"),
    [
        ({}, "up_to"),
        ({"up_to": 3, "before": at_minute(1)}, "up_to"),
        ({"up_to": -1}, "up_to"),
        ({"up_to": "3"}, "up_to"),
        ({"before": datetime(2026, 1, 1)}, "before"),  # noqa: DTZ001
        ({"before": "2026-01-01"}, "before"),
    ],
)
def test_a_wish_is_a_position_or_a_time(
    tmp_path: Path, sqlite_url: str, wish: dict[str, Any], setting: str
) -> None:
    """Red when both, or neither, or what is none of them is taken."""
    with connect(sqlite_url) as allocations, pytest.raises(InvalidSetting) as refused:
        archive(allocations, tmp_path / "first", **wish)
    assert refused.value.setting == setting


@pytest.mark.memory
def test_a_store_in_memory_is_not_archived(tmp_path: Path) -> None:
    """Red when the archive of a store that will be gone is begun."""
    with connect("memory:") as allocations, pytest.raises(InvalidSetting) as refused:
        archive(allocations, tmp_path / "first", up_to=3)
    assert refused.value.setting == "store"


def test_a_directory_that_cannot_be_made_is_refused(sqlite_store: Filled) -> None:
    """Red when the operating system's error comes out."""
    with pytest.raises(InvalidSetting, match="No such file or directory"):
        archive(
            sqlite_store.allocations,
            sqlite_store.home / "no" / "where",
            up_to=sqlite_store.runs[4].position,
        )


def test_every_step_is_reported_up_to_the_goal(sqlite_store: Filled) -> None:
    """Red when a phase reports nothing, or goes past the goal."""
    reports: list[tuple[int, int]] = []
    archive(
        sqlite_store.allocations,
        sqlite_store.home / "first",
        before=at_minute(9),
        report=lambda done, goal: reports.append((done, goal)),
    )
    assert all(0 < done <= goal for done, goal in reports)
    assert [done for done, _ in reports] == sorted(done for done, _ in reports)
    assert reports[-1][0] == reports[-1][1]


def test_what_was_archived_by_somebody_else_is_not_read_as_the_log_was(
    store: Filled, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Red when the look at what is archived comes before the read."""
    recorder = type(store.allocations._store.runs.recorder)

    def then_archived(genuine: Any) -> Any:
        def asked(*arguments: Any) -> Any:
            found = genuine(*arguments)
            monkeypatch.undo()
            store.archive(7)
            return found

        return asked

    # Whichever of the two is asked first, the archive comes before the other.
    for question in ("select_batch", "archived_to"):
        monkeypatch.setattr(recorder, question, then_archived(getattr(recorder, question)))
    with pytest.raises(RunsArchived) as refused:
        list(store.allocations.runs())
    assert (refused.value.archive, refused.value.after) == ("first", 0)
    assert refused.value.archived_to == store.runs[6].position
