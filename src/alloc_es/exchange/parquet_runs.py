"""Runs in Parquet files: each holds a range of positions of the run log."""

import json
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict
from hashlib import sha256
from itertools import groupby, islice, pairwise
from pathlib import Path
from typing import Any

from alloc_es.errors import InvalidSetting, UnreadableEvent
from alloc_es.events import Recorded, RunSpawned
from alloc_es.exchange.arrow import arrow, batch_of, schema_of
from alloc_es.exchange.errors import ExportDamaged
from alloc_es.exchange.files import written_whole
from alloc_es.exchange.run_columns import RUN_COLUMNS, RunRow, RunWriter
from alloc_es.exchange.run_file import (
    FACTS,
    OpenRunFile,
    RowGroup,
    RunFile,
    is_run_file,
    run_file_name,
)
from alloc_es.store.log import BLOCK, PAGE, Batch
from alloc_es.store.recorder import UNLIMITED, Stored

SPAN = 100 * BLOCK
"""How many positions a file holds at most."""

_POSITION, _DIGEST = (list(RUN_COLUMNS).index(name) for name in ("position", "digest"))


def write_runs(
    directory: Path,
    rows: Iterable[Stored],
    *,
    after: int,
    up_to: int,
    span: int = SPAN,
    report: Callable[[int], None] = lambda _: None,
) -> Iterator[RunFile]:
    """Write runs at the positions `(after, up_to]` to files, and say what each of them holds.

    `rows` are the run log's in their order, from there on. A file ends where a multiple of
    `span` does; it is written under another name until it is whole and on the disk. Where a
    range holds no run there is no file. `report` is called with each position reached.

    Raises `InvalidSetting` where `pyarrow` is missing.
    """
    arrow()
    chosen = _between(rows, after, up_to)
    for number, members in groupby(chosen, lambda row: (row.position - 1) // span):
        begin, end = max(after, number * span), min(up_to, (number + 1) * span)
        yield _write(directory, members, begin, end, report)


def _between(rows: Iterable[Stored], after: int, up_to: int) -> Iterator[Stored]:
    for row in rows:
        if row.position > up_to:
            return
        if row.position <= after:
            raise ValueError(f"position {row.position} does not follow {after}")
        after = row.position
        yield row


def _write(
    directory: Path,
    rows: Iterable[Stored],
    after: int,
    up_to: int,
    report: Callable[[int], None],
) -> RunFile:
    path, schema = directory / run_file_name(up_to), schema_of(RUN_COLUMNS)
    made, tally = RunWriter(), _Tally()
    with (
        written_whole(path) as part,
        arrow().parquet.ParquetWriter(part, schema, compression="zstd") as writer,
    ):
        for _, block in groupby(rows, lambda row: (row.position - 1) // BLOCK):
            columns = list(map(made.row, block))
            writer.write_batch(batch_of(schema, columns))
            tally.add(columns)
            report(tally.last)
        found = tally.file(path.name, after, up_to)
        writer.add_key_value_metadata({FACTS: json.dumps(asdict(found))})
    return found


class _Tally:
    """What was written to a file so far."""

    def __init__(self) -> None:
        self.last = 0
        self._first = 0
        self._rows = 0
        self._digests = sha256()

    def add(self, rows: Sequence[Sequence[Any]]) -> None:
        """Count rows, in the order of `RUN_COLUMNS`."""
        self._first = self._first or rows[0][_POSITION]
        self.last = rows[-1][_POSITION]
        self._rows += len(rows)
        self._digests.update("".join(f"{row[_DIGEST]}\n" for row in rows).encode())

    def file(self, name: str, after: int, up_to: int) -> RunFile:
        """The file of what was counted."""
        digest = self._digests.hexdigest()
        return RunFile(name, after, up_to, self._first, self.last, self._rows, digest)


class RunFiles:
    """The runs in the files of a directory, in the order of their positions.

    Not safe for threads. What is read of a file has the bytes that its digests say, and its
    positions rise; else, and where files overlap, `ExportDamaged` is raised. Raises
    `InvalidSetting` where `pyarrow` is missing, or there is no such directory.
    """

    def __init__(self, directory: Path) -> None:
        self._files = [OpenRunFile(path) for path in _paths(directory)]
        for earlier, later in pairwise(self._files):
            if later.facts.after < earlier.facts.up_to:
                problem = f"its positions begin before those of {earlier.path.name} end"
                raise ExportDamaged(later.path, None, problem)
        self._groups = [group for file in self._files for group in file.groups]
        self._ends = [group.last for group in self._groups]
        self._read: tuple[RowGroup, list[RunRow]] | None = None

    @property
    def files(self) -> Sequence[RunFile]:
        """What each file holds, in the order of their positions."""
        return [file.facts for file in self._files]

    @property
    def first(self) -> int:
        """The position of the first run, 0 where there is none."""
        return self._groups[0].first if self._groups else 0

    @property
    def last(self) -> int:
        """The position of the last run, 0 where there is none."""
        return self._ends[-1] if self._ends else 0

    def rows(self, after: int = 0, *, up_to: int = UNLIMITED) -> Iterator[RunRow]:
        """The rows at positions `(after, up_to]`, in their order, as they were stored."""
        for place in range(bisect_right(self._ends, after), len(self._groups)):
            group = self._groups[place]
            if group.first > up_to:
                return
            rows = self._of(group)
            begin = bisect_right(rows, after, key=_position)
            yield from rows[begin : bisect_right(rows, up_to, key=_position)]

    def batch(self, after: int, *, up_to: int = UNLIMITED, limit: int = PAGE) -> Batch[RunSpawned]:
        """The next runs behind a position, as `EventLog.batch` answers."""
        events: list[Recorded[RunSpawned]] = []
        for row in islice(self.rows(after, up_to=up_to), limit):
            if isinstance(row.entry, UnreadableEvent):
                return Batch(events, after, row.stored.position, row.entry)
            after = row.stored.position
            events.append(row.entry)
        return Batch(events, after)

    def at(self, position: int) -> Recorded[RunSpawned] | None:
        """The run at a position, None where there is none; looks at one row group.

        Raises `UnreadableEvent` for a row that is no run.
        """
        place = bisect_left(self._ends, position)
        group = self._groups[place] if place < len(self._groups) else None
        rows = group.file.read(group, only=position) if group else []
        for row in rows:
            if isinstance(row.entry, UnreadableEvent):
                raise row.entry
            return row.entry
        return None

    def find(self, stream: str) -> Recorded[RunSpawned] | None:
        """The run of a stream, None where there is none; looks at the ids of all of them.

        Raises `UnreadableEvent` for a row that is no run.
        """
        found = (group.file.find(group, stream) for group in self._groups)
        position = next((each for each in found if each is not None), None)
        return None if position is None else self.at(position)

    def check(self, report: Callable[[int], None] = lambda _: None) -> None:
        """Read every row. Raises `ExportDamaged` where a file has others than it was given.

        `report` is called with each position reached.
        """
        for file in self._files:
            digests = sha256()
            for group in file.groups:
                for row in file.read(group):
                    digests.update(f"{row.digest}\n".encode())
                report(group.last)
            if digests.hexdigest() != file.facts.digest:
                raise ExportDamaged(file.path, None, "its rows are not those that were written")

    def close(self) -> None:
        """Close the files."""
        for file in self._files:
            file.parquet.close()

    def _of(self, group: RowGroup) -> list[RunRow]:
        """The rows of a row group; those read last are kept, as a batch is less than a group."""
        if self._read is None or self._read[0] is not group:
            self._read = (group, group.file.read(group))
        return self._read[1]


def _position(row: RunRow) -> int:
    return row.stored.position


def _paths(directory: Path) -> list[Path]:
    try:
        return sorted(each for each in directory.iterdir() if is_run_file(each.name))
    except OSError as error:
        raise InvalidSetting("directory", f"{directory}: {error.strerror}") from error
