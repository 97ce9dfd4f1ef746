"""Whether a file in CloudEvents is what was exported, and if it is not, in which line."""

from collections.abc import Mapping
from hashlib import sha256

from alloc_es.errors import UnreadableEvent
from alloc_es.exchange.cloudevents import (
    BEGAN,
    ENDED,
    FORMAT_VERSION,
    EventLine,
    Mark,
    NotALine,
    began_line,
    entry,
    event_line,
    is_canonical,
    parse,
    place,
)
from alloc_es.exchange.line_file import LineFile
from alloc_es.exchange.written import are_ends
from alloc_es.store.recorder import LOGS, LogName


class Order:
    """Holds that events come in the order of an export: decisions, runs, each by position."""

    def __init__(self) -> None:
        self.counts: dict[LogName, int] = dict.fromkeys(LOGS, 0)
        self.last: dict[LogName, int] = dict.fromkeys(LOGS, 0)

    def admit(self, log: LogName, position: int) -> None:
        """Take the next event. Raises `NotALine` where it does not follow the one before it."""
        if log == "decisions" and self.counts["runs"]:
            raise NotALine("a decision stands behind runs")
        if position <= self.last[log]:
            raise NotALine(f"position {position} of the {log} does not follow {self.last[log]}")
        self.counts[log] += 1
        self.last[log] = position


def read_began(file: LineFile) -> tuple[Mapping[LogName, int], int]:
    """What the first line says of the ends of both logs, and where the second one begins.

    Raises `ExportDamaged` where it is not the first line of an export.
    """
    first = next(file.lines(), None)
    if first is None:
        raise file.damaged(0, "it is empty")
    try:
        mark = parse(first.text.rstrip(b"\r\n"))
        ends = _ends(mark)
    except NotALine as error:
        raise file.damaged(0, f"no export begins like this: {error}") from None
    return ends, len(first.text)


def _ends(mark: EventLine | Mark) -> Mapping[LogName, int]:
    if not isinstance(mark, Mark) or mark.type != BEGAN:
        raise NotALine(f"it is not of the type {BEGAN}")
    if mark.data.get("format") != FORMAT_VERSION:
        raise NotALine(f"its format is {mark.data.get('format')}, known is {FORMAT_VERSION}")
    ends = mark.data.get("ends")
    if not are_ends(ends):
        raise NotALine("it does not say where the logs end")
    return {log: ends[log] for log in LOGS}


def read_ended(file: LineFile) -> tuple[Mark, int]:
    """The last line, and where it begins. Raises `ExportDamaged` where the file was cut off."""
    offset = file.last()
    text = next(file.lines(offset)).text
    try:
        mark = parse(text.rstrip(b"\r\n"))
        if isinstance(mark, Mark) and mark.type == ENDED:
            return mark, offset
        problem = f"it is not of the type {ENDED}"
    except NotALine as error:
        problem = str(error)
    raise file.damaged(offset, f"the file ends here, not with the end of an export: {problem}")


def check_whole(file: LineFile) -> None:
    """Read the whole file. Raises `ExportDamaged`, naming the first line that was not written so.

    Where its bytes have another digest than its last line says, it may be that another
    program has written the same events in a form of its own; then each line is looked at.
    Where they have that digest, somebody else may have computed it: how many events there are
    in their order, and up to which positions, is counted.
    """
    ended, offset = read_ended(file)
    if file.digest(offset) == ended.data.get("sha256"):
        _Count(file, ended, offset).run()
    else:
        _Search(file, ended, offset).run()


class _Count:
    """The count of the events between the first line and the last one."""

    def __init__(self, file: LineFile, ended: Mark, end: int) -> None:
        self._file = file
        self._ended = ended
        self._end = end
        self._order = Order()

    def run(self) -> None:
        """Raise `ExportDamaged`, unless the first and the last line tell of these events."""
        ends, begin = read_began(self._file)
        for offset, text in self._file.lines(begin):
            if offset == self._end:
                break
            try:
                self._admit(text.rstrip(b"\r\n"))
            except NotALine as error:
                raise self._file.damaged(offset, str(error)) from None
        counts = {log: self._ended.data.get(log) for log in LOGS}
        if counts != self._order.counts:
            told, held = (
                " and ".join(f"{many} {log}" for log, many in each.items())
                for each in (counts, self._order.counts)
            )
            raise self._file.damaged(self._end, f"it tells of {told}, and there are {held}")
        for log, end in ends.items():
            if end != (last := self._order.last[log]):
                problem = f"it says that the {log} end at {end}, and the last of them is at {last}"
                raise self._file.damaged(0, problem)

    def _admit(self, text: bytes) -> None:
        self._order.admit(*place(text))


class _Search(_Count):
    """The search for the first line that is not as it was written."""

    def __init__(self, file: LineFile, ended: Mark, end: int) -> None:
        super().__init__(file, ended, end)
        self._generations: dict[str, int] = {}
        self._written = sha256(began_line(read_began(file)[0]))

    def run(self) -> None:
        """Raise `ExportDamaged`, unless the lines are those that were written."""
        super().run()
        if self._written.hexdigest() != self._ended.data.get("sha256"):
            problem = "the lines before it are not those whose SHA-256 it gives"
            raise self._file.damaged(self._end, problem)

    def _admit(self, text: bytes) -> None:
        line = parse(text)
        if isinstance(line, Mark):
            raise NotALine(f"a line of the type {line.type} stands between events")
        self._order.admit(line.log, line.stored.position)
        if line.log == "decisions":
            self._follow(line.stored.stream, line.stored.version)
        held = entry(line)
        if isinstance(held, UnreadableEvent) and line.time is not None:
            raise NotALine(f"its data do not fit its attributes: {held.unreadable}")
        self._written.update(event_line(line, canonical=is_canonical(line.stored.state)))

    def _follow(self, stream: str, generation: int) -> None:
        before = self._generations.get(stream, 0)
        if generation != before + 1:
            raise NotALine(f"generation {generation} of {stream} does not follow {before}")
        self._generations[stream] = generation
