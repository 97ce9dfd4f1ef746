"""Build read models of the logs, follow, verify and drop them."""

import signal
import time
from functools import partial
from importlib.metadata import entry_points
from typing import Annotated

import typer

from alloc_es.archive_errors import RunsArchived
from alloc_es.cli.documents import (
    Ended,
    error_document,
    projection_document,
    status_document,
)
from alloc_es.cli.evidence import Archives
from alloc_es.cli.exits import CHECK_FAILED, exit_code
from alloc_es.cli.interrupts import Interrupts
from alloc_es.cli.options import STORE, AsJson, StoreUrl, UsageError, is_given, opened
from alloc_es.cli.output import end_now, print_document, print_error, print_rich, say
from alloc_es.cli.running import follow, interruptible
from alloc_es.cli.standings import (
    NEEDS_SOMEBODY,
    counted,
    leaves_out,
    places,
    projection_rows,
    remarks,
    status_rows,
    watched,
)
from alloc_es.errors import AllocationError, InvalidSetting
from alloc_es.following import POLL
from alloc_es.projection import GROUP, by_name, installed
from alloc_es.projections import Projections
from alloc_es.reader_errors import ProjectionOutdated, ProjectionStopped
from alloc_es.verifying import Verified

_Name = Annotated[
    str, typer.Argument(metavar="NAME", help="The projection's name.", show_default=False)
]
_UnusedStore = Annotated[
    str,
    typer.Option(
        "--store",
        metavar="URL",
        help="Not looked at: the same are installed for every store.",
        show_default=False,
    ),
]


class RebuildInterrupted(Ended):
    """A signal came while a read model was rebuilt: `done` of `goal` positions are kept."""

    def __init__(self, name: str, done: int, goal: int, interrupts: Interrupts) -> None:
        self.name = name
        self.done = done
        self.goal = goal
        rest = "; the batch under way is undone" if interrupts.insisting else ""
        super().__init__(
            f"interrupted: the rebuild of {name} is at {done:,} of {goal:,} positions{rest}, and "
            f"its readers have the old rows; the same command goes on from there",
            exit_code=interrupts.exit_code,
        )


class ReadModelDiffers(Ended):
    """A read model is not what the logs say: in the row with a `key` of a `table`."""

    def __init__(self, verified: Verified) -> None:
        assert verified.difference is not None
        self.name = verified.name
        self.positions = verified.positions
        self.rows = verified.rows
        self.left_out = verified.left_out
        self.table = verified.difference.table
        self.key = verified.difference.key
        self.found = verified.difference.found
        self.expected = verified.difference.expected
        super().__init__(
            f"{verified.name} is not as the logs say, up to {_up_to(verified)}: "
            f"{verified.difference}{leaves_out(verified)}; "
            f"rebuild it: alloc-es projections rebuild {verified.name}",
            exit_code=CHECK_FAILED,
        )


def list_(store: _UnusedStore = "", as_json: AsJson = False) -> None:  # noqa: ARG001
    """List the projections that are installed."""
    loaded, broken = installed()
    known = by_name(loaded)
    found = [(projection, _source(name)) for name, projection in sorted(known.items())]
    if as_json:
        print_document([projection_document(*each) for each in found])
    else:
        print_rich(projection_rows(found))
    for error in broken.values():
        _told(error, as_json)
    if broken:
        raise typer.Exit(exit_code(next(iter(broken.values()))))


def _source(name: str) -> str | None:
    """The distribution that an installed projection comes from, with its version."""
    point = next(iter(entry_points(group=GROUP, name=name)), None)
    return f"{point.dist.name} {point.dist.version}" if point and point.dist else None


def status(store: StoreUrl = STORE, as_json: AsJson = False) -> None:
    """Say how each read model stands.

    The exit code is 6 if one needs somebody: it is stopped, outdated or broken.
    """
    with opened(store) as allocations:
        statuses = allocations.projections().status()
    if as_json:
        print_document([status_document(each) for each in statuses])
    else:
        print_rich(status_rows(statuses))
        for remark in remarks(statuses):
            say(remark)
    if any(each.standing in NEEDS_SOMEBODY for each in statuses):
        raise typer.Exit(CHECK_FAILED)


def run(
    context: typer.Context,
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="NAME", help="Projections to run.", show_default="all"),
    ] = None,
    catch_up: Annotated[
        bool, typer.Option("--catch-up", help="Go to the end of the logs, and end there.")
    ] = False,
    poll: Annotated[
        float, typer.Option(metavar="SECONDS", help="How often to look, heard or not.")
    ] = POLL,
    poll_only: Annotated[
        bool,
        typer.Option("--poll-only", help="Only look, for poolers that pass no notifications on."),
    ] = False,
    archives: Archives = None,
    store: StoreUrl = STORE,
    as_json: AsJson = False,
) -> None:
    """Keep read models up to date, building what is not built.

    It goes on until Ctrl-C or SIGTERM, and waits for a store that is away. Several may
    run at once: each read model is brought on by one of them, and the others stand by.
    """
    if catch_up and (poll_only or is_given(context, "poll")):
        raise UsageError("--catch-up does not wait, so it takes no --poll and --poll-only", context)
    if catch_up:
        message = "what was applied is kept; the same command goes on from there"
        with opened(store, archives=archives) as allocations, interruptible(message):
            _catch_up(allocations.projections(), names, as_json)
    else:
        connect = partial(opened, store, archives=archives)
        follow(connect, names or (), poll=poll, listen=not poll_only, as_json=as_json)


