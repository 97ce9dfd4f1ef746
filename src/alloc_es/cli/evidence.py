"""The options of commands that look at the logs: of a store, or of an export."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from alloc_es.cli.options import refuse_memory
from alloc_es.evidence import Evidence, open_evidence

FromPath = Annotated[
    Path | None,
    typer.Option(
        "--from",
        metavar="PATH",
        help="Look at an export instead of a store; no database is needed.",
        show_default=False,
    ),
]
Archives = Annotated[
    list[Path] | None,
    typer.Option(
        "--archive",
        metavar="DIRECTORY",
        help="Where runs that were archived are; may be given again.",
        show_default=False,
    ),
]


def evidence(store: str, source: Path | None, archives: Sequence[Path] | None = None) -> Evidence:
    """What a command looks at; close it."""
    if source is not None:
        return open_evidence(source)
    refuse_memory(store)
    return open_evidence(store, archives=tuple(archives or ()))
