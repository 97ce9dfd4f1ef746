"""What a participant does at its end of a pipe, and in a process of its own."""

import os
import sys
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from threading import Lock

from alloc_es.harness.protocol import NotUp, Opening, Reply, Up
from alloc_es.harness.worker import Worker

_LAUNCHER_GONE = 75


class Speaker:
    """Sends replies from many threads over one end of a pipe."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._lock = Lock()

    def __call__(self, reply: Reply) -> None:
        """Send a reply, for as long as somebody may hear it."""
        with self._lock:
            try:
                self._connection.send(reply)
            except OSError:
                return


def opened(
    opening: Opening,
    tell: Callable[[Reply], None],
    peak_rss: Callable[[], int | None] = lambda: None,
) -> Worker | None:
    """A worker that is ready, and has said so; None where there is none, and it has said why."""
    try:
        worker = Worker(opening, tell, peak_rss)
    except Exception as error:  # noqa: BLE001 - told to the launcher, whatever it is
        tell(NotUp(f"{type(error).__name__}: {error}"))
        return None
    tell(Up())
    return worker


def serve(
    connection: Connection,
    on_loss: Callable[[], None],
    peak_rss: Callable[[], int | None] = lambda: None,
) -> None:
    """See to messages until one ends the work; when the launcher is gone, do `on_loss` first."""
    try:
        worker = opened(connection.recv(), Speaker(connection), peak_rss)
    except (EOFError, OSError):
        return on_loss()
    if worker:
        try:
            while worker.take(connection.recv()):
                pass
        except (EOFError, OSError):
            on_loss()
        worker.end()
    return None


def main(descriptor: int) -> None:
    """Serve the launcher at the other end of a pipe; end at once when it is gone."""
    # Requests under way are left as a crash would leave them.
    serve(Connection(descriptor), lambda: os._exit(_LAUNCHER_GONE), peak_rss_of_this_process)


def peak_rss_of_this_process() -> int | None:
    """The most memory, in bytes, that this process ever held; None where no system says so."""
    if sys.platform == "linux":
        return _peak_told_by(Path("/proc/self/status"))
    try:
        from resource import RUSAGE_SELF, getrusage
    except ImportError:
        return None
    # Bytes on macOS, kilobytes elsewhere: getrusage(2) of each.
    return getrusage(RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def _peak_told_by(status: Path) -> int | None:
    """Not by getrusage, which on Linux also counts what the process was before its program began.

    A child would report its launcher's memory.
    """
    try:
        lines = status.read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:")), None)
