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
    return open_evidence(looked_at(store, source), archives=tuple(archives or ()))


def looked_at(store: str, source: Path | None) -> str | Path:
    """The path of an export, or else the URL of a store that lasts."""
    if source is not None:
        return source
    refuse_memory(store)
    return store
