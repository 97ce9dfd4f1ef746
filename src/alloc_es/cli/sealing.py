"""The command that seals what the logs are."""

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from alloc_es.audit import Seal, make_seal, read_seal
from alloc_es.cli.documents import Ended
from alloc_es.cli.evidence import Archives, FromPath, evidence
from alloc_es.cli.exits import USAGE
from alloc_es.cli.options import STORE, AsJson, StoreUrl
from alloc_es.cli.output import one_line, print_document, say
from alloc_es.cli.running import interruptible
from alloc_es.cli.standings import counted
from alloc_es.clock import utc_now
from alloc_es.errors import InvalidSetting
from alloc_es.wording import numbered


class SealExists(Ended):
    """The file of a seal that is to be made exists already, at `path`."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)
        problem = f"{path} exists, and a seal is never overwritten; name another file"
        super().__init__(problem, exit_code=USAGE)


def seal(
    out: Annotated[
        Path,
        typer.Option("--out", metavar="FILE", help="Where to write the seal.", show_default=False),
    ],
    after: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="A seal to go on from: only what is behind it is sealed.",
            show_default=False,
        ),
    ] = None,
    source: FromPath = None,
    archives: Archives = None,
    store: StoreUrl = STORE,
    as_json: AsJson = False,
) -> None:
    """Write into a small file what the logs are, to hold them to it.

    `audit --seal FILE` then proves that nothing up to there was changed, removed or inserted.
    """
    if out.exists():
        raise SealExists(out)
    previous = None if after is None else read_seal(after)
    with (
        interruptible("no seal was written"),
        counted("seal", hidden=as_json) as show,
        evidence(store, source, archives) as held,
    ):
        made = make_seal(held, utc_now(), previous=previous, report=show)
    _write(out, made)
    if as_json:
        print_document(_seal_document(out, made))
    else:
        say(
            f"sealed {one_line(made.where)} into {out}: "
            f"{numbered(made.decisions.events, 'decision')} up to position "
            f"{made.decisions.up_to:,} and {numbered(made.runs.events, 'run')} up to position "
            f"{made.runs.up_to:,}; keep it where nobody who can change the store can change it, "
            f"and note its SHA-256, {made.digest}"
        )


def _write(out: Path, made: Seal) -> None:
    """Write the file whole, or not at all."""
    part = out.with_name(f"{out.name}.part")
    try:
        with part.open("wb") as file:
            file.write(made.written())
            file.flush()
            os.fsync(file.fileno())
        # A link, which never overwrites.
        os.link(part, out)
        part.unlink()
    except FileExistsError:
        raise SealExists(out) from None
    except OSError as error:
        raise InvalidSetting("out", f"{out} can't be written: {error.strerror}") from error


def _seal_document(out: Path, made: Seal) -> dict[str, Any]:
    return {
        "file": str(out),
        "sha256": made.digest,
        "sealed_at": made.sealed_at.isoformat(),
        "previous": made.previous,
        "workflows": len(made.heads),
        **{
            name: {
                "after": log.after,
                "up_to": log.up_to,
                "events": log.events,
                "root": log.root,
            }
            for name, log in (("decisions", made.decisions), ("runs", made.runs))
        },
    }
