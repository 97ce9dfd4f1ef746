"""A shell command that restarts a server of the tests' own, as an operator's would."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread

from tests.support.postgres import PostgresServer

_ENOUGH = "enough"


@contextmanager
def restart_command(server: PostgresServer) -> Iterator[str]:
    """The command; it stops the server at once, and ends when that answers again."""
    with tempfile.TemporaryDirectory() as home:
        asked, done = Path(home, "asked"), Path(home, "done")
        for pipe in (asked, done):
            os.mkfifo(pipe)
        thread = Thread(target=_restart_when_asked, args=(server, asked, done), daemon=True)
        thread.start()
        try:
            yield f"echo restart > {asked} && read -r answer < {done}"
        finally:
            asked.write_text(f"{_ENOUGH}\n")
            thread.join()


def _restart_when_asked(server: PostgresServer, asked: Path, done: Path) -> None:
    while asked.read_text().strip() != _ENOUGH:
        server.restart("immediate")
        done.write_text("done\n")
