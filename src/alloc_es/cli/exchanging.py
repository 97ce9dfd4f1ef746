"""Exports: the logs as files for whoever has no database, and a store of them again."""

import sys
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from alloc_es import exchange
from alloc_es.cli.evidence import Archives, FromPath, evidence
from alloc_es.cli.options import STORE, AsJson, StoreUrl, opened
from alloc_es.cli.output import print_aside, print_document, say
from alloc_es.cli.running import arriving, reported
from alloc_es.exchange import Exported, Format
from alloc_es.store.recorder import LogName
from alloc_es.wording import numbered

_STDOUT = "-"


def export(
    format: Annotated[
        Format, typer.Option(help="CloudEvents is one file of lines, Parquet a directory.")
    ] = "cloudevents",
    out: Annotated[
        str, typer.Option("--out", metavar="PATH", help="Where to; `-` is stdout.")
    ] = _STDOUT,
    force: Annotated[
        bool, typer.Option("--force", help="Replace an export of another log.")
    ] = False,
    source: FromPath = None,
    archives: Archives = None,
    store: StoreUrl = STORE,
    as_json: AsJson = False,
) -> None:
    """Export both logs, as they are stored, with digests.

    A path appears when the export is whole. What was interrupted goes on where it was.
    """
    target = sys.stdout.buffer if out == _STDOUT else Path(out)
    kept = f"what is written is kept in {out}.part, and the same command goes on from there"
    rest = "what was written is no whole export" if out == _STDOUT else kept
    hidden = as_json or (out == _STDOUT and sys.stdout.isatty())
    with (
        evidence(store, source, archives) as held,
        reported("export", rest, hidden=hidden, as_json=as_json) as report,
        arriving(out),
    ):
        exported = exchange.export(held, target, format=format, force=force, report=report)
    _tell(exported, as_json=as_json)


def import_(
    path: Annotated[Path, typer.Argument(metavar="PATH", help="An export.", show_default=False)],
    store: StoreUrl = STORE,
    as_json: AsJson = False,
) -> None:
    """Import an export into an empty store, as it was.

    Positions, bytes and digests are the same. The store's tables are made by `init`.
    """
    rest = "nothing was imported"
    with (
        opened(store) as allocations,
        reported("import", rest, hidden=as_json, as_json=as_json) as report,
    ):
        imported = exchange.import_(path, allocations, report=report)
    if as_json:
        print_document(asdict(imported))
    else:
        held = _held(imported.decisions, imported.runs, imported.ends)
        say(f"{imported.where} holds {held}, as {path} has them")


def _tell(exported: Exported, *, as_json: bool) -> None:
    held = _held(exported.decisions, exported.runs, exported.ends)
    again = f"; {numbered(exported.kept, 'position')} were there before" if exported.kept else ""
    sentence = f"{exported.where} holds {held}{again}"
    if exported.where == _STDOUT:
        print_aside(asdict(exported), f"exported {held}", as_json=as_json)
    elif as_json:
        print_document(asdict(exported))
    else:
        say(sentence)


def _held(decisions: int, runs: int, ends: Mapping[LogName, int]) -> str:
    return (
        f"{numbered(decisions, 'decision')} up to position {ends['decisions']:,} "
        f"and {numbered(runs, 'run')} up to position {ends['runs']:,}"
    )
