"""A scheduler that stops in mid-decision, at a named point, until its parent kills it."""

from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

from alloc_es import committing, connect
from alloc_es.store import sqlite_datastore
from tests.support.recorders import RECORDERS

BEFORE_DECIDING = "before it decided"
DECIDED = "decided and not appended"
INSERTED = "inserted and not committed"
SENT = "sent and not committed"
COMMITTED = "committed and not answered"


def decide(pipe: Connection, url: str, point: str) -> None:
    """Register v2 under the command id "c-1", as far as to the point."""
    stop_at(pipe, point, [(committing, "append")])
    with connect(url, actor="victim", migrate=False) as allocations:
        allocations.workflow("acme", "triage").register_challenger("v2", command_id="c-1")
    pipe.send("survived")


def spawn(pipe: Connection, url: str, point: str) -> None:
    """Spawn "run-1", as far as to the point."""
    stop_at(pipe, point, [(recorder, "insert_runs") for recorder in RECORDERS])
    with connect(url, actor="victim", migrate=False) as allocations:
        allocations.workflow("acme", "triage").spawn_run("run-1", unit="unit-1")
    pipe.send("survived")


def stop_at(pipe: Connection, point: str, writers: list[tuple[Any, str]]) -> None:
    """Make this process stop when it gets to the point, and tell the parent.

    `writers` are the owners and names of what writes, one of which will be called.
    """

    def stop() -> None:
        pipe.send(point)
        pipe.recv()

    match point:
        case "before it decided":
            replace([(committing, "decide")], before=stop)
        case "decided and not appended":
            replace(writers, before=stop)
        case "inserted and not committed":
            replace([(sqlite_datastore._WriteTransaction, "__exit__")], before=stop)
        case "sent and not committed":
            # The parent holds the lock that the INSERT waits for; it only has to know when.
            replace(writers, before=lambda: pipe.send(point))
        case "committed and not answered":
            replace(writers, after=stop)
        case _:
            raise AssertionError(point)


def replace(
    functions: list[tuple[Any, str]],
    *,
    before: Callable[[], None] = lambda: None,
    after: Callable[[], None] = lambda: None,
) -> None:
    """Do something before or after every call of some functions of modules or classes."""

    def replacement(genuine: Any) -> Any:
        def call(*arguments: Any, **more: Any) -> Any:
            before()
            result = genuine(*arguments, **more)
            after()
            return result

        return call

    for owner, name in functions:
        setattr(owner, name, replacement(getattr(owner, name)))
