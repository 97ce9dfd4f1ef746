"""An export in CloudEvents as evidence: a file, which is checked where it is opened."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from alloc_es.errors import UnreadableEvent
from alloc_es.events import DecisionEvent, Recorded, RunSpawned
from alloc_es.evidence import Evidence, Unreadable
from alloc_es.exchange.checking import Order, check_whole, read_began, read_ended
from alloc_es.exchange.cloudevents import EventLine, Mark, NotALine, entry, parse
from alloc_es.exchange.line_file import LineFile
from alloc_es.identity import RunId, TenantId, WorkflowKey, run_stream
from alloc_es.store.log import parts_up_to
from alloc_es.store.recorder import UNLIMITED, LogName, Stored


class CloudEventsFile(Evidence):
    """An export in CloudEvents, as evidence.

    Where it is opened, the whole file is read once and compared with the digest in its last
    line, unless `check` is False. What is read later is checked again: each event against its
    own digest, and that positions rise. Raises `ExportDamaged`.
    """

    def __init__(self, path: Path, *, check: bool = True) -> None:
        self.where = str(path)
        self._file = LineFile(path)
        self._ends, self._begin = read_began(self._file)
        _, self._end = read_ended(self._file)
        if check:
            check_whole(self._file)

    def ends(self) -> Mapping[LogName, int]:
        """The last position of each log when the export began."""
        return self._ends

    def decisions(self) -> Iterator[Recorded[DecisionEvent] | Unreadable]:
        """The whole decision log."""
        return self._entries("decisions", 0, UNLIMITED)

    def runs(
        self, after: int = 0, up_to: int = UNLIMITED
    ) -> Iterator[Recorded[RunSpawned] | Unreadable]:
        """The run log behind a position, up to another one."""
        return self._entries("runs", after, up_to)

    def stored(self, log: LogName, after: int = 0, up_to: int = UNLIMITED) -> Iterator[Stored]:
        """The rows of a log as they were stored."""
        for _, line in self._lines(log, after, up_to):
            yield line.stored

    def parts(self) -> Sequence[tuple[int, int]]:
        """Parts of 50,000 positions, up to the log's end."""
        return parts_up_to(self._ends["runs"])

    def history(self, key: WorkflowKey) -> list[Recorded[DecisionEvent]]:
        """The decisions on one workflow, oldest first; looks at every decision."""
        return list(self._of_stream("decisions", key.stream))

    def run(self, tenant_id: TenantId, run_id: RunId) -> Recorded[RunSpawned] | None:
        """The run of an id, or None; looks at every run."""
        return next(self._of_stream("runs", run_stream(tenant_id, run_id)), None)

    def close(self) -> None:
        """Nothing: no file is held open."""

    def _entries(self, log: LogName, after: int, up_to: int) -> Iterator[Any]:
        for offset, line in self._lines(log, after, up_to):
            held = self._entry(offset, line)
            if isinstance(held, UnreadableEvent):
                yield Unreadable(line.stored.position, held, line.digest)
            else:
                yield held

    def _of_stream(self, log: LogName, stream: str) -> Iterator[Any]:
        for offset, line in self._lines(log, 0, UNLIMITED):
            if line.stored.stream == stream:
                held = self._entry(offset, line)
                if isinstance(held, UnreadableEvent):
                    raise held
                yield held

    def _entry(self, offset: int, line: EventLine) -> Recorded[Any] | UnreadableEvent:
        try:
            return entry(line)
        except NotALine as error:
            raise self._file.damaged(offset, str(error)) from None

    def _lines(self, log: LogName, after: int, up_to: int) -> Iterator[tuple[int, EventLine]]:
        order = Order()
        for offset, text in self._file.lines(self._seek(log, after)):
            if offset >= self._end:
                return
            line = self._parsed(offset, text)
            if (line.log, log) == ("runs", "decisions") or line.stored.position > up_to:
                return
            try:
                order.admit(line.log, line.stored.position)
            except NotALine as error:
                raise self._file.damaged(offset, str(error)) from None
            yield offset, line

    def _seek(self, log: LogName, after: int) -> int:
        """Where the first event of a log behind a position begins, looking at few of them."""
        if log == "decisions" and not after:
            return self._begin
        low, high = self._begin, self._end
        while low < high:
            middle = (low + high) // 2
            offset = self._file.first_behind(middle)
            if offset >= self._end or self._is_behind(offset, log, after):
                high = middle
            else:
                low = offset + 1
        return self._file.first_behind(low)

    def _is_behind(self, offset: int, log: LogName, after: int) -> bool:
        """Whether an event has its place behind a position of a log."""
        line = self._parsed(offset, next(self._file.lines(offset)).text)
        if line.log != log:
            return line.log == "runs"
        return line.stored.position > after

    def _parsed(self, offset: int, text: bytes) -> EventLine:
        try:
            line = parse(text.rstrip(b"\r\n"))
            if isinstance(line, Mark):
                raise NotALine(f"a line of the type {line.type} stands between events")
        except NotALine as error:
            raise self._file.damaged(offset, str(error)) from None
        return line
