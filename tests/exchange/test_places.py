"""Nothing is lost that lies where an export is written to, or read from."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from alloc_es.errors import InvalidSetting
from alloc_es.evidence import open_evidence
from alloc_es.exchange import Format, export, import_, parquet_writing
from alloc_es.exchange.errors import ExportExists
from alloc_es.exchange.parquet import DECISIONS, MANIFEST
from tests.exchange.given import FORMATS, looked_at, opened
from tests.exchange.test_going_on import Stopped, contents, run

STRANGE = "is no export that was interrupted"


def holding(**files: str) -> Callable[[Path], object]:
    """A directory with these files in it, a name having `_` for each full stop."""

    def make(part: Path) -> None:
        part.mkdir()
        for name, text in files.items():
            (part / name.replace("_", ".")).write_text(text)

    return make


def nested(part: Path) -> None:
    """A directory in which one lies under the name of a file of ours."""
    holding(manifest_json_part='{\n  "type": "alloc_es.export.began"')(part)
    (part / DECISIONS).mkdir()
    (part / DECISIONS / "own.txt").write_text("precious")


def linked(part: Path) -> None:
    """A link to what an export was about to write, elsewhere."""
    (part.parent / "elsewhere").write_text('{"specversion":"1.0","id":"began-')
    part.symlink_to(part.parent / "elsewhere")


OTHERS: dict[str, tuple[Callable[[Path], object], str]] = {
    "a file": (lambda part: part.write_text("precious"), STRANGE),
    "a file of lines": (lambda part: part.write_text('{"specversion":"1.0","id":"1"}\n'), STRANGE),
    "a directory with a file": (
        holding(own_txt="precious"),
        "holds own.txt, which is no part of an export",
    ),
    "an export with a file": (
        holding(manifest_json_part='{\n  "type": "alloc_es.export.began"', own_txt="precious"),
        "holds own.txt, which is no part of an export",
    ),
    "tables under names of ours": (holding(decisions_parquet="PAR1 precious"), STRANGE),
    "a manifest of something else": (holding(manifest_json='{"precious": 1}'), STRANGE),
    "a directory under a name of ours": (nested, f"holds {DECISIONS}, which is no part of"),
    "a link": (linked, STRANGE),
    "a link to nowhere": (lambda part: part.symlink_to("nowhere"), STRANGE),
    "a pipe": (os.mkfifo, STRANGE),
}


@pytest.mark.parametrize("force", [False, True], ids=["", "force"])
@pytest.mark.parametrize("name", OTHERS)
def test_what_is_no_unfinished_export_is_left_alone(
    odd_url: str, tmp_path: Path, format: Format, name: str, force: bool
) -> None:
    """Red when something is removed or written over because its name ends with `.part`."""
    make, problem = OTHERS[name]
    home = tmp_path / "home"
    home.mkdir()
    make(home / "log.part")
    before, names = contents(home), sorted(home.rglob("*"))
    with open_evidence(odd_url) as evidence, pytest.raises(ExportExists) as refused:
        export(evidence, home / "log", format=format, force=force)
    assert refused.value.path == str(home / "log.part")
    assert problem in refused.value.problem
    assert (contents(home), sorted(home.rglob("*"))) == (before, names)


@pytest.mark.parametrize(
    "make",
    [
        lambda part: part.touch(),
        lambda part: part.mkdir(),
        holding(manifest_json_part_part=""),
        holding(manifest_json_part='{\n  "type": "alloc_es.export.began",\n  "ends": {}\n}'),
    ],
    ids=["a file", "a directory", "a manifest not begun", "a manifest without ends"],
)
def test_what_an_export_has_hardly_begun_is_its_own(
    odd_url: str, made: Path, tmp_path: Path, format: Format, make: Callable[[Path], object]
) -> None:
    """Red when an export that was interrupted early has to be removed by hand."""
    make(tmp_path / "log.part")
    run(odd_url, tmp_path / "log", format)
    assert looked_at(tmp_path / "log") == looked_at(made / "log.jsonl")
    assert not (tmp_path / "log.part").exists()


def test_one_that_is_emptied_is_not_gone_on_with(
    odd_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Red when the files are removed before what says that they belong together."""
    monkeypatch.setattr(parquet_writing, "SPAN", 3)
    target, part = tmp_path / "log", tmp_path / "log.part"
    with pytest.raises(Stopped):
        run(odd_url, target, "parquet", stop_at=7)
    files = sorted(part.glob("runs-*"))
    assert len(files) > 1
    files[0].write_bytes(b"torn")

    def unlink_one(path: Path) -> None:
        os.unlink(path)
        if path == files[0]:
            raise Stopped

    with monkeypatch.context() as patched:
        patched.setattr(Path, "iterdir", lambda _: iter(files))
        patched.setattr(Path, "unlink", unlink_one)
        with open_evidence(odd_url) as evidence, pytest.raises(Stopped):
            parquet_writing._begun(part, evidence)
    run(odd_url, target, "parquet")
    assert looked_at(target) == looked_at(odd_url)


def test_an_export_in_the_other_format_is_not_removed_while_it_is_written(
    odd_url: str, tmp_path: Path, format: Format
) -> None:
    """Red when what another process writes is taken for one that was interrupted."""
    (other,) = (each for each in FORMATS if each != format)
    refused = []

    def report(_done: int, _goal: int) -> None:
        with pytest.raises(InvalidSetting, match=r"another process writes to .*log\.part"):
            run(odd_url, tmp_path / "log", other)
        refused.append(other)

    with open_evidence(odd_url) as evidence:
        export(evidence, tmp_path / "log", format=format, report=report)
    assert refused
    assert (tmp_path / "log" / MANIFEST).exists() == (format == "parquet")


def test_a_pipe_is_no_export(tmp_path: Path, sqlite_url: str) -> None:
    """Red when what can be read once only is read, and waited for."""
    os.mkfifo(tmp_path / "pipe")
    # Nobody would have to wait until it is opened at its other end.
    with (tmp_path / "pipe").open("r+b", buffering=0), opened(sqlite_url) as allocations:
        for read in (open_evidence, lambda path: import_(path, allocations)):
            with pytest.raises(InvalidSetting, match="pipe is no file, and an export is"):
                read(tmp_path / "pipe")
