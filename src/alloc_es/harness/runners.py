"""The three ways to run a participant: a task, a thread or a process."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import Future
from multiprocessing.connection import Connection
from threading import Lock, Thread
from typing import Literal, Protocol

from alloc_es.app import Allocations
from alloc_es.harness.child import serve
from alloc_es.harness.protocol import NotUp, Opening, Reply, Up
from alloc_es.harness.watchdog import Watchdog
from alloc_es.harness.worker import Worker

_MAIN = "import sys; from alloc_es.harness.child import main; main(int(sys.argv[1]))"

Mode = Literal["in_process", "thread", "process"]


class Runner(Protocol):
    """Something that serves one end of a pipe."""

    pid: int | None
    """The number of its own process; None where it has none."""

    def wait(self, seconds: float | None) -> bool:
        """Wait for its end; whether it came."""

    @property
    def exit_code(self) -> int | None:
        """How its process ended; None while it runs, and where it has none."""

    def signal(self, number: signal.Signals) -> bool:
        """Send its process a signal; False where it has none."""


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


class ProcessRunner:
    """A process of the interpreter's own; one that is not left behind."""

    def __init__(self, connection: Connection, watchdog: Watchdog) -> None:
        self._watchdog = watchdog
        self._process = subprocess.Popen(
            [sys.executable, "-c", _MAIN, str(connection.fileno())],
            pass_fds=[connection.fileno()],
            stdin=subprocess.DEVNULL,
            # A Ctrl-C is for the launcher, which ends its participants.
            start_new_session=True,
        )
        connection.close()
        self.pid: int | None = self._process.pid
        watchdog.watch(self._process.pid)

    def wait(self, seconds: float | None) -> bool:
        """Wait for its end; whether it came."""
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        self._watchdog.forget(self._process.pid)
        return True

    @property
    def exit_code(self) -> int | None:
        """As `subprocess` tells it: below zero for the signal that ended it."""
        return self._process.poll()

    def signal(self, number: signal.Signals) -> bool:
        """Send it a signal; nothing happens when it has ended."""
        self._process.send_signal(number)
        return True


class ThreadRunner:
    """A thread with a connection of its own."""

    pid: int | None = None
    exit_code: int | None = None

    def __init__(self, connection: Connection, opening: Opening) -> None:
        self._connection = connection
        self._opening = opening
        self._thread = Thread(target=self._run, name=opening.identity.name, daemon=True)
        self._thread.start()

    def wait(self, seconds: float | None) -> bool:
        """Wait for its end; whether it came."""
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def signal(self, number: signal.Signals) -> bool:  # noqa: ARG002
        """A thread can't be sent one."""
        return False

    def _run(self) -> None:
        with self._connection as connection:
            tell = Speaker(connection)
            try:
                worker = Worker(self._opening, tell)
            except Exception as error:  # noqa: BLE001 - told to the launcher, whatever it is
                tell(NotUp(f"{type(error).__name__}: {error}"))
                return
            tell(Up(os.getpid()))
            try:
                serve(connection, worker)
            except (EOFError, OSError):
                worker.end()


class TaskRunner:
    """A task of an event loop, on a connection that all tasks share."""

    pid: int | None = None
    exit_code: int | None = None

    def __init__(
        self,
        connection: Connection,
        opening: Opening,
        shared: Allocations,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._connection = connection
        self._worker = Worker(opening, Speaker(connection), shared=shared)
        self._ended: Future[None] = asyncio.run_coroutine_threadsafe(self._serve(), loop)

    def wait(self, seconds: float | None) -> bool:
        """Wait for its end; whether it came."""
        try:
            self._ended.result(seconds)
        except TimeoutError:
            return False
        return True

    def signal(self, number: signal.Signals) -> bool:  # noqa: ARG002
        """A task can't be sent one."""
        return False

    async def _serve(self) -> None:
        loop = asyncio.get_running_loop()
        arrived = asyncio.Event()
        loop.add_reader(self._connection.fileno(), arrived.set)
        try:
            self._connection.send(Up(os.getpid()))
            while await self._took(arrived):
                pass
        finally:
            loop.remove_reader(self._connection.fileno())
            await asyncio.to_thread(self._worker.end)
            self._connection.close()

    async def _took(self, arrived: asyncio.Event) -> bool:
        """See to what has arrived; False when that was the last."""
        await arrived.wait()
        arrived.clear()
        try:
            while self._connection.poll():
                if not self._worker.take(self._connection.recv()):
                    return False
        except (EOFError, OSError):
            return False
        return True


class Runtime:
    """An event loop in a thread of its own, for the tasks of one launcher."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the loop, in which nothing runs any more."""
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()
