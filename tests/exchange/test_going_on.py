"""What interrupts an export costs what it was about to write, and nothing else."""

from pathlib import Path
from signal import SIGKILL

import pytest

from alloc_es.errors import InvalidSetting
from alloc_es.evidence import open_evidence
from alloc_es.exchange import Exported, Format, cloudevents_writing, export, parquet_writing
from alloc_es.exchange.errors import ExportExists
from alloc_es.exchange.files import part_of
from alloc_es.exchange.parquet import MANIFEST
from alloc_es.exchange.parquet_runs import SPAN
from tests.exchange import victims
from tests.exchange.given import FORMATS, fill, looked_at, opened, spawn
from tests.support.children import start_child

Contents = dict[str, bytes]

# When it ends, a victim that writes three at a time has told of something so often.
REPORTS = {"cloudevents": 11, "parquet": 8}


class Stopped(BaseException):
    """Stands for a Ctrl-C."""


@pytest.fixture(autouse=True)
def _small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cloudevents_writing, "_PAGE", cloudevents_writing._PAGE)
    monkeypatch.setattr(parquet_writing, "SPAN", SPAN)
    victims.in_small_pages()


@pytest.fixture
def whole(odd_url: str, tmp_path: Path, format: Format) -> Contents:
    """An export that nothing has interrupted."""
    directory = tmp_path / "undisturbed"
    directory.mkdir()
    run(odd_url, directory / "log", format)
    return contents(directory)


def run(url: str, target: Path, format: Format, stop_at: int = 0) -> Exported:
    """Export, up to the last of so many reports where that is a number."""
    reports = 0

    def report(_done: int, _goal: int) -> None:
        nonlocal reports
        reports += 1
        if reports == stop_at:
            raise Stopped

    with open_evidence(url) as evidence:
        return export(evidence, target, format=format, report=report)


def contents(directory: Path) -> Contents:
    """Every file in a directory and what is in it."""
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in sorted(directory.rglob("*"))
        if path.is_file()
    }


def test_it_goes_on_from_wherever_it_was_interrupted(
    odd_url: str, tmp_path: Path, format: Format, whole: Contents
) -> None:
    """Red when something is written twice, or left out, or what is there is not counted."""
    home = tmp_path / "home"
    home.mkdir()
    kept = []
    for stop_at in range(1, REPORTS[format] + 1):
        target = home / f"{stop_at}"
        with pytest.raises(Stopped):
            run(odd_url, target, format, stop_at)
        assert not target.exists()
        kept.append(run(odd_url, target, format).kept)
        assert not part_of(target).exists()
        found = {
            name.replace(str(stop_at), "log", 1): text for name, text in contents(home).items()
        }
        assert {name: found[name] for name in whole} == whole
    assert kept == sorted(kept)
    assert len(set(kept)) > 4


@pytest.mark.parametrize("format", FORMATS)
def test_it_goes_on_where_it_was_killed(
    odd_url: str, tmp_path: Path, format: Format, whole: Contents
) -> None:
    """Red when the place of an export is taken before it is whole and on the disk."""
    home = tmp_path / "home"
    home.mkdir()
    child, pipe = start_child(victims.be_killed, odd_url, str(home / "log"), format, 6)
    done = pipe.recv()
    assert child.pid is not None
    child.kill()
    child.join()
    assert child.exitcode == -SIGKILL
    assert not (home / "log").exists()
    exported = run(odd_url, home / "log", format)
    assert exported.kept <= done
    assert contents(home) == whole


@pytest.mark.parametrize("size", [0, 1, 150, 250, 3_000, 9_999, 12_345])
def test_a_line_that_is_not_whole_is_written_again(
    odd_url: str, made: Path, tmp_path: Path, size: int
) -> None:
    """Red when an export is gone on with in the middle of a line."""
    written = (made / "log.jsonl").read_bytes()
    (tmp_path / "log.jsonl.part").write_bytes(written[:size])
    run(odd_url, tmp_path / "log.jsonl", "cloudevents")
    assert (tmp_path / "log.jsonl").read_bytes() == written


