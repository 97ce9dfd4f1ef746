"""Exporting both logs of a store, or of another export, to a place of its own."""

import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Literal, get_args

from alloc_es.errors import AllocationError, InvalidSetting
from alloc_es.evidence import Evidence
from alloc_es.exchange.cloudevents_writing import LineExport, write_lines
from alloc_es.exchange.errors import ExportExists
from alloc_es.exchange.files import PART, part_of, settle
from alloc_es.exchange.opening import open_export
from alloc_es.exchange.parquet import DECISIONS, MANIFEST
from alloc_es.exchange.parquet_writing import write_tables
from alloc_es.exchange.run_file import is_run_file
from alloc_es.exchange.written import Report, Written, continues
from alloc_es.store.recorder import LogName
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
    report: Report = lambda _done, _goal: None,
) -> Exported:
    """Export both logs, up to their ends at the beginning, runs looked up before decisions.

    In CloudEvents to a file, or a stream that bytes are written to; in Parquet to a directory.
    A path appears when the export is whole and on the disk. Until then it is written beside
    it, under its name with `.part`: the same call goes on behind what is whole there, after
    it has checked that. The same log gives the same bytes.

    Raises `ExportExists` where `target` is something that is no earlier export of the same
    log, unless `force` is given; `InvalidSetting`; and what the evidence raises. What the file
    system refuses leaves as an `OSError`.
    """
    if format not in get_args(Format):
        raise InvalidSetting("format", f"{shown(format)} is none of {', '.join(get_args(Format))}")
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
    with _alone_at(part, is_directory=format == "parquet"):
        written = write(evidence, part, report)
        if target.is_dir() or part.is_dir():
            _remove(target)
        settle(part, target)
    return _exported(str(target), format, written)


def _exported(where: str, format: Format, written: Written) -> Exported:
    ends, counts, kept = written
    return Exported(where, format, ends, counts["decisions"], counts["runs"], kept)


@contextmanager
def _alone_at(part: Path, *, is_directory: bool) -> Iterator[None]:
    """A place to write to that nobody else writes to meanwhile."""
    # Here, because not every system has it, and the command line is imported on all of them.
    import fcntl

    if part.is_dir() != is_directory:
        _remove(part)
    if is_directory:
        part.mkdir(exist_ok=True)
    else:
        part.touch()
    descriptor = os.open(part, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError as error:
        raise InvalidSetting("target", f"another process writes to {part}") from error
    finally:
        os.close(descriptor)


def _refuse_another(evidence: Evidence, target: Path, *, force: bool) -> None:
    """Raise `ExportExists` where what is there would be missed."""
    if target.is_dir():
        others = [each.name for each in target.iterdir() if not _is_ours(each)]
        if others:
            raise ExportExists(target, f"holds {sorted(others)[0]}, which is no part of an export")
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


def _is_ours(path: Path) -> bool:
    name = path.name.removesuffix(PART)
    return name in (DECISIONS, MANIFEST) or is_run_file(name)


def _remove(path: Path) -> None:
    """Remove an export, or what there is of one; nothing where there is none."""
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
