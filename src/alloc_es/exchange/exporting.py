"""Exporting both logs of a store, or of another export, to a place of its own."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Literal, get_args

from alloc_es.errors import AllocationError, InvalidSetting, UnreadableEvent
from alloc_es.evidence import Evidence
from alloc_es.exchange.cloudevents_writing import LineExport, write_lines
from alloc_es.exchange.errors import ExportExists
from alloc_es.exchange.files import part_of, settle
from alloc_es.exchange.opening import open_export
from alloc_es.exchange.parquet_writing import write_tables
from alloc_es.exchange.places import alone_at, refuse_others, remove
from alloc_es.exchange.written import Written, continues
from alloc_es.rebuilding import Report, _unreported
from alloc_es.store.recorder import LOGS, LOWEST, LogName
from alloc_es.wording import shown

Format = Literal["cloudevents", "parquet"]
"""What an export is written in."""


@dataclass(frozen=True, slots=True)
class Exported:
    """An export that is whole: where it is, its format, and how many events of each log it holds.

    `ends` are the last positions of the logs when it began; `kept` is how many positions of
    both logs an earlier call had exported, which was interrupted.
    """

    where: str
    format: Format
    ends: Mapping[LogName, int]
    decisions: int
    runs: int
    kept: int


def export(
    evidence: Evidence,
    target: Path | IO[bytes],
    *,
    format: Format = "cloudevents",
    force: bool = False,
    report: Report = _unreported,
) -> Exported:
    """Export both logs, up to their ends at the beginning, runs looked up before decisions.

    In CloudEvents to a file, or a stream that bytes are written to; in Parquet to a directory.
    A path appears when the export is whole and on the disk. Until then it is written beside
    it, under its name with `.part`: the same call goes on behind what is whole there, after
    it has checked that. The same log gives the same bytes.

    Raises `ExportExists` where `target` is something that is no earlier export of the same
    log, unless `force` is given, and where what lies beside it under `.part` is no export
    that was interrupted; `InvalidSetting`; and what the evidence raises. What the file system
    refuses leaves as an `OSError`. A row at a position below 1, which only other hands can
    have written, is an `UnreadableEvent`.
    """
    if format not in get_args(Format):
        raise InvalidSetting("format", f"{shown(format)} is none of {', '.join(get_args(Format))}")
    _refuse_below_all(evidence)
    if not isinstance(target, Path):
        if format != "cloudevents":
            raise InvalidSetting("target", "Parquet is written to a directory, not to a stream")
        written = LineExport(evidence.ends()).write(evidence, target, report)
        return _exported("-", format, written)
    if not target.absolute().parent.is_dir():
        raise InvalidSetting("target", f"there is no directory {target.absolute().parent}")
    if target.exists():
        _refuse_another(evidence, target, force=force)
    write = write_lines if format == "cloudevents" else write_tables
    part = part_of(target)
    with alone_at(part, is_directory=format == "parquet"):
        written = write(evidence, part, report)
        if target.is_dir() or part.is_dir():
            remove(target)
        settle(part, target)
    return _exported(str(target), format, written)


def _exported(where: str, format: Format, written: Written) -> Exported:
    ends, counts, kept = written
    return Exported(where, format, ends, counts["decisions"], counts["runs"], kept)


def _refuse_below_all(evidence: Evidence) -> None:
    """Raise `UnreadableEvent` where an export would leave something out."""
    for log in LOGS:
        for position, stream, version, topic, _ in evidence.stored(log, LOWEST, 0):
            problem = f"it lies at position {position}, and an export holds those from 1 up"
            raise UnreadableEvent(stream, version, topic, problem)


def _refuse_another(evidence: Evidence, target: Path, *, force: bool) -> None:
    """Raise `ExportExists` where what is there would be missed."""
    if target.is_dir():
        refuse_others(target)
    elif not target.is_file():
        raise ExportExists(target, "is no file")
    if not force and any(target.iterdir() if target.is_dir() else [target]):
        try:
            with open_export(target, check=False) as held:
                same = continues(evidence, held)
        except AllocationError as error:
            raise ExportExists(target, f"is no whole export: {error}") from error
        if not same:
            raise ExportExists(target, "holds an export of another log")
