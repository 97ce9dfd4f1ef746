"""The group-committing writer: one thread per connection that records waiting runs together."""

import asyncio
import os
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from copy import copy
from enum import Enum
from threading import Condition, Lock, RLock, Thread, current_thread
from typing import TypeAlias

from alloc_es.allotting import Allotment
from alloc_es.clock import Patience
from alloc_es.errors import AllocationError, AnswerLost, OutcomeUnknown, StoreUnavailable
from alloc_es.events import RunSpawned

MAX_GROUP = 1_000
"""How many runs are recorded in one transaction at most."""

MAX_PREPARED = 4 * MAX_GROUP
"""How many runs wait with their events written; those behind them wait as they came."""

GRACE = 1.0
"""Seconds, at most, that a call waits beyond its deadline for a group that is under way."""

Waiter: TypeAlias = "Lock | asyncio.Future[None]"
"""What a caller waits at: a thread at a lock that is taken, until it is let go.

Not at an `Event`: an interrupt may leave the lock inside of one taken for ever.
"""


class Stage(Enum):
    """Where a batch is."""

    WAITING = "in the line"
    TAKEN = "in the group that is under way"
    GIVEN_UP = "its caller no longer waits"
    DONE = "settled"


class Batch:
    """Runs that one caller waits for; never split between groups."""

    __slots__ = ("allotments", "error", "late", "stage", "timeout", "timer", "waiter")

    def __init__(self, allotments: Sequence[Allotment], waiter: Waiter, timeout: float) -> None:
        self.allotments = allotments
        self.waiter = waiter
        self.timeout = timeout
        self.stage = Stage.WAITING
        self.late = False
        """Whether its deadline has passed, so that the attempt under way is the last."""
        self.error: Exception | None = None
        self.timer: asyncio.TimerHandle

    @property
    def grace(self) -> float:
        """Seconds to wait beyond the timeout for a group that is under way."""
        return min(self.timeout, GRACE)

    def outcomes(self) -> list[RunSpawned | AllocationError]:
        """What became of each run, in the caller's order."""
        return [allotment.outcome() or self._failure(allotment) for allotment in self.allotments]

    def _failure(self, allotment: Allotment) -> AllocationError:
        error = self.error
        assert error is not None, "a batch that nobody gave up is settled or has an error"
        if not isinstance(error, StoreUnavailable):
            raise error
        if allotment.in_doubt:
            return OutcomeUnknown(allotment.key, error.problem, run_id=allotment.run_id)
        # Each caller raises it, and a raised error gathers the tracebacks of all who do.
        own = copy(error)
        own.__cause__ = error.__cause__
        return own


Record = Callable[[Sequence[Allotment]], None]
"""Settles runs, or raises `StoreUnavailable` and settles a part of them."""


