"""An archiver that stops at a named point, until its parent kills it."""

from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from alloc_es import archiving, connect
from alloc_es.archives import Manifest
from alloc_es.exchange import files
from alloc_es.removing import Move
from alloc_es.store.postgres_desk import PostgresSession
from alloc_es.store.sqlite_desk import SQLiteSession
from tests.acceptance.victims import replace

SPAN = 4
"""How many positions a file holds, so that there are several."""

A_FILE_IS_NOT_WHOLE = "the second file is not whole"
NO_MANIFEST = "no manifest"
NOT_RECORDED = "all files and nothing recorded"
IDS_ARE_KEPT = "ids are kept"
TAKEN_OUT = "taken out and not committed"
COMMITTED = "committed and not answered"


def be_killed(pipe: Connection, url: str, directory: str, up_to: int, point: str) -> None:
    """Archive runs as far as to the point."""

    def stop() -> None:
        pipe.send(point)
        pipe.recv()

    archiving.SPAN = SPAN  # type: ignore[attr-defined]
    _stop_at(point, stop)
    with connect(url, migrate=False) as allocations:
        archiving.archive(allocations, Path(directory), up_to=up_to)
    pipe.send("survived")


def _stop_at(point: str, stop: Callable[[], None]) -> None:
    match point:
        case "the second file is not whole":
            settled = iter((lambda: None, stop))
            replace([(files, "settle")], before=lambda: next(settled)())
        case "no manifest":
            replace([(Manifest, "write")], before=stop)
        case "all files and nothing recorded":
            replace([(Move, "keep_ids")], before=stop)
        case "ids are kept":
            replace([(Move, "keep_ids")], after=stop)
        case "taken out and not committed":
            for session in (SQLiteSession, PostgresSession):
                session.run = _and_then(session.run, stop)  # type: ignore[method-assign]
        case "committed and not answered":
            replace([(Move, "take_out")], after=stop)
        case _:
            raise AssertionError(point)


def _and_then(genuine: Any, stop: Callable[[], None]) -> Any:
    """The same, which stops behind the statement that takes runs out of the log."""

    def run(session: Any, statement: str, *parameters: object) -> int:
        count: int = genuine(session, statement, *parameters)
        if statement.startswith("DELETE FROM run_events"):
            stop()
        return count

    return run
