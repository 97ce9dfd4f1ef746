"""The three ways to run a participant: a task, a thread or a process."""

import asyncio
import os
import subprocess
import sys
import threading
from concurrent.futures import Future
from concurrent.futures import wait as wait_for
from contextlib import suppress
from functools import partial
from multiprocessing.connection import Connection
from signal import SIGKILL, Signals
from threading import Lock, Thread
from typing import Any, Literal, Protocol

from alloc_es.asking import in_thread
from alloc_es.harness.child import Speaker, opened, serve
from alloc_es.harness.watchdog import Watchdog

# The launcher's path comes first: what a participant imports may be found there only.
_MAIN = (
    "import sys; number, sys.path[:] = int(sys.argv[1]), sys.argv[2:]; "
    "from alloc_es.harness.child import main; main(number)"
)

Mode = Literal["in_process", "thread", "process"]


class Runner(Protocol):
    """Something that serves one end of a pipe."""

    pid: int | None
    """The number of its own process; None where it has none."""

    def wait(self) -> None:
        """Wait for its end."""

    @property
    def exit_code(self) -> int | None:
        """How its process ended; None while it runs, and where it has none."""

    def signal(self, number: Signals) -> bool:
        """Send its process a signal; False where it has none."""


class ProcessRunner:
    """A process of the interpreter's own; one that is not left behind."""

    def __init__(self, connection: Connection, watchdog: Watchdog) -> None:
        self._watchdog = watchdog
        self._lock = Lock()
        self._reaped = False
        with connection:
            self._process = subprocess.Popen(
                [sys.executable, "-c", _MAIN, str(connection.fileno()), *sys.path],
                pass_fds=[connection.fileno()],
                stdin=subprocess.DEVNULL,
                # A Ctrl-C is for the launcher, which ends its participants. And what a
                # policy starts can be ended together with its participant.
                start_new_session=True,
            )
        self.pid: int | None = self._process.pid
        watchdog.watch(self._process.pid)

    def wait(self) -> None:
        """Wait for its end."""
        self._process.wait()
        self._note_reaped()

    @property
    def exit_code(self) -> int | None:
        """As `subprocess` tells it: below zero for the signal that ended it."""
        code = self._process.poll()
        if code is not None:
            self._note_reaped()
        return code

    def signal(self, number: Signals) -> bool:
        """Send it, and what it has started, a signal; nothing happens when it has ended."""
        if self.exit_code is None:
            self._signal_group(number)
        return True

    def _note_reaped(self) -> None:
        with self._lock:
            first, self._reaped = not self._reaped, True
        if first:
            # What it has started may outlive it, and be stopped.
            self._signal_group(SIGKILL)
            self._watchdog.forget(self._process.pid)

    def _signal_group(self, number: Signals) -> None:
        # macOS refuses a group of which only the dead are left.
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)


class ThreadRunner:
    """A thread with a connection of its own."""

    pid: int | None = None
    exit_code: int | None = None

    def __init__(self, connection: Connection, name: str) -> None:
        self._connection = connection
        self._thread = Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def wait(self) -> None:
        """Wait for its end."""
        self._thread.join()

    def signal(self, number: Signals) -> bool:  # noqa: ARG002
        """A thread can't be sent one."""
        return False

    def _run(self) -> None:
        with self._connection as connection:
            serve(connection, lambda: None)


class TaskRunner:
    """A task of an event loop, which hands requests on to threads."""

    pid: int | None = None
    exit_code: int | None = None

    def __init__(self, connection: Connection, loop: asyncio.AbstractEventLoop) -> None:
        self._connection = connection
        self._ended: Future[None] = asyncio.run_coroutine_threadsafe(self._run(), loop)

    def wait(self) -> None:
        """Wait for its end."""
        wait_for([self._ended])

    def signal(self, number: Signals) -> bool:  # noqa: ARG002
        """A task can't be sent one."""
        return False

    async def _run(self) -> None:
        with self._connection as connection, suppress(EOFError, OSError):
            opening = await self._received()
            worker, _ = await in_thread(partial(opened, opening, Speaker(connection)))
            if worker:
                try:
                    while worker.take(await self._received()):
                        pass
                finally:
                    await in_thread(worker.end)

    async def _received(self) -> Any:
        if not self._connection.poll():
            await self._readable()
        return self._connection.recv()

    async def _readable(self) -> None:
        arrived = asyncio.Event()
        loop = asyncio.get_running_loop()
        loop.add_reader(self._connection.fileno(), arrived.set)
        try:
            await arrived.wait()
        finally:
            loop.remove_reader(self._connection.fileno())


class Runtime:
    """An event loop in a thread of its own, for the tasks of one launcher."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="alloc-es tasks", daemon=True)
        self._thread.start()

    def close(self, within: float) -> None:
        """End it with its last task, and wait so many seconds for that."""
        asyncio.run_coroutine_threadsafe(self._end(), self.loop)
        self._thread.join(within)

    def _run(self) -> None:
        self.loop.run_forever()
        self.loop.close()

    async def _end(self) -> None:
        others = asyncio.all_tasks() - {asyncio.current_task()}
        if others:
            await asyncio.wait(others)
        self.loop.stop()
