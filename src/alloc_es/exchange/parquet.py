"""An export in Parquet: a directory with decisions, runs, and what says that it is whole."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import Any

from alloc_es import codec
from alloc_es.errors import UnreadableEvent
from alloc_es.events import DecisionEvent, Recorded, RunSpawned
from alloc_es.evidence import Evidence, Unreadable
from alloc_es.exchange.arrow import arrow, batch_of, in_words, rows_of, schema_of
from alloc_es.exchange.decision_columns import DECISION_COLUMNS, decision_entry, decision_row
from alloc_es.exchange.errors import ExportDamaged
from alloc_es.exchange.files import sha256_of, written_whole
from alloc_es.exchange.parquet_runs import RunFiles
from alloc_es.exchange.written import are_ends
from alloc_es.identity import RunId, TenantId, WorkflowKey, run_stream
from alloc_es.store.log import parts_up_to
from alloc_es.store.recorder import LOGS, UNLIMITED, LogName, Stored

DECISIONS, MANIFEST = "decisions.parquet", "manifest.json"
TYPE, FORMAT_VERSION = "alloc_es.export", 1

_GROUP = 1_000
_DIGEST = list(DECISION_COLUMNS).index("digest")
_ORDER = ("position", "stream", "generation", "type", "state")


def write_decisions(
    directory: Path, rows: Iterator[Stored], report: Callable[[int], None] = lambda _: None
) -> None:
    """Write the decisions of a log to their file, which is whole and on the disk then."""
    schema = schema_of(DECISION_COLUMNS)
    with (
        written_whole(directory / DECISIONS) as part,
        arrow().parquet.ParquetWriter(part, schema, compression="zstd") as writer,
    ):
        while page := list(islice(rows, _GROUP)):
            writer.write_batch(batch_of(schema, list(map(decision_row, page))))
            report(page[-1].position)


def read_decisions(path: Path) -> Iterator[Stored]:
    """The decisions of a file as they were stored.

    Raises `ExportDamaged` at the first row that is not as it was written.
    """
    last, row = 0, 0
    for columns in _row_groups(path):
        names = [columns[name] for name in DECISION_COLUMNS]
        places = [columns[name] for name in _ORDER]
        for found, place in zip(zip(*names, strict=True), zip(*places, strict=True), strict=True):
            row += 1
            if None in place or decision_row(stored := Stored(*place)) != found:
                raise ExportDamaged(path, row, "its columns are not those of its stored bytes")
            if stored.position <= last:
                problem = f"position {stored.position} does not follow {last}"
                raise ExportDamaged(path, row, problem)
            last = stored.position
            yield stored


def _last_position(path: Path) -> int:
    """The position in the last row of a file of decisions, 0 where it has none."""
    last = 0
    for positions in _row_groups(path, ["position"], lambda table: table["position"].to_pylist()):
        last = positions[-1] if positions else last
    return last


def _row_groups(
    path: Path,
    names: Sequence[str] = tuple(DECISION_COLUMNS),
    made: Callable[[Any], Any] = rows_of,
) -> Iterator[Any]:
    pa = arrow()
    try:
        with pa.parquet.ParquetFile(path) as file:
            if not file.schema_arrow.equals(schema_of(DECISION_COLUMNS)):
                raise ExportDamaged(path, None, "its columns are not those of decisions")
            for number in range(file.metadata.num_row_groups):
                yield made(file.read_row_group(number, columns=list(names)))
    except (OSError, ValueError, pa.ArrowException) as error:
        raise ExportDamaged(path, None, f"it can't be read: {in_words(error)}") from error


def write_manifest(directory: Path, ends: Mapping[LogName, int]) -> None:
    """Say of the files in a directory that they are a whole export, to these ends."""
    runs = RunFiles(directory)
    names = [DECISIONS, *(file.name for file in runs.files)]
    said = {
        "type": TYPE,
        "format": FORMAT_VERSION,
        "ends": {log: ends[log] for log in LOGS},
        "sha256": {name: sha256_of(directory / name) for name in names},
        "runs": [asdict(file) for file in runs.files],
    }
    runs.close()
    with written_whole(directory / MANIFEST) as part:
        part.write_text(f"{json.dumps(said, indent=2)}\n")


class ParquetExport(Evidence):
    """An export in Parquet, as evidence.

    Where it is opened, each file is compared with the manifest, unless `check` is False. What
    is read later is checked again: each row against its own digest, and that positions rise.
    Raises `ExportDamaged`.
    """

    def __init__(self, directory: Path, *, check: bool = True) -> None:
        self.where = str(directory)
        self._directory = directory
        self._manifest = _manifest(directory / MANIFEST)
        self._runs = RunFiles(directory)
        if [asdict(file) for file in self._runs.files] != self._manifest["runs"]:
            raise self._untrue("the files of runs beside it are not those that it tells of")
        self._hold_end("runs", self._runs.last)
        if check:
            self._check()

    def _check(self) -> None:
        names = {DECISIONS, *(file.name for file in self._runs.files)}
        if set(self._manifest["sha256"]) != names:
            raise self._untrue("the files whose SHA-256 it has are not those beside it")
        for name, told in self._manifest["sha256"].items():
            path = self._directory / name
            if not path.is_file() or sha256_of(path) != told:
                # It names the row, if it is one.
                for _ in read_decisions(path) if name == DECISIONS else ():
                    pass
                self._runs.check()
                problem = f"its SHA-256 is not the one in {MANIFEST}"
                raise ExportDamaged(path, None, problem)
        self._hold_end("decisions", _last_position(self._directory / DECISIONS))

    def _hold_end(self, log: LogName, last: int) -> None:
        """Raise `ExportDamaged`, unless the last event of a log is where the log ends."""
        if (end := self.ends()[log]) != last:
            problem = f"it says that the {log} end at {end}, and the last of them is at {last}"
            raise self._untrue(problem)

    def _untrue(self, problem: str) -> ExportDamaged:
        return ExportDamaged(self._directory / MANIFEST, None, problem)

    def ends(self) -> Mapping[LogName, int]:
        """The last position of each log when the export began."""
        return {log: self._manifest["ends"][log] for log in LOGS}

    def decisions(self) -> Iterator[Recorded[DecisionEvent] | Unreadable]:
        """The whole decision log."""
        for stored in self.stored("decisions"):
            entry = decision_entry(stored)
            if isinstance(entry, UnreadableEvent):
                yield Unreadable(stored.position, entry, codec.digest(stored.state))
            else:
                yield entry

    def runs(
        self, after: int = 0, up_to: int = UNLIMITED
    ) -> Iterator[Recorded[RunSpawned] | Unreadable]:
        """The run log behind a position, up to another one."""
        for row in self._runs.rows(after, up_to=up_to):
            if isinstance(row.entry, UnreadableEvent):
                yield Unreadable(row.stored.position, row.entry, codec.digest(row.stored.state))
            else:
                yield row.entry

    def stored(self, log: LogName, after: int = 0, up_to: int = UNLIMITED) -> Iterator[Stored]:
        """The rows of a log as they were stored."""
        if log == "runs":
            yield from (row.stored for row in self._runs.rows(after, up_to=up_to))
            return
        for stored in read_decisions(self._directory / DECISIONS):
            if stored.position > up_to:
                return
            if stored.position > after:
                yield stored

    def parts(self) -> Sequence[tuple[int, int]]:
        """Parts of 50,000 positions, up to the log's end."""
        return parts_up_to(self.ends()["runs"])

    def history(self, key: WorkflowKey) -> list[Recorded[DecisionEvent]]:
        """The decisions on one workflow, oldest first; looks at every decision."""
        stored = (each for each in self.stored("decisions") if each.stream == key.stream)
        found = []
        for entry in map(decision_entry, stored):
            if isinstance(entry, UnreadableEvent):
                raise entry
            found.append(entry)
        return found

    def run(self, tenant_id: TenantId, run_id: RunId) -> Recorded[RunSpawned] | None:
        """The run of an id, or None; looks at the ids of all."""
        return self._runs.find(run_stream(tenant_id, run_id))

    def close(self) -> None:
        """Close the files."""
        self._runs.close()


def _manifest(path: Path) -> dict[str, Any]:
    """What a manifest says, as far as it is used. Raises `ExportDamaged`."""
    try:
        said: dict[str, Any] = json.loads(path.read_bytes())
        known = (said["type"], said["format"]) == (TYPE, FORMAT_VERSION)
        whole = isinstance(said["sha256"], dict) and isinstance(said["runs"], list)
        if not known or not whole or not are_ends(said["ends"]):
            raise ValueError(f"it is not that of an export of format {FORMAT_VERSION}")
    except OSError as error:
        problem = f"{error.strerror}: without it the export is not whole"
        raise ExportDamaged(path, None, problem) from error
    except (KeyError, TypeError, ValueError) as error:
        raise ExportDamaged(path, None, f"it can't be read: {error}") from error
    return said
