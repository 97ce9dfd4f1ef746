"""`make bench`: measure every case and write the tables into the documentation."""

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.bench.cases import cases
from tests.bench.crew import Crew
from tests.bench.measuring import Outcome, measure
from tests.bench.reporting import DOCUMENT, as_json, as_markdown, surroundings, write_document
from tests.bench.scale import FULL, QUICK
from tests.bench.stores import postgres_stores, sqlite_stores
from tests.support.postgres import PostgresServer


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, and after a full run write the tables into the documentation."""
    options = _options(arguments)
    outcomes, facts = run(quick=options.quick, only=options.only)
    if options.json:
        print(json.dumps(as_json(outcomes, facts), indent=2))
    else:
        print(as_markdown(outcomes, facts))
    if not options.quick and not options.only:
        write_document(as_markdown(outcomes, facts))
        print(f"wrote {DOCUMENT.name}", file=sys.stderr)
    return 0 if outcomes else 1


def run(*, quick: bool, only: str) -> tuple[list[Outcome], dict[str, str]]:
    """Measure the cases whose name contains `only`, on stores of their own."""
    scale = QUICK if quick else FULL
    with (
        tempfile.TemporaryDirectory(prefix="alloc-es-bench-") as scratch,
        PostgresServer(durable=True) as server,
        Crew(scale.crew) as crew,
    ):
        stores = [postgres_stores(server.url), sqlite_stores(Path(scratch))]
        # At the start: at the end the load is the benchmark's own.
        facts = surroundings(server.url)
        chosen = [case for case in cases(stores, crew, scale) if only in case.name]
        outcomes = [measure(case, scale.repetitions, _tell) for case in chosen]
        _tell("")
        return outcomes, facts


def _tell(progress: str) -> None:
    """Show on a terminal how far it is; nothing in a pipe."""
    if sys.stderr.isatty():
        width = os.get_terminal_size(sys.stderr.fileno()).columns
        print(f"\r\033[K{progress[: width - 1]}", end="", file=sys.stderr, flush=True)


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="tiny numbers, which mean nothing")
    parser.add_argument("--json", action="store_true", help="print every repetition, as JSON")
    parser.add_argument("--only", default="", metavar="TEXT", help="only cases named like this")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
