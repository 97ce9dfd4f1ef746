"""The command line `alloc-es`: from arguments to a command, from an outcome to an exit code."""

import json
import os
import sys
from importlib.metadata import version
from typing import Annotated

import typer

from alloc_es.cli import deciding, demo, reading
from alloc_es.cli.output import error_document, one_line
from alloc_es.errors import (
    AllocationError,
    GenerationConflict,
    InvalidIdentifier,
    InvalidSetting,
    OutcomeUnknown,
    Refusal,
    StoreUnavailable,
)

EXIT_CODES: tuple[tuple[type[AllocationError], int], ...] = (
    (Refusal, 1),
    (InvalidIdentifier, 2),
    (InvalidSetting, 2),
    (GenerationConflict, 3),
    (StoreUnavailable, 4),
    (OutcomeUnknown, 5),
)
"""Error → exit code. Wrong usage is 2 as well; a demo whose claim did not hold ends with 6."""

# What a shell reports of a program that a closed pipe has killed: 128 and SIGPIPE.
_BROKEN_PIPE = 141

_EPILOG = (
    "Exit codes: 0 done, 1 refused by the rules, 2 usage, 3 conflict, 4 store unavailable, "
    "5 outcome unknown, 6 a check failed."
)

app = typer.Typer(
    name="alloc-es",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)

for command in (*deciding.COMMANDS, *reading.COMMANDS, demo.demo):
    app.command(name=command.__name__.rstrip("_"))(command)


@app.callback(epilog=_EPILOG)
def common(
    show_version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", is_eager=True)
    ] = False,
) -> None:
    """Who serves each workflow: one current version, its challengers and the split."""
    if show_version:
        typer.echo(f"alloc-es {version('alloc-es')}")
        raise typer.Exit


def main() -> None:
    """Run the command line and end the process with its exit code."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    try:
        code = _run()
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader has left. Python flushes once more at its end, and would complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = _BROKEN_PIPE
    sys.exit(code)


def _run() -> int | str | None:
    try:
        app()
    except SystemExit as end:
        return end.code
    except AllocationError as error:
        return _report(error, as_json="--json" in sys.argv)
    return None


def exit_code(error: AllocationError) -> int:
    """The exit code that an error ends the process with."""
    return next(code for kind, code in EXIT_CODES if isinstance(error, kind))


def _report(error: AllocationError, *, as_json: bool) -> int:
    code = exit_code(error)
    if as_json:
        text = json.dumps(error_document(error, code), ensure_ascii=False)
    else:
        text = f"alloc-es: {one_line(str(error))}"
    print(text, file=sys.stderr)
    return code
