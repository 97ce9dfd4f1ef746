"""The command that moves old runs into an archive."""

from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer

from alloc_es.app import Allocations
from alloc_es.archiving import Archived, ArchivePlan, plan_archive
from alloc_es.archiving import archive as move
from alloc_es.cli.options import STORE, AsJson, StoreUrl, UsageError, opened, parse_time
from alloc_es.cli.output import print_document, say
from alloc_es.cli.running import arriving, reported
from alloc_es.wording import numbered


def archive(
    context: typer.Context,
    out: Annotated[
        Path,
        typer.Option(
            "--out",
            metavar="DIRECTORY",
            help="A new directory, whose name is the archive's.",
            show_default=False,
        ),
    ],
    up_to: Annotated[
        int | None,
        typer.Option(
            "--up-to", metavar="POSITION", help="The last position to go.", show_default=False
        ),
    ] = None,
    before: Annotated[
        datetime | None,
        typer.Option(
            "--before",
            metavar="TIME",
            parser=lambda text: parse_time(text),
            help="Stop at the first run that was not recorded before it.",
            show_default=False,
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be archived, and archive nothing.")
    ] = False,
    store: StoreUrl = STORE,
    as_json: AsJson = False,
) -> None:
    """Move the oldest runs out of the log, into files.

    Those are Parquet, and read back before a run leaves the log. Audits, explanations and read
    models go on with `--archive DIRECTORY`. What was interrupted goes on where it was.
    """
    if (up_to is None) == (before is None):
        raise UsageError("say how far: --up-to POSITION or --before TIME", context)
    rest = "no run has left the log, or all have; the same command tells, and goes on"
    with opened(store) as allocations:
        not_built = _not_built(allocations)
        if dry_run:
            plan = plan_archive(allocations, up_to=up_to, before=before)
            _tell_plan(plan, not_built, as_json=as_json)
            return
        with (
            reported("archive", rest, hidden=as_json, as_json=as_json) as report,
            arriving(str(out)),
        ):
            archived = move(allocations, out, up_to=up_to, before=before, report=report)
    _tell(archived, not_built, as_json=as_json)


def _not_built(allocations: Allocations) -> list[str]:
    """The read models that follow the runs, and that nobody has begun to build."""
    found = allocations.projections().status()
    return [each.name for each in found if each.standing == "not built" and "runs" in each.ends]


def _tell_plan(plan: ArchivePlan | None, not_built: Sequence[str], *, as_json: bool) -> None:
    if as_json:
        print_document(asdict(plan) | {"not_built": not_built} if plan else None)
    elif plan is None:
        say("no run is left that would be archived")
    else:
        say(
            f"{numbered(plan.runs, 'run')} would be archived, behind position {plan.after:,} "
            f"up to {plan.up_to:,}"
        )
        _tell_not_built(not_built)


def _tell(archived: Archived | None, not_built: Sequence[str], *, as_json: bool) -> None:
    if as_json:
        said = archived and asdict(archived) | {
            "directory": str(archived.directory),
            "not_built": not_built,
        }
        print_document(said)
    elif archived is None:
        say("no run is left to be archived")
    else:
        say(
            f"{archived.directory} is the archive {archived.name}: "
            f"{numbered(archived.runs, 'run')} up to position {archived.up_to:,}, and no more in "
            f"the log; keep it, and its digest {archived.digest}"
        )
        _tell_not_built(not_built)


def _tell_not_built(names: Sequence[str]) -> None:
    if names:
        verb, them = ("is", "it") if len(names) == 1 else ("are", "them")
        say(
            f"{', '.join(names)} {verb} not built; building {them} needs this archive: "
            f"--archive DIRECTORY"
        )
