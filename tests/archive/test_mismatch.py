"""An archive is read only if it is the one that was made, down to each byte that is given out."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from alloc_es import ArchiveMismatch, InvalidSetting, connect
from alloc_es.archives import MANIFEST, Manifest
from alloc_es.archiving import archive
from alloc_es.exchange.errors import ExportDamaged
from alloc_es.exchange.parquet_runs import write_runs
from alloc_es.store.recorder import Stored
from tests.archive.filling import KEY, Filled, filled
from tests.support.raw import RUNS as TABLE
from tests.support.raw import raw

Damage = Callable[[Path], object]


@pytest.fixture
def archived(sqlite_url: str, tmp_path: Path) -> Filled:
    """A store, closed, whose first 8 runs are in the archive `first`."""
    with filled(sqlite_url, tmp_path) as store:
        store.archive(8)
    return store


def file_of(directory: Path) -> Path:
    """The one file of runs in a directory."""
    (found,) = directory.glob("runs-*")
    return found


def edit_manifest(directory: Path) -> None:
    said = json.loads((directory / MANIFEST).read_text())
    said["runs"] += 1
    (directory / MANIFEST).write_text(json.dumps(said, indent=2) + "\n")


def name_no_archive(directory: Path) -> None:
    (directory / MANIFEST).write_text('{"type": "something else"}')


ATTACHING: dict[str, tuple[Damage, str]] = {
    "a manifest that was edited": (edit_manifest, "not the one that the store knows of first"),
    "a manifest that is none": (name_no_archive, "not that of an archive"),
    "no manifest": (lambda d: (d / MANIFEST).unlink(), "it holds no archive"),
    "no file": (lambda d: file_of(d).unlink(), "its files are not those that"),
    "a file too many": (
        lambda d: file_of(d).with_name(f"runs-{20_000:020}.parquet").write_bytes(b"PAR1"),
        "no whole file of runs",
    ),
    "no directory": (shutil.rmtree, "it holds no archive"),
}


@pytest.mark.parametrize("damage", ATTACHING)
def test_what_is_no_archive_of_the_store_is_not_attached(archived: Filled, damage: str) -> None:
    """Red when a manifest, or which files there are, is not compared with what was recorded."""
    act, said = ATTACHING[damage]
    act(archived.home / "first")
    with pytest.raises((ArchiveMismatch, ExportDamaged), match=said):
        archived.reopened("first")


def test_the_archive_of_another_store_is_not_attached(archived: Filled, tmp_path: Path) -> None:
    """Red when any archive is taken for one of this store."""
    with filled(f"sqlite:///{tmp_path / 'other.db'}", tmp_path) as other:
        other.archive(5, "of the other")
        shutil.copytree(tmp_path / "of the other", tmp_path / "copies" / "first")
    with pytest.raises(ArchiveMismatch, match="knows no archive of the name of the other"):
        archived.reopened("of the other")
    with pytest.raises(ArchiveMismatch, match="knows no archive of the name of the other"):
        archived.reopened("copies/first")


def test_an_archive_may_be_copied_and_called_otherwise(archived: Filled) -> None:
    """Red when an archive is known by its place."""
    shutil.move(archived.home / "first", archived.home / "attic")
    with archived.reopened("attic") as allocations:
        assert list(allocations.runs()) == archived.runs


def test_a_directory_of_archives_is_given_at_once(archived: Filled, tmp_path: Path) -> None:
    """Red when archives of other stores, or exports, are not passed over, or damage is."""
    place = archived.home / "archives"
    place.mkdir()
    shutil.move(archived.home / "first", place / "2026-10")
    with filled(f"sqlite:///{tmp_path / 'other.db'}", place) as other:
        other.archive(5, "of the other")
    (place / "export").mkdir()
    name_no_archive(place / "export")
    with archived.reopened("archives") as allocations:
        assert list(allocations.runs()) == archived.runs
    (place / "2026-10" / MANIFEST).write_text("{")
    with pytest.raises(ArchiveMismatch, match=r"2026-10.*not that of an archive"):
        archived.reopened("archives")


def test_a_byte_that_was_changed_is_found_before_a_run_is_given_out(archived: Filled) -> None:
    """Red when files are read without a look at their bytes."""
    file = file_of(archived.home / "first")
    held = bytearray(file.read_bytes())
    held[100] ^= 1
    file.write_bytes(held)
    with archived.reopened("first") as allocations:
        for read in (
            lambda: list(allocations.runs()),
            lambda: allocations.workflow(*KEY).find_run("run 01"),
            lambda: allocations.workflow(*KEY).spawn_run("run 01"),
        ):
            with pytest.raises(ArchiveMismatch, match=r"the SHA-256 of runs-.*nothing is read"):
                read()


def test_a_file_that_is_whole_and_another_one_is_found(archived: Filled, tmp_path: Path) -> None:
    """Red when it is enough that the rows of a file agree with its own digests."""
    directory = archived.home / "first"
    with filled(f"sqlite:///{tmp_path / 'other.db'}", tmp_path) as other:
        with raw(other.url) as database:
            rows = [Stored(*row) for row in database.rows(TABLE)]
        file_of(directory).unlink()
        list(write_runs(directory, rows[:8], after=0, up_to=8))
    held, _ = Manifest.read(directory)
    made = Manifest.of("first", 0, 8, directory)
    assert (held.runs, held.files[0].holds.name) == (made.runs, made.files[0].holds.name)
    with pytest.raises(ArchiveMismatch, match="its files are not those"):
        archived.reopened("first")


def test_an_archive_that_was_lost_is_not_said_to_be_there(archived: Filled) -> None:
    """Red when a call for what is archived already does not look at the archive."""
    edit_manifest(archived.home / "first")
    with connect(archived.url) as allocations:
        with pytest.raises(ArchiveMismatch, match="not the one that the store knows"):
            archive(allocations, archived.home / "first", up_to=8)
        shutil.rmtree(archived.home / "first")
        with pytest.raises(InvalidSetting, match="an archive is called first"):
            archive(allocations, archived.home / "first", up_to=8)


def test_nothing_is_taken_from_the_log_that_does_not_read_back_as_it(
    sqlite_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Red when what was written is not read back, or is compared with less than every byte."""
    genuine = Manifest.of

    def of(name: str, after: int, up_to: int, directory: Path) -> Manifest:
        file = file_of(directory)
        file.unlink()
        with raw(sqlite_url) as database:
            rows = [Stored(*row) for row in database.rows(TABLE)][:up_to]
        rows[4] = rows[4]._replace(state=rows[4].state.replace(b'"ada"', b'"eve"'))
        list(write_runs(directory, rows, after=after, up_to=up_to))
        return genuine(name, after, up_to, directory)

    with filled(sqlite_url, tmp_path) as store:
        monkeypatch.setattr(Manifest, "of", of)
        with pytest.raises(ArchiveMismatch, match="it is not as the log; remove it"):
            store.archive(8)
        assert list(store.allocations.runs()) == store.runs


@pytest.mark.parametrize("archives", ["somewhere", 3, None, [3]])
def test_archives_are_a_list_of_paths(sqlite_url: str, archives: object) -> None:
    """Red when the letters of one path are taken for paths."""
    with pytest.raises(InvalidSetting) as refused:
        connect(sqlite_url, archives=archives)  # type: ignore[arg-type]
    assert refused.value.setting == "archives"
