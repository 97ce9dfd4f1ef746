"""Writing an export in CloudEvents, and going on with one that was interrupted."""

from collections.abc import Mapping
from contextlib import suppress
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import IO

from alloc_es.errors import InvalidSetting
from alloc_es.evidence import Evidence
from alloc_es.exchange.checking import Order, read_began
from alloc_es.exchange.cloudevents import (
    EventLine,
    LineWriter,
    Mark,
    NotALine,
    began_line,
    ended_line,
    entry,
    parse,
)
from alloc_es.exchange.errors import ExportDamaged
from alloc_es.exchange.files import sync
from alloc_es.exchange.line_file import LineFile
from alloc_es.exchange.written import Written, has_at
from alloc_es.rebuilding import Report
from alloc_es.store.recorder import LOGS, LogName

_PAGE = 1_000


class LineExport:
    """An export up to some ends of the logs, as far as it is written."""

    def __init__(self, ends: Mapping[LogName, int]) -> None:
        self.ends = ends
        self.size = 0
        self._order = Order()
        self._digests: dict[LogName, str] = {}
        self._written = sha256()

    @classmethod
    def found(cls, part: Path, evidence: Evidence) -> "LineExport | None":
        """What an interrupted export of the same log has left, up to its last whole line."""
        with suppress(ExportDamaged, InvalidSetting):
            file = LineFile(part)
            ends, _ = read_began(file)
            now = evidence.ends()
            if all(ends[log] <= now[log] for log in LOGS):
                found = cls(ends)
                found._read(file)
                return found if found._is_of(evidence) else None
        return None

    def write(self, evidence: Evidence, sink: IO[bytes], report: Report) -> Written:
        """Write what is missing, up to the last line."""
        kept = self._done()
        if not self.size:
            self._put(sink, began_line(self.ends))
        lines, goal = LineWriter(), sum(self.ends.values())
        report(kept, goal)
        for log in LOGS:
            rows = evidence.stored(log, self._order.last[log], self.ends[log])
            while page := list(islice(rows, _PAGE)):
                self._put(sink, b"".join(lines.line(log, row) for row in page))
                self._order.counts[log] += len(page)
                self._order.last[log] = page[-1].position
                report(self._done(), goal)
        sink.write(ended_line(self._order.counts, self._written.hexdigest()))
        sink.flush()
        return Written(self.ends, self._order.counts, kept)

    def _put(self, sink: IO[bytes], text: bytes) -> None:
        sink.write(text)
        self._written.update(text)
        self.size += len(text)

    def _done(self) -> int:
        return sum(self._order.last.values())

    def _read(self, file: LineFile) -> None:
        """Take in the lines up to the first that is not whole, or not as it was written."""
        for offset, text in file.lines():
            with suppress(NotALine):
                if text.endswith(b"\n") and self._takes(offset, parse(text[:-1])):
                    self._written.update(text)
                    self.size += len(text)
                    continue
            return

    def _takes(self, offset: int, line: EventLine | Mark) -> bool:
        if isinstance(line, Mark):
            return offset == 0
        if line.stored.position > self.ends[line.log]:
            return False
        entry(line)
        self._order.admit(line.log, line.stored.position)
        self._digests[line.log] = line.digest
        return True

    def _is_of(self, evidence: Evidence) -> bool:
        return all(
            has_at(evidence, log, self._order.last[log], self._digests.get(log)) for log in LOGS
        )


def write_lines(evidence: Evidence, part: Path, report: Report) -> Written:
    """Write an export to a file, on the disk, going on behind what is there of it."""
    found = LineExport.found(part, evidence) or LineExport(evidence.ends())
    with part.open("r+b" if found.size else "wb") as sink:
        sink.truncate(found.size)
        sink.seek(found.size)
        written = found.write(evidence, sink, report)
    sync(part)
    return written
