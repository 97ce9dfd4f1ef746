"""Running the command that restarts a store's server, and seeing that it did."""

import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import IO

from alloc_es.drill.errors import RestartFailed
from alloc_es.errors import StoreUnavailable

TIMEOUT = 120.0
"""Seconds that the command may take."""

_SHOWN = 300


@contextmanager
def run_restart(
    command: str, started_at: Callable[[], datetime | None], *, timeout: float = TIMEOUT
) -> Iterator[None]:
    """Run the command before what is inside, and see behind it that the server is another one.

    `started_at` says since when it runs. Raises `RestartFailed`.
    """
    try:
        before = started_at()
        run_command(command, timeout)
        yield
        after = started_at()
    except StoreUnavailable as error:
        raise RestartFailed(command, error.problem) from error
    if before == after:
        problem = f"it is done, and the server runs since {after} as it did before"
        raise RestartFailed(command, problem)


def run_command(command: str, timeout: float = TIMEOUT) -> None:
    """Run it in a shell, to its end also at a Ctrl-C, which may leave no server half started.

    Raises `RestartFailed`.
    """
    # No pipe: a server that it starts would hold the other end of it for as long as it runs.
    with tempfile.TemporaryFile() as said:
        shell = subprocess.Popen(
            command,
            shell=True,
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            shell.wait(timeout)
        except subprocess.TimeoutExpired:
            shell.kill()
            shell.wait()
            raise RestartFailed(command, f"not done in {timeout:g} s") from None
        except KeyboardInterrupt:
            shell.wait(timeout)
            raise
        if shell.returncode:
            raise RestartFailed(command, f"exit code {shell.returncode}{_words(said)}")


def _words(said: IO[bytes]) -> str:
    """The end of what it said, on one line."""
    said.seek(0)
    words = " ".join(said.read().decode(errors="replace").split())[-_SHOWN:]
    return f": {words}" if words else ""
