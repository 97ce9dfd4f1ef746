"""Triggers: each rejection without a replacement, handed to the workers of a consumer."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from datetime import datetime
from functools import partial
from threading import Event, Lock, Thread
from types import TracebackType
from typing import Any, Literal, Self

from alloc_es.bell import Bell
from alloc_es.clock import Patience
from alloc_es.delivering import Deliveries, Place
from alloc_es.errors import StoreUnavailable
from alloc_es.following import POLL, Tell, Trouble, hear
from alloc_es.reader_errors import TriggerLost
from alloc_es.store import Store
from alloc_es.store.session import Joined
from alloc_es.trigger import Trigger, read_trigger

__all__ = ["LEASE", "LONGEST_LEASE", "Begin", "Trigger", "Triggers"]

Begin = Literal["beginning", "now"]

LEASE = 10.0
"""Seconds of silence after which a worker counts as dead."""

LONGEST_LEASE = 86_400.0
_BEATS = 4
# Between two looks: the log of runs rings as well, and thousands of times a second.
_REST = 0.02
# Until it is known whether those who hold the last triggers live.
_WATCH_OTHERS = 0.1
_GOODBYE = 1.0


class Triggers:
    """The triggers of one consumer, as one of its workers gets them. Close it.

    Iterating, also with `async for`, takes one trigger after the other and waits for new
    ones. A trigger is held by one live worker at a time, until it is acknowledged, given
    back, or the worker is closed or dead; then any worker may get it, in a new delivery.
    So every trigger is delivered *at least once*, and acknowledged once. Safe for threads.
    """

    def __init__(
        self,
        store: Store,
        deliveries: Deliveries,
        patience: Patience,
        clock: Callable[[], datetime],
        check_usable: Callable[[], None],
        *,
        begin: Begin,
        follow: bool,
        tell: Tell,
    ) -> None:
        self._store = store
        self._deliveries = deliveries
        self._patience = patience
        self._clock = clock
        self._check_usable = check_usable
        self._follow = follow
        self._tell = tell
        self._process = os.getpid()
        self._held: set[Place] = set()
        self._joined: dict[Place, Joined] = {}
        # Guards the two above; whoever has it waits for nothing.
        self._lock = Lock()
        self._taking = Lock()
        # Whether a trigger may have been taken that nobody was told of.
        self._in_doubt = False
        self._taker = ThreadPoolExecutor(1, "alloc-es takes")
        self._closed = Event()
        self._left = False
        self._bell = Bell()
        self._trouble = Trouble(f"triggers of {self.consumer}", tell)
        after = 0 if begin == "beginning" else patience.insist(store.decisions.end)
        patience.insist(lambda: deliveries.begin(after, clock()))
        self._threads = [Thread(target=self._beat, name="alloc-es beats", daemon=True)]
        if follow:
            self._threads.append(Thread(target=self._hear, name="alloc-es hears", daemon=True))
        for thread in self._threads:
            thread.start()

    @property
    def consumer(self) -> str:
        """Whose triggers they are."""
        return self._deliveries.consumer

    def __iter__(self) -> Iterator[Trigger]:
        return self

    def __next__(self) -> Trigger:
        """The next trigger. Raises `StoreUnavailable` where it can't be had in time."""
        while True:
            ring = self._bell.coming()
            found = self._look()
            if isinstance(found, Trigger):
                return found
            if found is None:
                raise StopIteration
            self._closed.wait(_REST)
            self._bell.wait(ring, found)

    def __aiter__(self) -> AsyncIterator[Trigger]:
        return self

    async def __anext__(self) -> Trigger:
        """The next trigger, without blocking the event loop."""
        while True:
            ring = self._bell.coming()
            found = await self._look_beside()
            if isinstance(found, Trigger):
                return found
            if found is None:
                raise StopAsyncIteration
            await asyncio.sleep(_REST)
            await self._bell.hear(ring, found)

    def acknowledge(self, trigger: Trigger, *, connection: Any = None) -> None:
        """Say that a trigger is dealt with: it is not delivered again. *Idempotent*.

        With a psycopg `connection` to the store's PostgreSQL database it becomes part of
        the transaction that is open there: it counts when that is committed, together with
        what else it did, so that effects in that database are exactly once. Then it is not
        idempotent: what was acknowledged before is refused, as its effects are there. For a
        store in a SQLite file, a `sqlite3` connection to it does the same.

        Raises `TriggerLost` where this worker no longer holds the trigger: roll back. After
        `StoreUnavailable` it may be acknowledged or not: say it again, or let it come again.
        """
        self._check_usable()
        place = trigger.position, trigger.attempt
        if connection is None:
            done = self._patience.insist(lambda: self._deliveries.acknowledge(place, self._clock()))
        else:
            done = self._acknowledge_in(self._store.desk.joined(connection), place)
        if connection is None:
            self._forget(place)
        if not done:
            raise TriggerLost(self.consumer, trigger.position)

    async def aacknowledge(self, trigger: Trigger) -> None:
        """As `acknowledge`, without blocking the event loop."""
        await asyncio.to_thread(self.acknowledge, trigger)

    def release(self, trigger: Trigger) -> None:
        """Give a trigger back, for this worker or another one to get again."""
        self._check_usable()
        place = trigger.position, trigger.attempt
        self._patience.insist(lambda: self._deliveries.release(place))
        self._forget(place)
        self._bell.ring()

    def close(self) -> None:
        """Give back what is not acknowledged. Closing twice is allowed."""
        if self._left or os.getpid() != self._process:
            return
        with self._lock:
            self._closed.set()
        self._bell.ring()
        for thread in self._threads:
            thread.join()
        self._taker.shutdown()
        # What can't be given back now is free when the lease is over.
        with self._taking, suppress(StoreUnavailable):
            deadline = self._patience.monotonic() + _GOODBYE
            self._patience.insist(self._deliveries.leave, deadline)
        self._left = True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await asyncio.to_thread(self.close)

    def _look(self) -> Trigger | float | None:
        """The next trigger; else after how many seconds to look again, None at the end."""
        self._check_usable()
        try:
            found = self._patience.insist(self._take)
        except StoreUnavailable as error:
            if not (self._follow and error.retryable):
                raise
            return self._trouble.met(error)
        self._trouble.over()
        return found

    async def _look_beside(self) -> Trigger | float | None:
        """The same in a thread of its own: those of the event loop are for the handlers."""
        self._check_usable()
        with self._lock:
            if self._closed.is_set():
                return None
            looking = self._taker.submit(self._look)
        try:
            return await asyncio.wrap_future(looking)
        except asyncio.CancelledError:
            looking.add_done_callback(self._put_back)
            raise

    def _put_back(self, looking: "Future[Trigger | float | None]") -> None:
        """Hand out again what came for a task that was cancelled."""
        if looking.cancelled() or looking.exception() is not None:
            return
        late = looking.result()
        with self._lock:
            if isinstance(late, Trigger) and not self._closed.is_set():
                self._taker.submit(self._put_back_now, (late.position, late.attempt))

    def _put_back_now(self, place: Place) -> None:
        with self._taking:
            self._forget(place)
            self._in_doubt = True
            # Where it can't be put back, this worker's next look finds it.
            with suppress(StoreUnavailable):
                self._patience.insist(lambda: self._deliveries.put_back(place))
        self._bell.ring()

    def _take(self) -> Trigger | float | None:
        with self._taking:
            if self._closed.is_set():
                return None
            self._settle()
            failure = self._deliveries.scan()
            self._deliveries.look(self._patience.monotonic)
            # Before it is looked what is free: what is given back in between is found then.
            undecided = not self._follow and self._deliveries.undecided()
            trigger = self._untold() or self._take_free()
            if trigger is not None:
                return trigger
            if failure is not None:
                raise failure
            if self._follow:
                return POLL
            return _WATCH_OTHERS if undecided else None

    def _settle(self) -> None:
        """Give back what a caller's transaction was to acknowledge, and has not."""
        with self._lock:
            ended = [each for each in self._joined.items() if not each[1].is_open()]
        for place, caller in ended:
            # The server may not have noticed yet: a later look settles it.
            with suppress(StoreUnavailable):
                self._deliveries.settle(place)
                with self._lock:
                    if self._joined.get(place) is caller:
                        del self._joined[place]
                        self._held.discard(place)

    def _untold(self) -> Trigger | None:
        """One that was taken and not told, as the answer was lost, or a Ctrl-C came."""
        if not self._in_doubt:
            return None
        with self._lock:
            told = set(self._held)
        for delivery in self._deliveries.mine():
            if delivery.place not in told:
                trigger = read_trigger(self._store, delivery)
                self._hold(delivery.place)
                return trigger
        self._in_doubt = False
        return None

    def _take_free(self) -> Trigger | None:
        self._in_doubt = True
        trigger = self._deliveries.take(partial(read_trigger, self._store))
        if trigger is not None:
            self._hold((trigger.position, trigger.attempt))
        self._in_doubt = False
        return trigger

    def _acknowledge_in(self, caller: Joined, place: Place) -> bool:
        """Until the caller's transaction has ended the trigger stays held; it may be undone."""
        with self._lock:
            self._joined[place] = caller
        return self._deliveries.acknowledge_in(caller, place, self._clock())

    def _hold(self, place: Place) -> None:
        with self._lock:
            self._held.add(place)

    def _forget(self, place: Place) -> None:
        with self._lock:
            self._held.discard(place)
            self._joined.pop(place, None)

    def _is_over(self) -> bool:
        """Whether it was closed, or the connection that it was made by."""
        try:
            self._check_usable()
        except StoreUnavailable:
            return True
        return self._closed.is_set()

    def _beat(self) -> None:
        """Several times in a lease, say that it lives, if it holds anything."""
        trouble = Trouble(f"worker of {self.consumer}", self._tell)
        regular = self._deliveries.lease / _BEATS
        pause = regular
        while not (self._closed.wait(pause) or self._is_over()):
            pause = regular
            try:
                if self._held:
                    self._deliveries.beat()
                trouble.over()
            except StoreUnavailable as error:
                pause = min(regular, trouble.met(error))

    def _hear(self) -> None:
        trouble = Trouble(f"new triggers of {self.consumer}", self._tell)
        hear(self._store, self._bell.ring, self._is_over, self._closed.wait, trouble)