class GroupWriter:
    """Takes what waits, up to 1,000 runs, and has it recorded in one transaction.

    Groups form by themselves: whatever arrives while one is under way makes up the next.
    An idle writer begins at once. Safe for threads and event loops.
    """

    def __init__(self, record: Record, patience: Patience) -> None:
        self._record = record
        self._patience = patience
        self._line: deque[Batch] = deque()
        self._waiting = 0
        self._gone = 0
        # Both are used by `with` as they are, and never through the condition, whose own entry
        # is Python: an interrupt there would leave the lock taken for ever. And it is one that
        # a thread may take twice: the collector may close this writer on its own thread.
        self._lock = RLock()
        self._changed = Condition(self._lock)
        self._thread: Thread | None = None
        self._closing = False
        self._process = os.getpid()
        self.retries = 0

    @property
    def has_room(self) -> bool:
        """Whether a run that is submitted now should come with its event written."""
        return self._waiting < MAX_PREPARED

    def submit(self, allotments: Sequence[Allotment], waiter: Waiter, timeout: float) -> Batch:
        """Put runs into the line. Raises `StoreUnavailable` once the writer was closed."""
        batch = Batch(allotments, waiter, timeout)
        with self._lock:
            if self._closing:
                raise StoreUnavailable("the connection was closed", retryable=False)
            if self._thread is None or not self._thread.is_alive():
                self._start()
            if self._thread is current_thread():
                problem = "a run can't be spawned by what is called while runs are recorded"
                raise StoreUnavailable(problem, retryable=False)
            self._line.append(batch)
            self._waiting += len(allotments)
            self._changed.notify()
        return batch

    def wait(self, batch: Batch, latch: Lock) -> None:
        """Wait in a thread until a batch is settled, or given up."""
        try:
            if not latch.acquire(timeout=batch.timeout) and not self.withdraw(batch):
                latch.acquire(timeout=batch.grace)
                self.give_up(batch)
        except BaseException:
            self.withdraw(batch)
            raise

    async def await_(self, batch: Batch, future: asyncio.Future[None]) -> None:
        """Wait in an event loop until a batch is settled, or given up."""
        batch.timer = future.get_loop().call_later(batch.timeout, self._leave, batch, future)
        try:
            await future
        except asyncio.CancelledError:
            self.withdraw(batch)
            raise
        finally:
            batch.timer.cancel()

    def _leave(self, batch: Batch, future: asyncio.Future[None]) -> None:
        if self.withdraw(batch):
            _release((future,))
        else:
            batch.timer = future.get_loop().call_later(
                batch.grace, self._leave_taken, batch, future
            )

    def _leave_taken(self, batch: Batch, future: asyncio.Future[None]) -> None:
        self.give_up(batch)
        _release((future,))

    def withdraw(self, batch: Batch) -> bool:
        """Take a batch out of the line; False if it is no longer there, and then for good."""
        with self._lock:
            batch.late = True
            if batch.stage is not Stage.WAITING:
                return False
            batch.stage = Stage.GIVEN_UP
            self._forget(batch)
            batch.error = batch.error or StoreUnavailable(
                f"its turn did not come within {batch.timeout:g} s: the store is blocked or slow"
            )
            return True

    def _forget(self, batch: Batch) -> None:
        """Let go of what was withdrawn, so that the line is no longer than twice its callers."""
        self._waiting -= len(batch.allotments)
        self._gone += 1
        if 2 * self._gone > len(self._line):
            self._line = deque(each for each in self._line if each.stage is Stage.WAITING)
            self._gone = 0

    def give_up(self, batch: Batch) -> None:
        """Wait no longer for a group that is under way."""
        with self._lock:
            if batch.stage is not Stage.DONE:
                batch.stage = Stage.GIVEN_UP
                batch.error = StoreUnavailable(
                    f"the store gave no answer within {batch.timeout + batch.grace:g} s"
                )
                _doubt(batch)

    def close(self) -> None:
        """Record what waits, then end the thread; later runs are refused."""
        if os.getpid() != self._process:
            return
        with self._lock:
            self._closing = True
            self._changed.notify_all()
            thread = self._thread
        # The last handle may be collected by the writer's own thread.
        if thread is not None and thread is not current_thread() and thread.is_alive():
            thread.join(2 * self._patience.timeout + GRACE)

    def _start(self) -> None:
        # A daemon, because the interpreter waits for other threads before it tells anybody
        # that it ends. It is known before it runs: an interrupt must not leave one that is not.
        self._thread = Thread(target=self._run, name="alloc-es group writer", daemon=True)
        try:
            self._thread.start()
        except RuntimeError as error:
            problem = f"no thread can be started to record runs: {error}"
            raise StoreUnavailable(problem, retryable=False) from error

    def _run(self) -> None:
        attempt = 0
        while batches := self._take():
            try:
                self._record([a for batch in batches for a in batch.allotments if not a.settled])
            except StoreUnavailable as error:
                attempt += 1
                self._failed(batches, error)
                if error.retryable:
                    self._patience.pause(attempt, self._patience.deadline())
            # Whatever else goes wrong is the callers' to see, and the thread's to survive.
            except Exception as error:  # noqa: BLE001
                self._finish(batches, error)
            else:
                attempt = 0
                self._finish(batches, None)

    def _take(self) -> list[Batch]:
        """The next group; empty when the writer was closed and nothing waits."""
        batches: list[Batch] = []
        with self._lock:
            while not batches:
                while not self._line and not self._closing:
                    self._changed.wait()
                if not self._line:
                    break
                size = 0
                while self._line and size + len(self._line[0].allotments) <= MAX_GROUP:
                    batch = self._line.popleft()
                    if batch.stage is not Stage.WAITING:
                        self._gone -= 1
                        continue
                    batch.stage = Stage.TAKEN
                    size += len(batch.allotments)
                    self._waiting -= len(batch.allotments)
                    batches.append(batch)
        return batches

    def _failed(self, batches: Iterable[Batch], error: StoreUnavailable) -> None:
        """Put a group back where it came from, for another attempt while its callers wait."""
        again, ended = [], []
        with self._lock:
            for batch in batches:
                if isinstance(error, AnswerLost):
                    _doubt(batch)
                if error.retryable and batch.stage is Stage.TAKEN and not batch.late:
                    batch.stage = Stage.WAITING
                    batch.error = error
                    again.append(batch)
                else:
                    ended.append(batch)
            self.retries += bool(again)
            self._line.extendleft(reversed(again))
            self._waiting += sum(len(batch.allotments) for batch in again)
        self._finish(ended, error)

    def _finish(self, batches: Iterable[Batch], error: Exception | None) -> None:
        with self._lock:
            for batch in batches:
                if batch.stage is Stage.TAKEN:
                    batch.stage = Stage.DONE
                    batch.error = error
        _wake(batch.waiter for batch in batches)


def taken_lock() -> Lock:
    """A lock for a thread to wait at."""
    lock = Lock()
    lock.acquire()
    return lock


def _doubt(batch: Batch) -> None:
    for allotment in batch.allotments:
        allotment.in_doubt = True


def _wake(waiters: Iterable[Waiter]) -> None:
    """Wake threads one by one, and each event loop once for all its tasks."""
    futures: defaultdict[asyncio.AbstractEventLoop, list[asyncio.Future[None]]] = defaultdict(list)
    for waiter in waiters:
        if isinstance(waiter, asyncio.Future):
            futures[waiter.get_loop()].append(waiter)
        else:
            waiter.release()
    for loop, of_loop in futures.items():
        # A loop that was closed has nobody left who waits.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(_release, of_loop)


def _release(futures: Iterable[asyncio.Future[None]]) -> None:
    for future in futures:
        if not future.done():
            future.set_result(None)
