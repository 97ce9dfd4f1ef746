"""Whoever writes the digests of an export anew can't make it tell of other events than it has."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest

from alloc_es.evidence import open_evidence
from alloc_es.exchange import import_
from alloc_es.exchange.cloudevents import began_line
from alloc_es.exchange.errors import ExportDamaged
from alloc_es.exchange.parquet import DECISIONS, MANIFEST
from tests.exchange.given import opened, sealed
from tests.exchange.test_parquet_damage import RUNS

Lines = list[bytes]

UNLIKELY = "it does not say where the logs end"
DECISIONS_END = "it says that the decisions end at {}, and the last of them is at 16"
RUNS_END = "it says that the runs end at {}, and the last of them is at 20017"


def ends(decisions: Any, runs: Any) -> Callable[[Lines], bytes]:
    """Other ends in the first line."""
    return lambda lines: sealed([began_line({"decisions": decisions, "runs": runs}), *lines[1:]])


# The first line, ten decisions, eighteen runs, the last line.
FORGED: dict[str, tuple[Callable[[Lines], bytes], int, str]] = {
    "no runs": (ends(16, 0), 1, RUNS_END.format(0)),
    "an end of runs in front of the last": (ends(16, 20_016), 1, RUNS_END.format(20_016)),
    "an end of runs behind the last": (ends(16, 20_018), 1, RUNS_END.format(20_018)),
    "an end of runs below all": (ends(16, -5), 1, UNLIKELY),
    "an end of runs above all": (ends(16, 10**30), 1, UNLIKELY),
    "the first number above all": (ends(16, 2**63), 1, UNLIKELY),
    "an end that is no number": (ends(16, True), 1, UNLIKELY),
    "an end of decisions in front": (ends(15, 20_017), 1, DECISIONS_END.format(15)),
    "an end of decisions behind": (ends(17, 20_017), 1, DECISIONS_END.format(17)),
    "three runs less": (
        lambda lines: sealed([*lines[:12], *lines[15:]], {"decisions": 10, "runs": 18}),
        27,
        "it tells of 10 decisions and 18 runs, and there are 10 decisions and 15 runs",
    ),
    "a decision less": (
        lambda lines: sealed([*lines[:10], *lines[11:]], {"decisions": 10, "runs": 18}),
        29,
        "it tells of 10 decisions and 18 runs, and there are 9 decisions and 18 runs",
    ),
    "the last run less, and counted": (
        lambda lines: sealed([*lines[:28], *lines[29:]]),
        1,
        "the runs end at 20017, and the last of them is at 20016",
    ),
    "a run among decisions": (
        lambda lines: sealed([*lines[:10], lines[11], lines[10], *lines[12:]]),
        12,
        "a decision stands behind runs",
    ),
    "a run twice": (
        lambda lines: sealed([*lines[:14], *lines[13:]]),
        15,
        "position 3 of the runs does not follow 3",
    ),
    "a second beginning": (
        lambda lines: sealed([*lines[:5], *lines[:1], *lines[5:]]),
        6,
        "stands between events",
    ),
}


@pytest.mark.parametrize("name", FORGED)
def test_the_first_and_the_last_line_tell_of_the_lines_between(lines: Path, name: str) -> None:
    """Red when counts or ends are believed because the digest of the whole fits."""
    forge, line, problem = FORGED[name]
    lines.write_bytes(forge(lines.read_bytes().splitlines(keepends=True)))
    with pytest.raises(ExportDamaged) as refused:
        open_evidence(lines)
    assert (refused.value.path, refused.value.line) == (str(lines), line)
    assert problem in refused.value.problem


def test_they_do_so_where_another_program_has_written_them(lines: Path) -> None:
    """Red when ends are compared only where the bytes are those that were written."""
    forged = ends(16, 0)(lines.read_bytes().splitlines(keepends=True))
    lines.write_bytes(b"".join(line.replace(b'":', b'": ', 1) for line in forged.splitlines(True)))
    with pytest.raises(ExportDamaged) as refused:
        open_evidence(lines)
    assert (refused.value.line, refused.value.problem) == (1, RUNS_END.format(0))


def test_a_number_that_no_store_holds_is_refused(lines: Path, sqlite_url: str) -> None:
    """Red when a place that is too large for the tables gets as far as the driver."""
    written = lines.read_bytes().splitlines(keepends=True)
    old, new = b'"streamversion":"1"', b'"streamversion":"9999999999999999999"'
    assert old in written[28]
    lines.write_bytes(sealed([*written[:28], written[28].replace(old, new), written[29]]))
    with opened(sqlite_url) as allocations, pytest.raises(ExportDamaged) as refused:
        import_(lines, allocations)
    assert (refused.value.line, refused.value.problem) == (
        29,
        "no store has the place 9999999999999999999 of a stream at position 20017",
    )


def said(**fields: Any) -> Callable[[dict[str, Any]], object]:
    """Other fields in a manifest."""
    return lambda manifest: manifest.update(fields)


FORGED_MANIFESTS: dict[str, tuple[Callable[[dict[str, Any]], object], str]] = {
    "no runs": (said(ends={"decisions": 16, "runs": 0}), RUNS_END.format(0)),
    "an end of runs behind": (said(ends={"decisions": 16, "runs": 20_018}), RUNS_END.format(20018)),
    "an end of decisions in front": (
        said(ends={"decisions": 0, "runs": 20_017}),
        DECISIONS_END.format(0),
    ),
    "an end below all": (said(ends={"decisions": -5, "runs": 20_017}), "it can't be read"),
    "an end above all": (said(ends={"decisions": 16, "runs": 10**30}), "it can't be read"),
    "one end": (said(ends={"decisions": 16}), "it can't be read"),
    "no files": (said(sha256={}), "the files whose SHA-256 it has are not those beside it"),
    "a list of files": (said(sha256=[DECISIONS, RUNS]), "it can't be read"),
    "no digest of runs": (
        lambda manifest: manifest["sha256"].pop(RUNS),
        "the files whose SHA-256 it has are not those beside it",
    ),
    "a file elsewhere": (
        lambda manifest: manifest["sha256"].update({"../alloc.db": "0" * 64}),
        "the files whose SHA-256 it has are not those beside it",
    ),
    "less rows": (
        lambda manifest: manifest["runs"][0].update(rows=15),
        "the files of runs beside it are not those that it tells of",
    ),
}


@pytest.mark.parametrize("name", FORGED_MANIFESTS)
def test_a_manifest_tells_of_the_files_beside_it(tables: Path, name: str) -> None:
    """Red when ends, or which files there are, are believed because a manifest says so."""
    forge, problem = FORGED_MANIFESTS[name]
    manifest = json.loads((tables / MANIFEST).read_text())
    forge(manifest)
    (tables / MANIFEST).write_text(json.dumps(manifest))
    with pytest.raises(ExportDamaged) as refused:
        open_evidence(tables)
    assert refused.value.path == str(tables / MANIFEST)
    assert problem in refused.value.problem


def test_a_footer_that_says_text_for_a_number_is_refused(tables: Path) -> None:
    """Red when a `TypeError` leaves as it is."""
    with pa.parquet.ParquetFile(tables / RUNS) as file:
        table, facts = file.read(), json.loads(file.metadata.metadata[b"alloc_es"])
    with pa.parquet.ParquetWriter(tables / RUNS, table.schema) as writer:
        writer.write_table(table)
        writer.add_key_value_metadata({b"alloc_es": json.dumps(facts | {"after": "0"})})
    with pytest.raises(ExportDamaged) as refused:
        open_evidence(tables)
    assert refused.value.problem == "it is no whole file of runs: its after is '0'"
