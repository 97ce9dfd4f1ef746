"""The command that checks every rule on the logs."""

import time
from pathlib import Path
from typing import Annotated

import typer

from alloc_es.audit import audit, read_seal, usable_cores
from alloc_es.cli.audit_report import audit_document, print_audit
from alloc_es.cli.evidence import Archives, FromPath, looked_at
from alloc_es.cli.exits import CHECK_FAILED
from alloc_es.cli.options import STORE, AsJson, StoreUrl, parse_time
from alloc_es.cli.output import print_document
from alloc_es.cli.running import interruptible
from alloc_es.cli.standings import counted


def audit_(
    source: FromPath = None,
    tenant: Annotated[
        str | None,
        typer.Option(metavar="TENANT", help="Only this tenant's events.", show_default="all"),
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="Only what was recorded from this time on, in ISO 8601 with its zone.",
            show_default="all",
        ),
    ] = None,
    seals: Annotated[
        list[Path] | None,
        typer.Option(
            "--seal",
            metavar="FILE",
            help="A seal to hold the logs against; may be given again.",
            show_default=False,
        ),
    ] = None,
    archives: Archives = None,
    processes: Annotated[
        int | None,
        typer.Option(metavar="N", help="How many processes check runs.", show_default="cores"),
    ] = None,
    store: StoreUrl = STORE,
    as_json: AsJson = False,
) -> None:
    """Check every rule on the logs; exit code 6 if one is broken.

    Nothing is written. With --from it checks an export, and needs no database.
    """
    since_time = None if since is None else parse_time(since)
    sealed = [read_seal(path) for path in seals or ()]
    where = looked_at(store, source)
    began = time.perf_counter()
    with (
        interruptible("the audit is not whole, and nothing was changed"),
        counted("audit", hidden=as_json) as show,
    ):
        found = audit(
            where,
            archives=tuple(archives or ()),
            tenant_id=tenant,
            since=since_time,
            seals=sealed,
            processes=usable_cores() if processes is None else processes,
            report=show,
        )
    seconds = time.perf_counter() - began
    if as_json:
        print_document(audit_document(found, seconds))
    else:
        print_audit(found, seconds)
    if not found.clean:
        raise typer.Exit(CHECK_FAILED)