def _catch_up(projections: Projections, chosen: list[str] | None, as_json: bool) -> None:
    names = chosen or sorted(projections.known.keys() | projections.broken.keys())
    code = 0
    with watched(projections, names, dict, hidden=as_json):
        for name in dict.fromkeys(names):
            try:
                projections.catch_up(name)
            except (
                ProjectionStopped,
                ProjectionOutdated,
                RunsArchived,
                InvalidSetting,
            ) as error:
                if isinstance(error, InvalidSetting) and name not in projections.broken:
                    raise
                code = max(code, exit_code(error))
                _told(error, as_json)
    reached = [each for each in projections.status() if each.name in names]
    if as_json:
        print_document([status_document(each) for each in reached])
    else:
        for each in reached:
            say(f"{each.name} is {each.standing}: {places(each)}")
    if code:
        raise typer.Exit(code)


def _told(error: AllocationError, as_json: bool) -> None:
    """Print an error that does not end the command."""
    print_error(error_document(error, str(error), exit_code(error)), as_json=as_json)


def rebuild(
    name: _Name,
    tenant: Annotated[
        str | None,
        typer.Option(metavar="TENANT", help="Only this tenant's rows.", show_default="all"),
    ] = None,
    archives: Archives = None,
    store: StoreUrl = STORE,
    as_json: AsJson = False,
) -> None:
    """Build a read model afresh, and put it in place at once.

    Its readers have the old rows until then. What was interrupted goes on where it was.
    """
    began = time.perf_counter()
    interrupts = Interrupts(signal.SIGTERM)
    # The first one and the last one.
    reports: list[tuple[int, int]] = []
    with opened(store, archives=archives) as allocations:
        projections = allocations.projections()
        try:
            with counted(f"rebuild {name}", hidden=as_json) as show, interrupts.kept():

                def report(done: int, goal: int) -> None:
                    reports[1:] = [(done, goal)]
                    show(done, goal)
                    interrupts.check()

                projections.rebuild(name, tenant_id=tenant, report=report)
        except KeyboardInterrupt:
            at, goal = reports[-1] if reports else (0, 0)
            ended = RebuildInterrupted(name, at, goal, interrupts)
            if interrupts.insisting:
                end_now(ended, as_json=as_json)
            raise ended from None
    _sum_up(name, tenant, reports[-1][0] - reports[0][0], time.perf_counter() - began, as_json)


def _sum_up(name: str, tenant: str | None, done: int, seconds: float, as_json: bool) -> None:
    rate = round(done / seconds)
    if as_json:
        print_document(
            {
                "name": name,
                "tenant_id": tenant,
                "positions": done,
                "seconds": round(seconds, 3),
                "positions_per_second": rate,
            }
        )
    else:
        whose = f" for {tenant}" if tenant else ""
        say(f"{name} was rebuilt{whose}: {done:,} positions in {seconds:,.1f} s, {rate:,}/s")


def verify(
    name: _Name,
    archives: Archives = None,
    store: StoreUrl = STORE,
    as_json: AsJson = False,
) -> None:
    """Compare a read model with a fresh fold of the logs.

    It prints the first difference, with exit code 6, and changes nothing.
    """
    message = f"nothing was changed, and {name} is not verified; run it again"
    with (
        opened(store, archives=archives) as allocations,
        interruptible(message),
        counted(f"verify {name}", hidden=as_json) as show,
    ):
        verified = allocations.projections().verify(name, report=show)
    if verified.difference is not None:
        raise ReadModelDiffers(verified)
    if as_json:
        print_document(
            {"name": name, "positions": verified.positions, "rows": verified.rows}
            | {"difference": None, "left_out": list(verified.left_out)}
        )
    else:
        rows = "1 row is" if verified.rows == 1 else f"{verified.rows:,} rows are"
        up_to = f"{_up_to(verified)}{leaves_out(verified)}"
        say(f"{name}: {rows} as the logs say, up to {up_to}")


def _up_to(verified: Verified) -> str:
    places = (f"position {position:,} of the {log}" for log, position in verified.positions.items())
    return " and ".join(places)


def purge(
    name: _Name,
    tenant: Annotated[
        str, typer.Argument(metavar="TENANT", help="The tenant's id.", show_default=False)
    ],
    store: StoreUrl = STORE,
    as_json: AsJson = False,
) -> None:
    """Remove a tenant from a read model; the logs keep it.

    It stays out until `rebuild --tenant` brings it back.
    """
    with opened(store) as allocations:
        rows = allocations.projections().purge(name, tenant)
    if as_json:
        print_document({"name": name, "tenant_id": tenant, "rows": rows})
        return
    count = "1 row" if rows == 1 else f"{rows:,} rows"
    done = f"was removed from {name}: {count}"
    nothing = f"had no rows in {name} and will be left out"
    back = f"alloc-es projections rebuild {name} --tenant {tenant}"
    say(f"{tenant} {done if rows else nothing}; to bring it back: {back}")


def remove(name: _Name, store: StoreUrl = STORE, as_json: AsJson = False) -> None:
    """Drop a read model: its views, its tables and its notes.

    It asks nothing. The logs stay, so where its projection is installed `run` builds it
    again, with the tenants that it left out. It may be one that is not installed any more.
    """
    with opened(store) as allocations:
        projections = allocations.projections()
        left_out = next((each.left_out for each in projections.status() if each.name == name), ())
        projections.remove(name)
        is_installed = name in projections.known
    if as_json:
        document = {"name": name, "is_installed": is_installed, "left_out": list(left_out)}
        print_document(document)
        return
    again = "; alloc-es projections run builds it again" if is_installed else ""
    forgotten = f", and that it leaves out {', '.join(left_out)}" if left_out else ""
    say(f"{name} was removed: its views and its tables{forgotten}; the logs stay{again}")


COMMANDS = (list_, status, run, rebuild, verify, purge, remove)
