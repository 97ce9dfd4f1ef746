"""Tables, and the split drawn so that one sees it."""

from collections.abc import Sequence
from datetime import datetime

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from alloc_es.allocation import Allocation
from alloc_es.cli.output import one_line, split_words
from alloc_es.events import DecisionEvent
from alloc_es.split import BUCKETS, Share
from alloc_es.store import Recorded
from alloc_es.wording import describe

_BAR_WIDTH = 50
# Different without colour too: the control is solid, challengers take turns.
_FILLS = (("█", "cyan"), ("▓", "yellow"), ("▒", "magenta"), ("░", "green"))


def split_drawing(newest: Recorded[DecisionEvent]) -> RenderableType:
    """One workflow: a bar of the split, a line for each arm, and who decided last."""
    allocation = newest.event.allocation
    title = f"{one_line(str(allocation.key))}  generation {allocation.generation}"
    why = f": {one_line(newest.reason)}" if newest.reason else ""
    last = f"last: {describe(newest.event)}, by {newest.actor}, {_when(newest.time)}{why}"
    return Group(Text(title, style="bold"), _bar(allocation), _legend(allocation), Text(last))


def allocation_table(allocations: Sequence[Allocation]) -> Table:
    """Many workflows, a row each."""
    table = _table("TENANT", "WORKFLOW", "GENERATION", "CURRENT", "CHALLENGERS", "SPLIT")
    for allocation in allocations:
        table.add_row(
            Text(one_line(allocation.tenant_id)),
            Text(one_line(allocation.workflow_id)),
            Text(str(allocation.generation)),
            Text(one_line(allocation.current)),
            Text(one_line(", ".join(allocation.challengers) or "-")),
            Text(one_line(split_words(allocation))),
        )
    return table


def history_table(entries: Sequence[Recorded[DecisionEvent]]) -> Table:
    """Every decision of one workflow, a row each."""
    table = _table("GENERATION", "POSITION", "TIME (UTC)", "WHAT", "SPLIT", "ACTOR", "REASON")
    for entry in entries:
        table.add_row(
            Text(str(entry.generation)),
            Text(str(entry.position)),
            Text(f"{entry.time:%Y-%m-%d %H:%M:%S}"),
            Text(one_line(describe(entry.event))),
            Text(one_line(split_words(entry.event.allocation))),
            Text(one_line(entry.actor)),
            Text(one_line(entry.reason)),
        )
    return table


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False, show_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def _bar(allocation: Allocation) -> Text:
    """A bar in which every arm with a share has at least one cell."""
    bar = Text()
    challengers = [_cells(arm.share_bps) for arm in allocation.challenger_arms]
    cells = [max(1, _BAR_WIDTH - sum(challengers)), *challengers]
    for index, count in enumerate(cells):
        fill, style = _fill(index)
        bar.append(fill * count, style=style)
    return bar


def _legend(allocation: Allocation) -> Table:
    table = Table.grid(padding=(0, 2))
    for index, arm in enumerate(allocation.arms):
        fill, style = _fill(index)
        table.add_row(
            Text(fill, style=style),
            Text(one_line(arm.version), style="bold"),
            Text(arm.name),
            Text(str(Share(arm.share_bps)), justify="right"),
            Text(f"since generation {arm.since_generation}, {_when(arm.since)}"),
        )
    return table


def _cells(share_bps: int) -> int:
    return max(1, round(share_bps * _BAR_WIDTH / BUCKETS)) if share_bps else 0


def _fill(index: int) -> tuple[str, str]:
    return _FILLS[0] if index == 0 else _FILLS[1 + (index - 1) % (len(_FILLS) - 1)]


def _when(time: datetime) -> str:
    return f"{time:%Y-%m-%d %H:%M:%S} UTC"
