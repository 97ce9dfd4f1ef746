"""A scheduler that stops in mid-decision, at a named point, until its parent kills it."""

from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

from alloc_es import committing, connect, spawning
from alloc_es.store.sqlite import SQLiteRecorder

BEFORE_DECIDING = "before it decided"
DECIDED = "decided and not appended"
INSERTED = "inserted and not committed"
SENT = "sent and not committed"
COMMITTED = "committed and not answered"


def decide(pipe: Connection, url: str, point: str) -> None:
    """Register v2 under the command id "c-1", as far as to the point."""
    stop_at(pipe, point, committing)
    with connect(url, actor="victim", migrate=False) as allocations:
        allocations.workflow("acme", "triage").register_challenger("v2", command_id="c-1")
    pipe.send("survived")


def spawn(pipe: Connection, url: str, point: str) -> None:
    """Spawn "run-1", as far as to the point."""
    stop_at(pipe, point, spawning)
    with connect(url, actor="victim", migrate=False) as allocations:
        allocations.workflow("acme", "triage").spawn_run("run-1", unit="unit-1")
    pipe.send("survived")


def stop_at(pipe: Connection, point: str, module: Any) -> None:
    """Make this process stop when it gets to the point, and tell the parent."""

    def stop() -> None:
        pipe.send(point)
        pipe.recv()

    match point:
        case "before it decided":
            replace(module, "decide", before=stop)
        case "decided and not appended":
            replace(module, "append", before=stop)
        case "inserted and not committed":
            replace(SQLiteRecorder, "_insert_events", after=stop)
        case "sent and not committed":
            # The parent holds the lock that the INSERT waits for; it only has to know when.
            replace(module, "append", before=lambda: pipe.send(point))
        case "committed and not answered":
            replace(module, "append", after=stop)
        case _:
            raise AssertionError(point)


def replace(
    owner: Any,
    name: str,
    *,
    before: Callable[[], None] = lambda: None,
    after: Callable[[], None] = lambda: None,
) -> None:
    """Do something before or after every call of a function of a module or class."""
    genuine = getattr(owner, name)

    def replacement(*arguments: Any, **more: Any) -> Any:
        before()
        result = genuine(*arguments, **more)
        after()
        return result

    setattr(owner, name, replacement)
