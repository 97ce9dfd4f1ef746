"""The command line `alloc-es`: from arguments to a command, from an outcome to an exit code."""

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from io import TextIOWrapper
from typing import Annotated, Any

import typer

from alloc_es.cli.documents import Ended, error_document
from alloc_es.cli.exits import (
    BROKEN_PIPE,
    EXIT_CODES,
    INTERRUPTED,
    STREAM_LOST,
    UNEXPECTED,
    USAGE,
    exit_code,
)
from alloc_es.cli.options import UsageError
from alloc_es.cli.output import (
    DEBUG,
    OutputLost,
    close_output,
    print_error,
    print_traceback,
    write,
)
from alloc_es.errors import AllocationError

__all__ = ["EXIT_CODES", "app", "exit_code", "main", "run"]

_EPILOG = (
    "Exit codes: 0 done, 1 refused by the rules, 2 usage, 3 conflict, 4 store unavailable, "
    "5 outcome unknown, 6 a check found something, 70 an unexpected error, "
    "74 input or output lost, 130 interrupted by Ctrl-C, 141 the reader of a pipe has left, "
    "143 ended by SIGTERM."
)

_MODULES: Mapping[str, str] = {
    "init": "deciding",
    "start": "deciding",
    "register": "deciding",
    "commit": "deciding",
    "promote": "deciding",
    "reject": "deciding",
    "rollback": "deciding",
    "decide": "passing",
    "show": "reading",
    "list": "reading",
    "peek": "reading",
    "history": "looking_back",
    "diff": "looking_back",
    "explain": "explaining",
    "replay": "replaying",
    "audit": "auditing",
    "seal": "sealing",
    "export": "exchanging",
    "import": "exchanging",
    "archive": "archiving",
    "spawn": "spawning",
    "triggers": "triggering",
    "demo": "demo",
    "drill": "drilling",
}
"""Command → the module that has it, in the order of the help."""
_GROUP = "projections"


def app(command: str | None = None) -> typer.Typer:
    """The command line with one command, whose module alone is imported.

    With all of them where the name is None, or none of theirs.
    """
    made = typer.Typer(
        name="alloc-es",
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    made.callback(epilog=_EPILOG, invoke_without_command=True)(common)
    alone = command in (*_MODULES, _GROUP)
    for name in _MODULES:
        if name == command or not alone:
            made.command(name=name, epilog=_EPILOG)(_function(name))
    if command == _GROUP or not alone:
        made.add_typer(_projections(), name=_GROUP, epilog=_EPILOG)
    return made


def _function(command: str) -> Callable[..., None]:
    """The function of a command; it ends with `_` where its own name means something else."""
    module = import_module(f"alloc_es.cli.{_MODULES[command]}")
    function: Callable[..., None] = getattr(module, f"{command}_", None) or getattr(module, command)
    return function


def _projections() -> typer.Typer:
    projecting = import_module("alloc_es.cli.projecting")
    group = typer.Typer(help=projecting.__doc__)
    for member in projecting.COMMANDS:
        group.command(name=member.__name__.rstrip("_"), epilog=_EPILOG)(member)
    return group


def common(
    show_version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", is_eager=True)
    ] = False,
) -> None:
    """Who serves each workflow: one current version, its challengers and the split.

    Every command takes --help, --store and --json.
    """
    if show_version:
        write(f"alloc-es {_version()}\n")
        raise typer.Exit


def main() -> None:
    """Run the command line and end the process with its exit code."""
    _prepare_streams()
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """Carry one command out, tell its outcome, and return its exit code."""
    as_json = "--json" in arguments
    try:
        code = _carry_out(arguments)
        if code == INTERRUPTED:
            # typer has made a code of it.
            raise KeyboardInterrupt
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - nobody else would tell it
        code, message = _judge(error)
        if message:
            print_error(error_document(error, message, code), as_json=as_json)
    return code


def _carry_out(arguments: Sequence[str]) -> int:
    ordered, is_whole = _command_first(arguments)
    given = ordered if is_whole else [*ordered, "--help"]
    try:
        line = app(ordered[0] if ordered else None)
        code = line(given, prog_name="alloc-es", standalone_mode=False)
    except SystemExit as end:
        # typer's own answer to a pipe that was closed on its help.
        code = end.code
    if not is_whole:
        return USAGE
    return code if isinstance(code, int) else 0


def _judge(error: BaseException) -> tuple[int, str]:
    """The exit code of whatever ended a command, and what to say; empty for nothing."""
    match error:
        case AllocationError():
            return exit_code(error), str(error)
        case _ if isinstance(error, UsageError):
            return USAGE, _usage(error)
        case Ended():
            return error.exit_code, str(error)
        case KeyboardInterrupt() | typer.Abort():
            return INTERRUPTED, "interrupted"
        case OutputLost():
            close_output()
            broken = isinstance(error.__cause__, BrokenPipeError)
            return (BROKEN_PIPE, "") if broken else (STREAM_LOST, str(error))
        case _:
            return UNEXPECTED, _unexpected(error)


def _unexpected(error: BaseException) -> str:
    print_traceback(error)
    kind = type(error).__name__
    return f"unexpected {kind}: {error}; {DEBUG}=1 shows where it comes from"


def _usage(error: Any) -> str:
    context = getattr(error, "ctx", None)
    path = context.command_path if context else "alloc-es"
    return f"{error.format_message().rstrip('.')}; see `{path} --help`"


def _command_first(arguments: Sequence[str]) -> tuple[list[str], bool]:
    """Move `--store` and `--json` behind the command, and say whether there is one.

    A command of a group has two words; of a group alone, and of nothing, there is help.
    """
    moved, rest = _leading_options(arguments)
    words: list[str] = []
    if rest[:1] == [_GROUP]:
        words = [_GROUP]
        more, rest = _leading_options(rest[1:])
        moved += more
    return ([*words, rest[0], *moved, *rest[1:]], True) if rest else (words, False)


def _leading_options(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """The `--store` and `--json` in front, and what is behind them."""
    rest = list(arguments)
    leading: list[str] = []
    while rest and (rest[0] == "--json" or rest[0].partition("=")[0] == "--store"):
        count = 2 if rest[0] == "--store" else 1
        leading += rest[:count]
        rest = rest[count:]
    return leading, rest


def _prepare_streams() -> None:
    """Make printing safe: a closed stream swallows, and what can't be encoded is escaped."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115 - open to the end
        elif isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _version() -> str:
    try:
        return version("alloc-es")
    except PackageNotFoundError:
        return "(run from its source, not installed)"
