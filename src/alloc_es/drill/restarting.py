"""Running the command that restarts a store's server, and seeing that it did."""

import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from threading import Timer
from typing import IO

from alloc_es.clock import Patience
from alloc_es.drill.errors import RestartFailed
from alloc_es.errors import StoreUnavailable

TIMEOUT = 120.0
"""Seconds that the command may take, and that the server may then stay away."""

_PATIENCE = Patience(TIMEOUT)
_SILENT_FOR = 3.0

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
        problem = f"the command ended, but the server was not restarted (running since {after})"
        raise RestartFailed(command, problem)


def await_service(
    command: str,
    is_served: Callable[[], bool],
    patience: Patience = _PATIENCE,
) -> None:
    """Return once somebody is served; raises `RestartFailed` where nobody is in time."""
    deadline, attempt = patience.deadline(), 0
    while not is_served():
        attempt += 1
        if not patience.pause(attempt, deadline):
            problem = f"the command ended, and nobody was served for {patience.timeout:g} s"
            raise RestartFailed(command, problem)


@contextmanager
def told_if_long(
    command: str, tell: Callable[[str], object], *, silent_for: float = _SILENT_FOR
) -> Iterator[None]:
    """Say what is waited for, once, if what is inside takes longer than a few seconds."""
    sentence = (
        f"waits for `{command}` to end, and for the server to serve somebody again; "
        f"{TIMEOUT:g} s at most for each"
    )
    timer = Timer(silent_for, tell, [sentence])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


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
