"""A program that spawns runs and never closes its connection: `… program URL WAY TIMEOUT`.

It writes the id of each run once it was told that it is recorded.
"""

import asyncio
import os
import sys
import warnings
from collections.abc import Callable
from itertools import count
from threading import Semaphore, Thread
from threading import enumerate as enumerate_threads

from alloc_es import Allocations, StoreUnavailable, Workflow, connect

_THREADS = 8
_RUNS = 25

told = Semaphore(0)


def say(line: str) -> None:
    """Write a line at once; Python's own buffers may be locked when a daemon's life ends."""
    os.write(1, f"{line}\n".encode())
    told.release()


def await_told(runs: int) -> None:
    """Return once so many lines were written."""
    for _ in range(runs):
        told.acquire()


def spawn(workflow: Workflow, name: str, limit: int | None) -> None:
    """Spawn runs until there are enough, or the connection was closed by the program's end."""
    for number in count() if limit is None else range(limit):
        try:
            say(workflow.spawn_run(f"{name}-{number}").run_id)
        except StoreUnavailable as error:
            if "was closed" not in str(error):
                say(f"failed: {error}")
            return


def start(workflow: Workflow, *, limit: int | None, daemon: bool) -> None:
    """Spawn runs in many threads."""
    for number in range(_THREADS):
        arguments = (workflow, f"thread-{number}", limit)
        Thread(target=spawn, args=arguments, daemon=daemon).start()


def threads(allocations: Allocations) -> None:
    """Python waits for the threads at its end."""
    start(allocations.workflow("acme", "triage"), limit=_RUNS, daemon=False)


def daemons(allocations: Allocations) -> None:
    """The program ends in mid-group."""
    start(allocations.workflow("acme", "triage"), limit=None, daemon=True)
    await_told(_THREADS * _RUNS)


async def _spawn(workflow: Workflow, name: str) -> None:
    say((await workflow.aspawn_run(name)).run_id)


def tasks(allocations: Allocations) -> None:
    """All tasks come to their end."""

    async def main() -> None:
        workflow = allocations.workflow("acme", "triage")
        await asyncio.gather(*(_spawn(workflow, f"task-{n}") for n in range(_THREADS * _RUNS)))

    asyncio.run(main())


def abandoned(allocations: Allocations) -> None:
    """The loop ends while tasks wait for their runs."""

    async def main() -> None:
        workflow = allocations.workflow("acme", "triage")
        waiting = [asyncio.create_task(_spawn(workflow, f"task-{n}")) for n in range(5_000)]
        while not any(task.done() for task in waiting):
            await asyncio.sleep(0)

    asyncio.run(main())


def leave(allocations: Allocations) -> None:
    """The program ends by `sys.exit` in mid-group."""
    daemons(allocations)
    sys.exit(3)


def fail(allocations: Allocations) -> None:
    """The program ends by an error that nobody caught."""
    daemons(allocations)
    raise LookupError("the program's own mistake")


def endless(allocations: Allocations) -> None:
    """Somebody else ends the program."""
    start(allocations.workflow("acme", "triage"), limit=None, daemon=False)


def stuck(allocations: Allocations) -> None:
    """The program ends while a caller waits for a store that is blocked."""
    workflow = allocations.workflow("acme", "triage")
    workflow.peek("unit")
    asked = Thread(
        target=workflow.spawn_run, args=("stuck",), kwargs={"timeout": 3_600}, daemon=True
    )
    asked.start()
    # It is started by the first run in the line.
    while not any(thread.name == "alloc-es group writer" for thread in enumerate_threads()):
        asked.join(0.01)
    say("asked")


def fork(allocations: Allocations) -> None:
    """A child is made in mid-group, is refused, and ends as any program does."""
    warnings.simplefilter("ignore", DeprecationWarning)
    daemons(allocations)
    child = os.fork()
    if child == 0:
        try:
            allocations.workflow("acme", "triage").spawn_run("of the child")
        except StoreUnavailable as error:
            say(f"refused: {error}")
        allocations.close()
        sys.exit(4)
    _, status = os.waitpid(child, 0)
    say(f"child: {os.waitstatus_to_exitcode(status)}")
    say(allocations.workflow("acme", "triage").spawn_run("behind the child").run_id)


WAYS: dict[str, Callable[[Allocations], None]] = {
    way.__name__: way
    for way in (threads, daemons, tasks, abandoned, leave, fail, endless, stuck, fork)
}

if __name__ == "__main__":
    url, chosen, timeout = sys.argv[1:]
    WAYS[chosen](connect(url, timeout=float(timeout), migrate=False))
