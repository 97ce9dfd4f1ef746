"""A directory of an export in Parquet that is not as it was written is refused, with the row."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest

from alloc_es.errors import InvalidSetting
from alloc_es.evidence import open_evidence
from alloc_es.exchange.errors import ExportDamaged
from alloc_es.exchange.opening import open_export
from alloc_es.exchange.parquet import DECISIONS, MANIFEST, write_manifest

# The file of runs that an export of eighteen has, the last six in a row group of their own.
RUNS = "runs-00000000000000020017.parquet"

Change = Callable[[list[dict[str, Any]]], list[dict[str, Any]]]


def rewrite(path: Path, change: Change) -> None:
    """Write a file again with other rows; its own metadata stay."""
    with pa.parquet.ParquetFile(path) as file:
        schema, kept = file.schema_arrow, file.metadata.metadata
        rows = change(file.read().to_pylist())
    with pa.parquet.ParquetWriter(path, schema) as writer:
        for first, end in ((0, 12), (12, len(rows))):
            writer.write_batch(pa.RecordBatch.from_pylist(rows[first:end], schema=schema))
        told = {name: text for name, text in (kept or {}).items() if name == b"alloc_es"}
        writer.add_key_value_metadata(told)


def field(row: int, **fields: Any) -> Change:
    """Other values in a row."""
    return lambda rows: [*rows[: row - 1], rows[row - 1] | fields, *rows[row:]]


DAMAGED: dict[str, tuple[str, Change, int | None, str]] = {
    "a version changed": (RUNS, field(3, version="v9"), 3, "the SHA-256 of its bytes is"),
    "a run id changed": (RUNS, field(3, run_id="other"), 3, "the SHA-256 of its bytes is"),
    "a digest changed": (RUNS, field(3, digest="0" * 64), 3, "not 000"),
    "an arm that is none": (RUNS, field(4, arm="left"), 4, "its columns are those of no run: arm"),
    "a run id less": (RUNS, field(4, run_id=None), 4, "those of no run"),
    "a schema version from the future": (RUNS, field(4, schema_version=9), 4, "those of no run"),
    "stored bytes changed": (RUNS, field(18, state=b'{"a": 2}'), 18, "the SHA-256 of its bytes"),
    "stored bytes beside columns": (RUNS, field(4, state=b"{}"), 4, "both the columns of a run"),
    "two runs swapped": (
        RUNS,
        lambda rows: [*rows[:3], rows[4], rows[3], *rows[5:]],
        5,
        "position 4 does not follow 5",
    ),
    "a run twice": (
        RUNS,
        lambda rows: [*rows[:3], rows[3], rows[3], *rows[5:]],
        5,
        "position 4 does not follow 4",
    ),
    "row groups swapped": (
        RUNS,
        lambda rows: [*rows[12:], *rows[:12]],
        13,
        "position 7 does not follow 20017",
    ),
    "a run less": (RUNS, lambda rows: rows[:17], None, "it does not hold what its footer says"),
    "a run replaced": (
        RUNS,
        lambda rows: [*rows[:4], rows[4] | {"position": 5}, *rows[5:]],
        None,
        f"its SHA-256 is not the one in {MANIFEST}",
    ),
    "a decision's column changed": (DECISIONS, field(2, version="v9"), 2, "not those of its"),
    "a decision's bytes changed": (DECISIONS, field(2, state=b"{}"), 2, "not those of its"),
    "a decision's digest changed": (DECISIONS, field(2, digest="0" * 64), 2, "not those of its"),
    "a decision without bytes": (DECISIONS, field(2, state=None), 2, "not those of its"),
    "two decisions swapped": (
        DECISIONS,
        lambda rows: [rows[0], rows[2], rows[1], *rows[3:]],
        3,
        "position 2 does not follow 3",
    ),
    "a decision less": (
        DECISIONS,
        lambda rows: rows[:-1],
        None,
        f"its SHA-256 is not the one in {MANIFEST}",
    ),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_a_damaged_file_is_refused_with_the_row(tables: Path, name: str) -> None:
    """Red when a kind of damage is not looked for, or is put down to another row."""
    file, change, row, problem = DAMAGED[name]
    rewrite(tables / file, change)
    with pytest.raises(ExportDamaged) as refused:
        open_evidence(tables)
    assert (refused.value.path, refused.value.line) == (str(tables / file), row)
    assert problem in refused.value.problem
    place = "" if row is None else f", row {row}"
    assert str(refused.value).startswith(f"{tables / file}{place}: ")


@pytest.mark.parametrize("file", [RUNS, DECISIONS])
def test_a_file_that_was_cut_off_is_refused(tables: Path, file: str) -> None:
    """Red when an error of the library leaves as it is."""
    written = (tables / file).read_bytes()
    (tables / file).write_bytes(written[: len(written) // 2])
    with pytest.raises(ExportDamaged) as refused:
        open_evidence(tables)
    assert refused.value.path == str(tables / file)


@pytest.mark.parametrize("file", [RUNS, DECISIONS])
def test_a_byte_that_was_changed_is_found(tables: Path, file: str) -> None:
    """Red when the bytes of a file are not compared with the manifest, or are trusted."""
    written = bytearray((tables / file).read_bytes())
    written[len(written) // 3] ^= 1
    (tables / file).write_bytes(written)
    with pytest.raises(ExportDamaged) as refused:
        open_evidence(tables)
    assert refused.value.path == str(tables / file)


def another(tables: Path) -> Path:
    """A second file of runs, which is a copy of the first."""
    return Path(shutil.copy(tables / RUNS, tables / "runs-00000000000000020018.parquet"))


AMISS: dict[str, tuple[Callable[[Path], object], str, str]] = {
    "no manifest": (lambda path: (path / MANIFEST).unlink(), MANIFEST, "is not whole"),
    "a manifest that is none": (
        lambda path: (path / MANIFEST).write_text("{}"),
        MANIFEST,
        "it can't be read",
    ),
    "no decisions": (lambda path: (path / DECISIONS).unlink(), DECISIONS, "it can't be read"),
    "no runs": (lambda path: (path / RUNS).unlink(), MANIFEST, "not those that it tells of"),
    "runs twice": (another, "runs-00000000000000020018.parquet", "what its footer says"),
    "decisions in the place of runs": (
        lambda path: shutil.copy(path / DECISIONS, path / RUNS),
        RUNS,
        "no whole file of runs",
    ),
    "runs in the place of decisions": (
        lambda path: shutil.copy(path / RUNS, path / DECISIONS),
        DECISIONS,
        "not those of decisions",
    ),
}


@pytest.mark.parametrize("name", AMISS)
def test_a_directory_without_what_belongs_to_it_is_refused(tables: Path, name: str) -> None:
    """Red when files are read without the manifest that says which they are."""
    change, file, problem = AMISS[name]
    change(tables)
    with pytest.raises(ExportDamaged) as refused:
        open_evidence(tables)
    assert (refused.value.path, refused.value.line) == (str(tables / file), None)
    assert problem in refused.value.problem


def test_what_is_read_is_checked_again(tables: Path) -> None:
    """Red when a row is believed without its digest where the manifest fits."""
    rewrite(tables / RUNS, field(3, version="v9"))
    manifest = json.loads((tables / MANIFEST).read_text())
    write_manifest(tables, manifest["ends"])
    for check in (True, False):
        with open_export(tables, check=check) as held, pytest.raises(ExportDamaged) as refused:
            list(held.runs(1, 3))
        assert refused.value.line == 3


def test_a_path_where_nothing_is_names_itself(tmp_path: Path) -> None:
    """Red when an `OSError` leaves as it is."""
    with pytest.raises(InvalidSetting, match="No such file or directory"):
        open_evidence(tmp_path / "missing")
