"""What a participant's process does from its beginning to its end."""

import os
import sys
from multiprocessing.connection import Connection
from threading import Lock

from alloc_es.harness.protocol import NotUp, Opening, Reply, Up
from alloc_es.harness.worker import Worker, peak_rss_of_this_process

_LAUNCHER_GONE = 75


def serve(connection: Connection, worker: Worker) -> None:
    """See to messages until one ends the work; raises `EOFError` when the launcher is gone."""
    while worker.take(connection.recv()):
        pass
    worker.end()


def main(descriptor: int) -> None:
    """Serve the launcher at the other end of a pipe; end at once when it is gone."""
    connection = Connection(descriptor)
    writing = Lock()

    def tell(reply: Reply) -> None:
        with writing:
            connection.send(reply)

    try:
        # Before anything is unpickled that only the launcher's path leads to.
        sys.path[:] = connection.recv()
        opening: Opening = connection.recv()
        try:
            worker = Worker(opening, tell, peak_rss=peak_rss_of_this_process)
        except Exception as error:  # noqa: BLE001 - told to the launcher, whatever it is
            tell(NotUp(f"{type(error).__name__}: {error}"))
            return
        tell(Up(os.getpid()))
        serve(connection, worker)
    except (EOFError, ConnectionError):
        # Requests under way are left as a crash would leave them.
        os._exit(_LAUNCHER_GONE)