def test_what_is_there_is_checked(odd_url: str, made: Path, tmp_path: Path) -> None:
    """Red when lines are gone on behind that are not as they were written."""
    written = (made / "log.jsonl").read_bytes()
    torn = written.replace(b'"arm":"control"', b'"arm":"another"')[:20_000]
    (tmp_path / "log.jsonl.part").write_bytes(torn)
    exported = run(odd_url, tmp_path / "log.jsonl", "cloudevents")
    assert (tmp_path / "log.jsonl").read_bytes() == written
    assert exported.kept < 40


def test_what_is_there_of_another_log_is_begun_anew(
    odd_url: str, sqlite_url: str, tmp_path: Path, format: Format, whole: Contents
) -> None:
    """Red when one export is gone on with in another one's place."""
    home = tmp_path / "home"
    home.mkdir()
    with opened(sqlite_url) as allocations:
        allocations.workflow("zed", "other").start("v1")
        spawn(allocations, ("zed", "other"), "other", 9)
    with pytest.raises(Stopped):
        run(sqlite_url, home / "log", format, stop_at=5)
    assert run(odd_url, home / "log", format).kept == 0
    assert contents(home) == whole


def test_it_goes_to_where_the_logs_ended_when_it_began(
    sqlite_url: str, tmp_path: Path, format: Format
) -> None:
    """Red when an export that goes on looks for the ends again, behind which runs came."""
    with opened(sqlite_url) as allocations:
        fill(allocations)
    with pytest.raises(Stopped):
        run(sqlite_url, tmp_path / "log", format, stop_at=4)
    with opened(sqlite_url) as allocations:
        spawn(allocations, ("acme", "triage/é"), "late", 5)
    exported = run(sqlite_url, tmp_path / "log", format)
    assert (exported.runs, exported.ends["runs"]) == (12, 12)
    assert run(sqlite_url, tmp_path / "log", format).runs == 17
    assert looked_at(tmp_path / "log") == looked_at(sqlite_url)


def test_two_exports_to_one_place_do_not_mix(
    odd_url: str, tmp_path: Path, format: Format, whole: Contents
) -> None:
    """Red when a second process writes into what the first one has begun."""
    home = tmp_path / "home"
    home.mkdir()
    refused = []

    def report(_done: int, _goal: int) -> None:
        with pytest.raises(InvalidSetting, match=r"another process writes to .*log\.part"):
            run(odd_url, home / "log", format)
        refused.append(format)

    with open_evidence(odd_url) as evidence:
        export(evidence, home / "log", format=format, report=report)
    assert refused
    assert contents(home) == whole


def test_a_finished_export_of_another_log_is_left_alone(
    export_path: Path, sqlite_url: str, format: Format, tmp_path: Path
) -> None:
    """Red when a mistyped path costs somebody an export."""
    before = contents(tmp_path)
    with opened(sqlite_url) as allocations, open_evidence(allocations) as store:
        fill(allocations, runs=2)
        with pytest.raises(ExportExists, match="holds an export of another log"):
            export(store, export_path, format=format)
        assert contents(tmp_path).items() >= before.items()
        export(store, export_path, format=format, force=True)
        assert looked_at(export_path) == looked_at(sqlite_url)


def test_what_is_no_export_is_left_alone(odd_url: str, tmp_path: Path, format: Format) -> None:
    """Red when a directory is removed with what else is in it, or a file that is no export."""
    (tmp_path / "file").write_text("precious")
    with pytest.raises(ExportExists, match="is no whole export"):
        run(odd_url, tmp_path / "file", format)
    home = tmp_path / "home"
    home.mkdir()
    (home / "file").write_text("precious")
    with (
        open_evidence(odd_url) as evidence,
        pytest.raises(ExportExists, match="holds file, which is no part of an export"),
    ):
        export(evidence, home, format=format, force=True)
    assert (home / "file").read_text() == (tmp_path / "file").read_text() == "precious"


def test_one_format_takes_the_place_of_the_other(odd_url: str, tmp_path: Path) -> None:
    """Red when a directory is to be replaced by a file, or what is there of one."""
    target = tmp_path / "log"
    for format in (*FORMATS, *FORMATS):
        run(odd_url, target, format)
        assert target.is_dir() == (format == "parquet")
        with pytest.raises(Stopped):
            run(odd_url, target, format, stop_at=3)
        assert (target / MANIFEST).exists() == (format == "parquet")
