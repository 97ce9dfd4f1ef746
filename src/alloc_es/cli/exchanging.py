"""Exports: the logs as files for whoever has no database, and a store of them again."""

import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from alloc_es import exchange
from alloc_es.cli.evidence import Archives, FromPath, evidence
from alloc_es.cli.interrupts import Interrupts
from alloc_es.cli.options import STORE, AsJson, StoreUrl, opened
from alloc_es.cli.output import OutputLost, end_now, print_aside, print_document, say
from alloc_es.cli.running import Interrupted
from alloc_es.cli.standings import counted
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
        _reported("export", rest, hidden=hidden, as_json=as_json) as report,
        _arriving(out),
    ):
        exported = exchange.export(held, target, format=format, force=force, report=report)
    _tell(exported, as_json=as_json)


def import_(
    path: Annotated[Path, typer.Argument(metavar="PATH", help="An export.", show_default=False)],
    store: StoreUrl = STORE,
    as_json: AsJson = False,
) -> None:
    """Import an export into an empty store: as it was, or not at all.

    Positions, bytes and digests are the same. The store's tables are made by `init`.
    """
    rest = "nothing was imported"
    with (
        opened(store) as allocations,
        _reported("import", rest, hidden=as_json, as_json=as_json) as report,
    ):
        imported = exchange.import_(path, allocations, report=report)
    if as_json:
        print_document(asdict(imported))
    else:
        held = _held(imported.decisions, imported.runs, imported.ends)
        say(f"{imported.where} holds {held}, as {path} has them")


@contextmanager
def _reported(
    doing: str, rest: str, *, hidden: bool, as_json: bool
) -> Iterator[Callable[[int, int], None]]:
    """Show how far it is, and end at the next report behind a Ctrl-C, or a SIGTERM.

    That raises `Interrupted`, which says what is left: `rest`. A second one ends at once.
    """
    interrupts = Interrupts(signal.SIGTERM)
    try:
        with counted(doing, hidden=hidden) as show, interrupts.kept():

            def report(done: int, goal: int) -> None:
                show(done, goal)
                interrupts.check()

            yield report
    except KeyboardInterrupt:
        ended = Interrupted(rest, interrupts.exit_code)
        if interrupts.insisting:
            end_now(ended, as_json=as_json)
        raise ended from None


@contextmanager
def _arriving(out: str) -> Iterator[None]:
    """Raise `OutputLost` where the export can't be written."""
    try:
        yield
    except OSError as error:
        raise OutputLost(f"{out} could not be written: {error.strerror}") from error


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


COMMANDS = (export, import_)
