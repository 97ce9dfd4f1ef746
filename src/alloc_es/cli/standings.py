"""How read models stand, drawn: tables, bars and what moves on a terminal."""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from threading import Event, Thread

from rich.console import Console
from rich.live import Live
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeRemainingColumn,
)
from rich.table import Column
from rich.text import Text

from alloc_es.cli.drawing import Rows, when
from alloc_es.cli.output import one_line
from alloc_es.drill.tenants import is_drills
from alloc_es.errors import AllocationError
from alloc_es.projection import Projection
from alloc_es.projections import Projections
from alloc_es.reader_errors import ProjectionOutdated, ProjectionStopped
from alloc_es.rebuilding import Report
from alloc_es.standing import ProjectionStatus
from alloc_es.verifying import Verified
from alloc_es.wording import numbered

_LOOK = 1.0
_BAR_WIDTH = 20
_NARROW = 80

NEEDS_SOMEBODY = ("stopped", "outdated", "broken")
"""The standings that do not pass by themselves."""

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
        if problem := _problem(status):
            said.append(problem)
        if status.rebuilding:
            done, goal = sum(status.rebuilding.values()), sum(status.ends.values())
            what = "its rebuild" if status.positions else "its first build"
            part = f", {done / goal:.0%}" if goal else ""
            said.append(f"{status.name}: {what} is at {done:,} of {goal:,} positions{part}")
        if status.left_out:
            said.append(f"{status.name} leaves out: {_tenants(status.left_out)}")
    return said


def leaves_out(verified: Verified) -> str:
    """Which tenants were purged, as the end of a sentence; empty for none."""
    return f"; leaves out: {_tenants(verified.left_out)}" if verified.left_out else ""


def _tenants(tenants: Sequence[str]) -> str:
    """Tenants by their names, and those of drills by their number."""
    drills = sum(map(is_drills, tenants))
    named = [tenant for tenant in tenants if not is_drills(tenant)]
    if drills:
        named.append(f"{numbered(drills, 'tenant')} of drills")
    return ", ".join(named)


def _problem(status: ProjectionStatus) -> str:
    """Why a read model does not go on, and what to do; empty for one that does."""
    failure = status.failure
    if status.standing == "stopped":
        return str(failure)
    met = f", and stopped {_place(failure)}" if failure else ""
    if status.standing == "not installed":
        return (
            f"{status.name} is not installed{met}; install its package, or remove it: "
            f"alloc-es projections remove {status.name}"
        )
    if status.standing == "outdated" and status.built is not None and status.version is not None:
        return str(ProjectionOutdated(status.name, built=status.built, known=status.version))
    return f"{status.problem}; mend its package, or uninstall it" if status.problem else ""


def _place(failure: ProjectionStopped) -> str:
    """Where it was and what it met, without what its package would have to do."""
    place = "" if failure.log is None else f"position {failure.position} of the {failure.log}: "
    return f"in front of {place}{failure.event}: {failure.error}"


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
    # The count is never cut: the bar and the rate are left out, the description is folded.
    description = TextColumn("{task.description}", table_column=Column(overflow="fold"))
    bar: list[ProgressColumn] = [BarColumn(_BAR_WIDTH), _Count(), _Rate(), TimeRemainingColumn()]
    with Progress(
        description,
        *(bar if console.width >= _NARROW else (_Count(), TimeRemainingColumn())),
        console=console,
        transient=True,
        # Lines that are printed meanwhile stand above it, and never get into a pipe's place.
        redirect_stdout=sys.stdout.isatty(),
    ) as shown:
        task = shown.add_task(doing, total=None)
        yield lambda done, goal: shown.update(task, completed=done, total=goal)


class _Count(ProgressColumn):
    """How many positions are done, and of how many, once that is known."""

    def render(self, task: Task) -> Text:
        known = task.total is not None
        return Text(f"{task.completed:,.0f}/{task.total:,.0f}" if known else "", no_wrap=True)


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


def _moving(statuses: Sequence[ProjectionStatus], states: Mapping[str, str]) -> Rows:
    rows = [(s.name, states.get(s.name, s.standing), places(s)) for s in statuses]
    return Rows(
        columns=("NAME", "STATE", "POSITION"),
        cells=rows,
        titles=[f"{name}  {state}" for name, state, _ in rows],
        details=[(place,) for _, _, place in rows],
    )


def _version(status: ProjectionStatus) -> str:
    if status.built is None or status.version is None or status.built == status.version:
        return str(status.built or status.version or "-")
    return f"{status.built}, installed {status.version}"
