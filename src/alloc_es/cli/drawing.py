"""Tables, and the split drawn so that one sees it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from rich.console import Console, ConsoleOptions, RenderableType
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from alloc_es.allocation import Allocation
from alloc_es.cli.documents import split_words
from alloc_es.cli.output import one_line
from alloc_es.events import DecisionEvent
from alloc_es.split import BUCKETS, Share
from alloc_es.store import Recorded

_BAR_WIDTH = 50
_ANY_WIDTH = 1_000_000
# Different without colour too: the control is solid, challengers take turns.
_STYLES = ("cyan", "yellow", "magenta", "green")
_FILLS = "█▓▒░"
_ASCII_FILLS = "#=+-"


@dataclass(frozen=True, slots=True)
class SplitDrawing:
    """One workflow: a bar of the split, a line for each arm, and who decided last.

    `moment` says as of what the decision is the last one, empty for now.
    """

    last: Recorded[DecisionEvent]
    moment: str = ""

    def __rich_console__(
        self, console: Console, options: ConsoleOptions
    ) -> Iterator[RenderableType]:
        """Draw for the width and the characters that a terminal has."""
        allocation, fills = self.last.event.allocation, fills_of(options)
        title = f"{one_line(str(allocation.key))}  generation {allocation.generation}"
        yield Text(title, style="bold")
        if self.moment:
            yield Text(self.moment)
        yield _bar(allocation, fills, min(_BAR_WIDTH, options.max_width))
        yield legend(allocation, fills)
        yield Text(f"last: {decided(self.last)}")


@dataclass(frozen=True, slots=True)
class Rows:
    """A table where it fits; on a narrower terminal a block of lines for each row.

    A block is one of `titles` over the row's `details`.
    """

    columns: tuple[str, ...]
    cells: Sequence[tuple[str, ...]]
    titles: Sequence[str]
    details: Sequence[tuple[str, ...]]

    def __rich_console__(
        self, console: Console, options: ConsoleOptions
    ) -> Iterator[RenderableType]:
        """Choose by the width that the table would take."""
        table = self._table()
        wanted = Measurement.get(console, options.update(width=_ANY_WIDTH), table)
        if wanted.maximum <= options.max_width:
            yield table
        else:
            yield from self._blocks()

    def _table(self) -> Table:
        table = Table(box=None, pad_edge=False, show_edge=False, header_style="bold")
        for column in self.columns:
            table.add_column(column, overflow="fold")
        for cells in self.cells:
            table.add_row(*(Text(cell) for cell in cells))
        return table

    def _blocks(self) -> Iterator[RenderableType]:
        for title, details in zip(self.titles, self.details, strict=True):
            yield Text(title, style="bold", overflow="fold")
            told = [detail for detail in details if detail]
            lines = Table.grid(padding=(0, 0, 0, 2))
            for detail in told:
                lines.add_row("", Text(detail, overflow="fold"))
            # A grid without rows is an empty line.
            if told:
                yield lines


def allocation_rows(allocations: Sequence[Allocation]) -> Rows:
    """Many workflows, a row each."""
    return Rows(
        columns=("TENANT", "WORKFLOW", "GENERATION", "CURRENT", "CHALLENGERS", "SPLIT"),
        cells=[
            (
                one_line(found.tenant_id),
                one_line(found.workflow_id),
                str(found.generation),
                one_line(found.current),
                one_line(", ".join(found.challengers) or "-"),
                one_line(split_words(found)),
            )
            for found in allocations
        ],
        titles=[f"{one_line(str(a.key))}  generation {a.generation}" for a in allocations],
        details=[(one_line(split_words(found)),) for found in allocations],
    )


def history_rows(entries: Sequence[Recorded[DecisionEvent]]) -> Rows:
    """Every decision of one workflow, a row each."""
    return Rows(
        columns=("GENERATION", "POSITION", "TIME (UTC)", "WHAT", "SPLIT", "ACTOR", "REASON"),
        cells=[
            (
                str(entry.generation),
                str(entry.position),
                f"{entry.time:%Y-%m-%d %H:%M:%S}",
                _what(entry.event),
                one_line(split_words(entry.event.allocation)),
                one_line(entry.actor),
                one_line(entry.reason),
            )
            for entry in entries
        ],
        titles=[
            f"{entry.generation}  {one_line(entry.actor)}, {when(entry.time)}" for entry in entries
        ],
        details=[
            (
                f"{_what(entry.event)}: {one_line(split_words(entry.event.allocation))}",
                one_line(entry.reason),
            )
            for entry in entries
        ],
    )


def _what(event: DecisionEvent) -> str:
    """What was decided; a split is told beside it anyway."""
    is_split = getattr(event, "decision", None) == "split"
    return "new split" if is_split else one_line(event.summary)


def _bar(allocation: Allocation, fills: str, width: int) -> Text:
    bar = Text(overflow="fold")
    for index, count in enumerate(_cells([arm.share_bps for arm in allocation.arms], width)):
        fill, style = look(index, fills)
        bar.append(fill * count, style=style)
    return bar


def _cells(shares: Sequence[int], width: int) -> list[int]:
    """How many cells each arm gets: by its share, and one at least if it has any."""
    challengers = [max(1, round(share * width / BUCKETS)) if share else 0 for share in shares[1:]]
    return [max(1, width - sum(challengers)), *challengers]


def legend(allocation: Allocation, fills: str) -> Table:
    """A line for each arm of an allocation."""
    table = Table.grid(padding=(0, 2))
    for _ in range(5):
        table.add_column(overflow="fold")
    for index, arm in enumerate(allocation.arms):
        fill, style = look(index, fills)
        table.add_row(
            Text(fill, style=style),
            Text(one_line(arm.version), style="bold"),
            Text(arm.name),
            Text(str(Share(arm.share_bps)), justify="right"),
            Text(f"since generation {arm.since_generation}, {when(arm.since)}"),
        )
    return table


def look(index: int, fills: str) -> tuple[str, str]:
    """The character and style of an arm by its place: the control's, or a challenger's turn."""
    turn = 0 if index == 0 else 1 + (index - 1) % (len(fills) - 1)
    return fills[turn], _STYLES[turn]


def fills_of(options: ConsoleOptions) -> str:
    """The characters that the arms are drawn with."""
    return _ASCII_FILLS if options.ascii_only else _FILLS


def decided(decision: Recorded[DecisionEvent]) -> str:
    """What a decision did, who made it, when and why."""
    why = f": {one_line(decision.reason)}" if decision.reason else ""
    who, what = one_line(decision.actor), one_line(decision.event.summary)
    return f"{what}, by {who}, {when(decision.time)}{why}"


def when(time: datetime) -> str:
    """A time for people."""
    return f"{time:%Y-%m-%d %H:%M:%S} UTC"
