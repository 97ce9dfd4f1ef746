"""The command that spawns: one run, or those of a file or a pipe."""

import os
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from alloc_es.app import Allocations
from alloc_es.cli.account import Account, progress
from alloc_es.cli.documents import Stopped, run_document
from alloc_es.cli.evidence import Archives
from alloc_es.cli.interrupts import Interrupts
from alloc_es.cli.lines import Lines
from alloc_es.cli.options import STORE, Actor, AsJson, StoreUrl, UsageError, opened, user_name
from alloc_es.cli.output import end_now, print_document, say
from alloc_es.cli.rows import RowFormat, Rows
from alloc_es.cli.streaming import settle
from alloc_es.errors import InvalidSetting
from alloc_es.events import RunSpawned
from alloc_es.identity import parse_identifier

_STDIN = "-"
_ENDINGS = {".csv": RowFormat.CSV, ".jsonl": RowFormat.JSONL, ".ndjson": RowFormat.JSONL}

_Tenant = Annotated[
    str | None, typer.Argument(metavar="TENANT", help="The tenant's id.", show_default=False)
]
_Workflow = Annotated[
    str | None, typer.Argument(metavar="WORKFLOW", help="The workflow's id.", show_default=False)
]
_Run = Annotated[
    str | None, typer.Argument(metavar="RUN", help="The run's id.", show_default=False)
]
_Unit = Annotated[
    str | None,
    typer.Option(metavar="UNIT", help="What sticks to an arm.", show_default="the run itself"),
]
_From = Annotated[
    str | None,
    typer.Option(
        "--from",
        metavar="FILE",
        help="Spawn the runs of a file, or of stdin (-), instead of RUN.",
        show_default=False,
    ),
]
_Format = Annotated[
    RowFormat | None,
    typer.Option(
        "--format", help="How FILE is written.", show_default="by its ending or first byte"
    ),
]


def spawn(
    context: typer.Context,
    tenant: _Tenant = None,
    workflow: _Workflow = None,
    run_id: _Run = None,
    unit: _Unit = None,
    source: _From = None,
    form: _Format = None,
    actor: Actor = None,
    archives: Archives = None,
    store: StoreUrl = STORE,
    as_json: AsJson = False,
) -> None:
    """Route a run by the split and record which version it got.

    With --from, many runs: one a line, as JSON or CSV, with run_id, unit, tenant_id,
    workflow_id and actor. TENANT and WORKFLOW are then for rows that leave them out.
    """
    if source is not None:
        if run_id is not None or unit is not None:
            raise UsageError("the rows of --from name RUN and UNIT, not the command line", context)
        connect = partial(opened, store, actor=actor or user_name(), archives=archives)
        _spawn_many(source, form, tenant, workflow, connect, as_json)
    elif tenant is None or workflow is None or run_id is None:
        raise UsageError("a run is named by TENANT, WORKFLOW and RUN; many by --from", context)
    elif form is not None:
        raise UsageError("--format says how the FILE of --from is written", context)
    else:
        with opened(store, actor=actor or user_name(), archives=archives) as allocations:
            run = allocations.workflow(tenant, workflow).spawn_run(run_id, unit=unit)
        _tell(run, as_json)


def _tell(run: RunSpawned, as_json: bool) -> None:
    if as_json:
        print_document(run_document(run))
    else:
        before = " (recorded before)" if run.replayed else ""
        say(
            f"run {run.run_id} got {run.version}, the {run.arm}{before}: bucket {run.bucket} "
            f"at generation {run.generation}"
        )


def _spawn_many(
    source: str,
    form: RowFormat | None,
    tenant: str | None,
    workflow: str | None,
    connect: Callable[[], Allocations],
    as_json: bool,
) -> None:
    for kind, default in (("tenant id", tenant), ("workflow id", workflow)):
        if default is not None:
            parse_identifier(kind, default)
    interrupts = Interrupts()
    with _input(source) as descriptor, connect() as allocations:
        lines = Lines(descriptor, interrupts.let_through)
        form = form or _ENDINGS.get(Path(source).suffix.lower())
        rows = Rows(lines, form, tenant_id=tenant, workflow_id=workflow)
        account = Account(as_json=as_json)
        try:
            with progress(lines.size, lambda: lines.taken) as account.on_told, interrupts.kept():
                settle(allocations, lines, rows, account, interrupts)
        except Stopped as stopped:
            account.sum_up(allocations.spawn_counts().rerouted)
            if interrupts.insisting:
                end_now(stopped, as_json=as_json)
            raise
        account.sum_up(allocations.spawn_counts().rerouted)
    if account.code:
        raise typer.Exit(account.code)


@contextmanager
def _input(source: str) -> Iterator[int]:
    """The descriptor of a file, a named pipe or stdin."""
    if source == _STDIN:
        if sys.stdin is None:
            raise InvalidSetting("--from", "stdin is closed")
        yield sys.stdin.fileno()
        return
    try:
        descriptor = os.open(source, os.O_RDONLY)
    except (OSError, ValueError) as error:
        problem = getattr(error, "strerror", None) or str(error)
        raise InvalidSetting("--from", f"{source} can't be read: {problem}") from None
    try:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise InvalidSetting("--from", f"{source} is a directory")
        yield descriptor
    finally:
        os.close(descriptor)
