"""A file of runs in Parquet: what is known of it, and reading its row groups."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, fields
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from alloc_es.exchange.arrow import arrow, in_words, rows_of, schema_of
from alloc_es.exchange.errors import ExportDamaged
from alloc_es.exchange.run_columns import RUN_COLUMNS, NotAsWritten, RunColumns, RunRow
from alloc_es.identity import run_stream
from alloc_es.wording import shown

FACTS = b"alloc_es"
"""The key in a file's own metadata under which a `RunFile` is."""

_NAME = re.compile(r"runs-\d{20}\.parquet")


@dataclass(frozen=True, slots=True)
class RunFile:
    """What is known of a file of runs: it holds those at the positions `(after, up_to]`.

    `first` and `last` are the positions of the first and the last of its `rows`; `digest` is
    the SHA-256 of the rows' digests in their order, in hexadecimal, each with a line feed.
    """

    name: str
    after: int
    up_to: int
    first: int
    last: int
    rows: int
    digest: str

    def check(self) -> None:
        """Raise `TypeError` where something is of another type, which a file may say."""
        for field in fields(self):
            if type(value := getattr(self, field.name)) is not field.type:
                raise TypeError(f"its {field.name} is {shown(value)}")


def is_run_file(name: str) -> bool:
    """Whether a file of runs can have a name."""
    return _NAME.fullmatch(name) is not None


def run_file_name(up_to: int) -> str:
    """The name of the file whose range ends at a position."""
    return f"runs-{up_to:020}.parquet"


class RowGroup(NamedTuple):
    """A row group: the places of its file and itself, its rows' positions, and rows before it."""

    file: "OpenRunFile"
    number: int
    first: int
    last: int
    rows_before: int


class OpenRunFile:
    """A file of runs that was opened, and is as far as its footer says what `RunFile` says."""

    def __init__(self, path: Path) -> None:
        pa = arrow()
        self.path = path
        self._rows = RunColumns()
        try:
            self.parquet = pa.parquet.ParquetFile(path)
            facts = json.loads(self.parquet.metadata.metadata[FACTS])
            self.facts = RunFile(**facts)
            self.facts.check()
        except (OSError, KeyError, TypeError, ValueError, pa.ArrowException) as error:
            problem = f"it is no whole file of runs: {in_words(error)}"
            raise ExportDamaged(path, None, problem) from error
        if not self.parquet.schema_arrow.equals(schema_of(RUN_COLUMNS)):
            raise ExportDamaged(path, None, "its columns are not those of a file of runs")
        self.groups = list(self._groups())
        self._check_facts()

    def _groups(self) -> Iterator[RowGroup]:
        metadata, before = self.parquet.metadata, 0
        for number in range(metadata.num_row_groups):
            group = metadata.row_group(number)
            seen = group.column(0).statistics
            if seen is None or not seen.has_min_max:
                raise ExportDamaged(self.path, before + 1, "nothing says which positions follow")
            yield RowGroup(self, number, seen.min, seen.max, before)
            before += group.num_rows

    def _check_facts(self) -> None:
        facts = self.facts
        for earlier, later in pairwise(self.groups):
            if later.first <= earlier.last:
                problem = f"position {later.first} does not follow {earlier.last}"
                raise ExportDamaged(self.path, later.rows_before + 1, problem)
        held = (self.groups[0].first, self.groups[-1].last) if self.groups else (0, 0)
        if (
            (facts.name, facts.rows) != (self.path.name, self.parquet.metadata.num_rows)
            or (facts.first, facts.last) != held
            or not facts.after < facts.first <= facts.last <= facts.up_to
        ):
            raise ExportDamaged(self.path, None, "it does not hold what its footer says")

    def read(self, group: RowGroup, only: int | None = None) -> list[RunRow]:
        """The rows of a row group, or the one at the position `only`. Raises `ExportDamaged`."""
        rows: list[RunRow] = []
        last = group.first - 1
        try:
            for row in self._rows.rows(self._columns(group, only)):
                if not last < row.stored.position <= group.last:
                    raise NotAsWritten(f"position {row.stored.position} does not follow {last}")
                last = row.stored.position
                rows.append(row)
        except NotAsWritten as error:
            line = group.rows_before + len(rows) + 1
            raise ExportDamaged(self.path, line, str(error)) from None
        return rows

    def find(self, group: RowGroup, stream: str) -> int | None:
        """The position of the first run of a stream in a row group, if it has one."""
        names = ["position", "tenant_id", "run_id", "stream"]
        columns = self._table(group, names).to_pydict()
        for position, tenant_id, run_id, kept in zip(*columns.values(), strict=True):
            if stream == (run_stream(tenant_id, run_id) if kept is None else kept):
                return int(position)
        return None

    def _columns(self, group: RowGroup, only: int | None) -> dict[str, list[Any]]:
        table = self._table(group, list(RUN_COLUMNS))
        if only is not None:
            table = table.filter(arrow().compute.equal(table["position"], only))
        return rows_of(table)

    def _table(self, group: RowGroup, names: list[str]) -> Any:
        try:
            return self.parquet.read_row_group(group.number, columns=names)
        except (OSError, ValueError, arrow().ArrowException) as error:
            problem = f"its rows can't be read: {in_words(error)}"
            raise ExportDamaged(self.path, group.rows_before + 1, problem) from error
