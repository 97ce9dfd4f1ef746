"""Files of runs: what lies in which, and what is found in them."""

import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from alloc_es import codec
from alloc_es.errors import InvalidSetting, UnreadableEvent
from alloc_es.events import Recorded, RunSpawned
from alloc_es.exchange.errors import ExportDamaged
from alloc_es.exchange.parquet_runs import RunFiles, write_runs
from alloc_es.exchange.run_columns import RUN_COLUMNS, RunWriter
from alloc_es.store.log import BLOCK
from alloc_es.store.recorder import Stored
from tests.exchange.given import looked_at


@pytest.fixture(scope="module")
def sample(made: Path) -> RunSpawned:
    (stored, *_) = looked_at(made / "log.jsonl")[1]
    run = codec.decode(stored.topic, stored.state, stream=stored.stream, version=1)
    assert isinstance(run, RunSpawned)
    return run


def rows(sample: RunSpawned, positions: list[int]) -> Iterator[Stored]:
    """Runs that differ in their ids, at positions."""
    for position in positions:
        run = sample.stamped({"run_id": f"run-{position}"})
        yield Stored(position, run.originator_id, 1, *codec.encode(run))


def test_files_and_row_groups_end_at_round_positions(tmp_path: Path, sample: RunSpawned) -> None:
    """Red when a file, or a row group, holds runs of two blocks, or begins where none ended."""
    positions = [1, 2, BLOCK, BLOCK + 1, 2 * BLOCK + 1, 2 * BLOCK + 2, 5 * BLOCK, 7 * BLOCK + 5]
    written = list(
        write_runs(tmp_path, rows(sample, positions), after=0, up_to=7 * BLOCK + 5, span=2 * BLOCK)
    )
    assert [(file.after, file.up_to, file.first, file.last, file.rows) for file in written] == [
        (0, 2 * BLOCK, 1, BLOCK + 1, 4),
        (2 * BLOCK, 4 * BLOCK, 2 * BLOCK + 1, 2 * BLOCK + 2, 2),
        (4 * BLOCK, 6 * BLOCK, 5 * BLOCK, 5 * BLOCK, 1),
        (6 * BLOCK, 7 * BLOCK + 5, 7 * BLOCK + 5, 7 * BLOCK + 5, 1),
    ]
    assert all(earlier.up_to == later.after for earlier, later in pairwise(written))
    assert written[0].name == f"runs-{2 * BLOCK:020}.parquet"
    with pq.ParquetFile(tmp_path / written[0].name) as file:
        groups = [file.metadata.row_group(n).num_rows for n in range(file.num_row_groups)]
    assert groups == [3, 1]
    files = RunFiles(tmp_path)
    assert list(files.files) == written
    assert (files.first, files.last) == (1, 7 * BLOCK + 5)
    assert [row.stored.position for row in files.rows()] == positions
    files.check()
    files.close()


def test_only_the_range_that_was_asked_for_is_written(tmp_path: Path, sample: RunSpawned) -> None:
    """Red when rows behind a range are written with it, or those of one without runs."""
    everything = rows(sample, [3, 4, 5, 9])
    (file,) = write_runs(tmp_path, everything, after=2, up_to=5)
    assert (file.after, file.up_to, file.rows) == (2, 5, 3)
    assert list(write_runs(tmp_path, rows(sample, [9]), after=5, up_to=8)) == []
    with pytest.raises(ValueError, match="position 4 does not follow 4"):
        list(write_runs(tmp_path, rows(sample, [4, 4]), after=2, up_to=5))


def test_batches_answer_as_those_of_a_log(tmp_path: Path, sample: RunSpawned) -> None:
    """Red when a batch ends with a row group, passes its limit, or over what can't be read."""
    given = [*rows(sample, [1, 2, 3]), Stored(4, "run/acme/odd", 1, "RunGuessed", b"{}")]
    given += rows(sample, [BLOCK + 1, BLOCK + 2])
    list(write_runs(tmp_path, given, after=0, up_to=BLOCK + 2))
    files = RunFiles(tmp_path)
    assert [each.position for each in files.batch(0, limit=2).events] == [1, 2]
    stopped = files.batch(1)
    assert [each.position for each in stopped.events] == [2, 3]
    assert (stopped.read_to, stopped.failed_at) == (3, 4)
    assert isinstance(stopped.failure, UnreadableEvent)
    rest = files.batch(4)
    assert [each.position for each in rest.events] == [BLOCK + 1, BLOCK + 2]
    assert files.batch(4, up_to=BLOCK + 1).read_to == BLOCK + 1
    assert files.batch(BLOCK + 2) == files.batch(BLOCK + 2, limit=1)
    assert (files.batch(BLOCK + 2).events, files.batch(BLOCK + 2).read_to) == ([], BLOCK + 2)


def test_a_run_is_looked_up_at_its_position_and_by_its_stream(
    tmp_path: Path, sample: RunSpawned
) -> None:
    """Red when another row is given for one that is not there."""
    given = [*rows(sample, [2, BLOCK + 4]), Stored(BLOCK + 5, "run/a/b", 1, "RunGuessed", b"{}")]
    list(write_runs(tmp_path, given, after=0, up_to=BLOCK + 5))
    files = RunFiles(tmp_path)
    run = sample.stamped({"run_id": f"run-{BLOCK + 4}"})
    expected = Recorded(BLOCK + 4, run, codec.digest(codec.encode(run)[1]))
    assert files.at(BLOCK + 4) == expected == files.find(run.originator_id)
    assert [files.at(position) for position in (1, 3, BLOCK + 3, BLOCK + 6)] == [None] * 4
    assert files.find("run/acme/missing") is None
    with pytest.raises(UnreadableEvent):
        files.at(BLOCK + 5)
    with pytest.raises(UnreadableEvent):
        files.find("run/a/b")


def test_columns_that_give_the_bytes_are_kept_alone(made: Path) -> None:
    """Red when bytes are stored beside the columns that give them, or left out where they don't."""
    made_of = RunWriter().row
    rows: list[dict[str, Any]] = [
        dict(zip(RUN_COLUMNS, made_of(row), strict=True)) for row in looked_at(made / "log")[1]
    ]
    whole = [row for row in rows if row["state"] is not None]
    assert [row["stream"].rpartition("/")[2] for row in whole] == [
        "with blanks",
        "with an offset",
        "with a huge bucket",
        "é 🚀",
    ]
    assert all(row["tenant_id"] is None and row["topic"] is not None for row in whole)
    versions = [row["schema_version"] for row in rows if row["state"] is None]
    assert versions == [*[2] * 12, 1, 2]


def test_files_that_overlap_are_refused(tmp_path: Path, sample: RunSpawned) -> None:
    """Red when a run of two files is read twice."""
    list(write_runs(tmp_path, rows(sample, [1, 2]), after=0, up_to=2))
    list(write_runs(tmp_path, rows(sample, [2, 3]), after=1, up_to=3))
    with pytest.raises(ExportDamaged, match="its positions begin before those of runs-0"):
        RunFiles(tmp_path)


def test_without_its_library_parquet_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Red when an `ImportError` leaves as it is."""
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(InvalidSetting, match=r"pip install 'alloc-es\[parquet\]'"):
        list(write_runs(tmp_path, [], after=0, up_to=1))
