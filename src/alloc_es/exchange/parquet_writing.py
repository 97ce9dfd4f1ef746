"""Writing an export in Parquet, and going on with one that was interrupted."""

import json
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from alloc_es import codec
from alloc_es.evidence import Evidence
from alloc_es.exchange.arrow import arrow
from alloc_es.exchange.errors import ExportDamaged
from alloc_es.exchange.files import part_of, written_whole
from alloc_es.exchange.parquet import (
    DECISIONS,
    MANIFEST,
    TYPE,
    read_decisions,
    write_decisions,
    write_manifest,
)
from alloc_es.exchange.parquet_runs import SPAN, RunFiles, write_runs
from alloc_es.exchange.written import Written, has_at
from alloc_es.rebuilding import Report
from alloc_es.store.recorder import LOGS, LogName, Stored


def write_tables(evidence: Evidence, part: Path, report: Report) -> Written:
    """Write an export to a directory, on the disk, going on behind the files that are there.

    `manifest.json.part` says to which ends it is to go.
    """
    arrow()
    ends = _found(part, evidence) or _begun(part, evidence)
    goal, done = sum(ends.values()), _done(part)
    report(sum(done.values()), goal)
    if not (part / DECISIONS).exists():
        rows = evidence.stored("decisions", 0, ends["decisions"])
        write_decisions(part, rows, lambda position: report(position + done["runs"], goal))
    for _ in write_runs(
        part,
        evidence.stored("runs", done["runs"], ends["runs"]),
        after=done["runs"],
        up_to=ends["runs"],
        span=SPAN,
        report=lambda position: report(ends["decisions"] + position, goal),
    ):
        pass
    write_manifest(part, ends)
    counts: dict[LogName, int] = {
        "decisions": sum(1 for _ in read_decisions(part / DECISIONS)),
        "runs": sum(file.rows for file in RunFiles(part).files),
    }
    return Written(ends, counts, sum(done.values()))


def _begun(part: Path, evidence: Evidence) -> Mapping[LogName, int]:
    """Empty the directory, and say to which ends the export is to go."""
    # First, so that nothing is gone on behind files of which only some are left.
    _pin(part, {})
    for path in part.iterdir():
        if path != part_of(part / MANIFEST):
            path.unlink()
    ends = {log: evidence.ends()[log] for log in LOGS}
    _pin(part, ends)
    return ends


def _pin(part: Path, ends: Mapping[LogName, int]) -> None:
    """Say whose directory it is, and to which ends the export in it is to go."""
    with written_whole(part_of(part / MANIFEST)) as path:
        path.write_text(json.dumps({"type": f"{TYPE}.began", "ends": ends}, indent=2))


def _found(part: Path, evidence: Evidence) -> Mapping[LogName, int] | None:
    """To which ends an interrupted export of the same log was to go; None where there is none."""
    with suppress(OSError, KeyError, TypeError, ValueError, ExportDamaged):
        said = json.loads(part_of(part / MANIFEST).read_bytes())
        ends: dict[LogName, int] = {log: said["ends"][log] for log in LOGS}
        now = evidence.ends()
        RunFiles(part).check()
        whole = _done(part)["decisions"] in (0, ends["decisions"])
        if whole and all(ends[log] <= now[log] for log in LOGS) and _is_of(evidence, part):
            return ends
    return None


def _done(part: Path) -> dict[LogName, int]:
    """The last positions that are written."""
    last = _last_decision(part)
    files = RunFiles(part).files
    return {"decisions": last.position if last else 0, "runs": files[-1].up_to if files else 0}


def _is_of(evidence: Evidence, part: Path) -> bool:
    """Whether the last events that are written are those of the log."""
    last, runs = _last_decision(part), RunFiles(part)
    run = next(runs.rows(runs.last - 1), None)
    return has_at(
        evidence,
        "decisions",
        last.position if last else 0,
        codec.digest(last.state) if last else None,
    ) and has_at(evidence, "runs", runs.last, run.digest if run else None)


def _last_decision(part: Path) -> Stored | None:
    path = part / DECISIONS
    last = deque(read_decisions(path) if path.exists() else (), maxlen=1)
    return last[0] if last else None
