"""How read models stand, drawn: tables, bars and what moves on a terminal."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from threading import Event, Thread

from rich.console import Console
from rich.live import Live
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeRemainingColumn,
)
from rich.table import Table
from rich.text import Text

from alloc_es.cli.drawing import Rows, when
from alloc_es.cli.output import one_line
from alloc_es.errors import AllocationError
from alloc_es.projection import Projection
from alloc_es.projections import Projections
from alloc_es.rebuilding import Report
from alloc_es.standing import ProjectionStatus

_LOOK = 1.0
_BAR_WIDTH = 20

States = Callable[[], Mapping[str, str]]
"""What is done for each read model, by its name."""


def projection_rows(found: Sequence[tuple[Projection, str | None]]) -> Rows:
    """Installed projections and the distributions that they come from, a row each."""
    return Rows(
        columns=("NAME", "VERSION", "LOGS", "TABLES AND VIEWS", "FROM", "MEANING"),
        cells=[
            (
                projection.name,
                str(projection.version),
                ", ".join(projection.logs),
                ", ".join(projection.relations),
                one_line(source or "-"),
                one_line(projection.meaning),
            )
            for projection, source in found
        ],
        titles=[f"{projection.name}  version {projection.version}" for projection, _ in found],
        details=[
            (
                one_line(projection.meaning),
                f"from the {' and the '.join(projection.logs)}: {', '.join(projection.relations)}",
                one_line(source or ""),
            )
            for projection, source in found
        ],
    )


def status_rows(statuses: Sequence[ProjectionStatus]) -> Rows:
    """How read models stand, a row each."""
    return Rows(
        columns=("NAME", "STANDING", "VERSION", "POSITION", "BEHIND", "WRITER", "UPDATED (UTC)"),
        cells=[
            (
                status.name,
                status.standing,
                _version(status),
                places(status),
                f"{sum(status.behind.values()):,}",
                one_line(status.writer or "-"),
                f"{status.updated_at:%Y-%m-%d %H:%M:%S}" if status.updated_at else "-",
            )
            for status in statuses
        ],
        titles=[f"{status.name}  {status.standing}" for status in statuses],
        details=[
            (
                f"version {_version(status)}",
                f"{places(status)}, {sum(status.behind.values()):,} behind",
                f"{one_line(status.writer)}, {when(status.updated_at)}"
                if status.writer and status.updated_at
                else "",
            )
            for status in statuses
        ],
    )


def remarks(statuses: Sequence[ProjectionStatus]) -> list[str]:
    """What an operator should know of read models besides their rows, a sentence each."""
    said = []
    for status in statuses:
        if status.failure is not None:
            said.append(str(status.failure))
        if status.rebuilding:
            done, goal = sum(status.rebuilding.values()), sum(status.ends.values())
            what = "its rebuild" if status.positions else "its first build"
            part = f", {done / goal:.0%}" if goal else ""
            said.append(f"{status.name}: {what} is at {done:,} of {goal:,} positions{part}")
    return said


def places(status: ProjectionStatus) -> str:
    """How far a read model is in each of its logs."""
    reached = status.positions or status.rebuilding
    return ", ".join(
        f"{log} {reached[log]:,} of {end:,}" if log in reached else f"{log} - of {end:,}"
        for log, end in status.ends.items()
    )


@contextmanager
def counted(doing: str, *, hidden: bool) -> Iterator[Report]:
    """Show on a terminal how many positions are done, how fast, and how long it will take."""
    console = Console(stderr=True)
    if hidden or not console.is_terminal:
        yield lambda _done, _goal: None
        return
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(_BAR_WIDTH),
        MofNCompleteColumn(),
        _Rate(),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        redirect_stdout=False,
    ) as bar:
        task = bar.add_task(doing, total=None)
        yield lambda done, goal: bar.update(task, completed=done, total=goal)


class _Rate(ProgressColumn):
    """How many positions a second."""

    def render(self, task: Task) -> Text:
        return Text(f"{task.speed:,.0f}/s" if task.speed else "")


@contextmanager
def watched(
    projections: Projections, names: Sequence[str], states: States, *, hidden: bool
) -> Iterator[None]:
    """Show on a terminal, once a second, how far read models are."""
    console = Console(stderr=True)
    if hidden or not console.is_terminal:
        yield
        return
    stop = Event()
    with Live(console=console, transient=True, auto_refresh=False, redirect_stdout=False) as live:

        def look() -> None:
            with suppress(AllocationError):
                chosen = [s for s in projections.status() if s.name in names]
                live.update(_moving(chosen, states()), refresh=True)

        def look_on() -> None:
            while not stop.wait(_LOOK):
                look()

        look()
        thread = Thread(target=look_on, name="alloc-es shows", daemon=True)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            # A look at a store that is away takes its time, and nobody wants to see it.
            thread.join(_LOOK)


def _moving(statuses: Sequence[ProjectionStatus], states: Mapping[str, str]) -> Table:
    table = Table.grid(padding=(0, 2))
    for _ in range(3):
        table.add_column(no_wrap=True, overflow="ellipsis")
    for status in statuses:
        state = states.get(status.name, status.standing)
        table.add_row(Text(status.name, style="bold"), Text(state), Text(places(status)))
    return table


def _version(status: ProjectionStatus) -> str:
    if status.built is None or status.version is None or status.built == status.version:
        return str(status.built or status.version or "-")
    return f"{status.built}, installed {status.version}"
