"""How results and errors reach the streams: safely, whole, and in one place."""

import json
import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, NoReturn

from rich.console import Console, RenderableType

from alloc_es.cli.documents import Ended, committed_document, error_document, split_words
from alloc_es.committing import Committed

DEBUG = "ALLOC_ES_DEBUG"
"""The variable with which errors in other people's code show where they come from."""

# Wide enough that in a pipe no line is ever folded: an entry is a line, whoever reads it.
_PIPE_WIDTH = 100_000

# Families of emoji and several scripts are written with these; identifiers may hold them.
_JOINERS = "\u200c\u200d"


class OutputLost(Exception):
    """What was printed did not arrive; its cause is an `OSError`.

    Not an `OSError` itself: typer ends the process with exit code 1 at a closed pipe, and
    here 1 means that the rules refused something.
    """


def write(text: str) -> None:
    """Write to stdout, now. Raises `OutputLost`."""
    with _arriving():
        sys.stdout.write(text)
        sys.stdout.flush()


@contextmanager
def _arriving() -> Iterator[None]:
    """Around what writes to stdout, also where that is nothing: a full disk may refuse it."""
    try:
        yield
    except OSError as error:
        raise OutputLost(f"the output could not be written: {error.strerror}") from error


def close_output() -> None:
    """Let what is left of stdout go nowhere; Python flushes at its end, and would complain."""
    with suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def one_line(text: str) -> str:
    """Text as one line that can't move the cursor or turn the writing direction."""
    return "".join(c if c.isprintable() or c in _JOINERS else _escaped(c) for c in text)


def say(text: str) -> None:
    """Print one sentence for people."""
    write(f"{one_line(text)}\n")


def print_rich(*parts: RenderableType) -> None:
    """Print tables and drawings: coloured and folded on a terminal, plain in a pipe."""
    width = None if sys.stdout.isatty() else _PIPE_WIDTH
    console = Console(file=sys.stdout, width=width, highlight=False, markup=False, emoji=False)
    with _arriving(), console.capture() as capture:
        console.print(*parts, sep="\n")
    write("".join(f"{line.rstrip()}\n" for line in capture.get().splitlines()))


def print_document(document: Any) -> None:
    """Print one JSON document."""
    write(f"{_json(document, sys.stdout, indent=2)}\n")


def print_line(document: Any) -> None:
    """Print one JSON document of many, on a line of its own."""
    write(f"{_json(document, sys.stdout)}\n")


def print_error(document: dict[str, Any], *, as_json: bool) -> None:
    """Print what went wrong on stderr, in one line."""
    error = document["error"]
    # What was wrong in a file of another path says so itself.
    where = f"line {error['line']}: " if "line" in error and "path" not in error else ""
    print_aside(document, f"{where}{error['message']}", as_json=as_json)


def print_aside(document: dict[str, Any], sentence: str, *, as_json: bool) -> None:
    """Print one line on stderr: a sentence for people, or a document."""
    text = _json(document, sys.stderr) if as_json else f"alloc-es: {one_line(sentence)}"
    with suppress(OSError):
        print(text, file=sys.stderr, flush=True)


def print_traceback(error: BaseException) -> None:
    """Print on stderr where an error comes from, where that was asked for."""
    if os.environ.get(DEBUG):
        with suppress(OSError):
            traceback.print_exception(error)


def end_now(ended: Ended, *, as_json: bool) -> NoReturn:
    """End the process as it is: to close the connection would be to wait for the store."""
    print_error(error_document(ended, str(ended), ended.exit_code), as_json=as_json)
    os._exit(ended.exit_code)


def safe_json(text: str, *, utf: bool) -> str:
    """A line of JSON as it may be printed: what moves a cursor, and what can't be encoded,
    is escaped."""
    # What is ASCII and JSON has one unprintable character at most.
    if text.isascii() and "\x7f" not in text:
        return text
    return "".join(
        c if c.isprintable() and (utf or c.isascii()) else _json_escaped(c) for c in text
    )


def knows_utf(stream: Any) -> bool:
    """Whether a stream can write every character."""
    return (getattr(stream, "encoding", None) or "utf-8").lower().startswith("utf")


def print_committed(committed: Committed, *, as_json: bool) -> None:
    """Print what became of a command."""
    if as_json:
        print_document(committed_document(committed))
        return
    allocation = committed.allocation
    what = committed.event.summary if committed.event else "nothing to do"
    stands = "was brought" if committed.replayed else "is at"
    to, by = ("to ", " by an earlier call") if committed.replayed else ("", "")
    say(
        f"{allocation.key} {stands} {to}generation {committed.generation}{by} ({what}): "
        f"{split_words(allocation)}"
    )


def _json(document: Any, stream: Any, indent: int | None = None) -> str:
    """JSON that is safe on a terminal: what is not printable is escaped, as JSON escapes."""
    text = json.dumps(document, ensure_ascii=not knows_utf(stream), indent=indent)
    return "".join(c if c.isprintable() or c == "\n" else _json_escaped(c) for c in text)


def _json_escaped(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[i : i + 2].hex()}" for i in range(0, len(units), 2))


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode()
