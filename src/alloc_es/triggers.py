"""Triggers: each rejection without a replacement, handed to the workers of a consumer."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from datetime import datetime
from threading import Event, Lock, Thread
from types import TracebackType
from typing import Any, Literal, Self

from alloc_es.clock import Patience
from alloc_es.delivering import Deliveries, Delivery
from alloc_es.errors import StoreUnavailable
from alloc_es.events import ChallengerRejectedWithoutReplacement, DecisionEvent
from alloc_es.following import POLL, Tell, Trouble
from alloc_es.identity import WorkflowKey
from alloc_es.reader_errors import TriggerLost
from alloc_es.store import Recorded, Store
from alloc_es.store.session import Joined

Begin = Literal["beginning", "now"]

LEASE = 10.0
"""Seconds of silence after which a worker counts as dead."""

LONGEST_LEASE = 86_400.0
_BEATS = 4
_HEAR = 0.25


@dataclass(frozen=True, slots=True)
class Trigger:
    """A challenger was rejected and nothing took its slot: generate another.

    `generation` is the one that the rejection made; a challenger registered with it as the
    expected one is refused, without harm, if anything was decided since. `position` is the
    trigger's place in the decision log, and its name: the same in every delivery.
    `remaining` are the challengers that stayed live. `attempt` counts the deliveries to
    this consumer, from 1.
    """

    key: WorkflowKey
    version: str
    reason: str
    actor: str
    generation: int
    position: int
    remaining: tuple[str, ...]
    time: datetime
    attempt: int

    @property
    def tenant_id(self) -> str:
        """The tenant whose challenger was rejected."""
        return self.key.tenant_id

    @property
    def workflow_id(self) -> str:
        """The workflow whose challenger was rejected."""
        return self.key.workflow_id


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
        *,
        begin: Begin,
        follow: bool,
        tell: Tell,
    ) -> None:
        self._store = store
        self._deliveries = deliveries
        self._patience = patience
        self._clock = clock
        self._follow = follow
        self._tell = tell
        self._held: set[int] = set()
        self._joined: dict[int, Joined] = {}
        self._lock = Lock()
        self._closed = Event()
        self._bell = Event()
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
        trigger = self._next(Event())
        if trigger is None:
            raise StopIteration
        return trigger

    def __aiter__(self) -> AsyncIterator[Trigger]:
        return self

    async def __anext__(self) -> Trigger:
        """The next trigger, without blocking the event loop."""
        abandoned = Event()
        waiting = asyncio.get_running_loop().run_in_executor(None, self._next, abandoned)
        try:
            trigger = await asyncio.shield(waiting)
        except asyncio.CancelledError:
            abandoned.set()
            self._bell.set()
            waiting.add_done_callback(self._put_back)
            raise
        if trigger is None:
            raise StopAsyncIteration
        return trigger

    def acknowledge(self, trigger: Trigger, *, connection: Any = None) -> None:
        """Say that a trigger is dealt with: it is not delivered again. *Idempotent*.

        With a psycopg `connection` to the store's PostgreSQL database it becomes part of
        the transaction that is open there: it counts when that is committed, together with
        what else it did, so that effects in that database are exactly once.

        Raises `TriggerLost` where this worker no longer holds the trigger: roll back.
        """
        if connection is None:
            done = self._patience.insist(lambda: self._acknowledge(trigger))
            self._forget(trigger)
        else:
            done = self._acknowledge_in(self._store.desk.joined(connection), trigger)
        if not done:
            raise TriggerLost(self.consumer, trigger.position)

    async def aacknowledge(self, trigger: Trigger) -> None:
        """As `acknowledge`, without blocking the event loop."""
        await asyncio.to_thread(self.acknowledge, trigger)

    def release(self, trigger: Trigger) -> None:
        """Give a trigger back, for this worker or another one to get again."""
        self._patience.insist(lambda: self._deliveries.release(trigger.position))
        self._forget(trigger)

    def close(self) -> None:
        """Give back what is not acknowledged. Closing twice is allowed."""
        if self._closed.is_set():
            return
        self._closed.set()
        self._bell.set()
        for thread in self._threads:
            thread.join()
        # What can't be given back now is free when the lease is over.
        with suppress(StoreUnavailable):
            self._deliveries.leave()

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

    def _next(self, abandoned: Event) -> Trigger | None:
        trouble = Trouble(f"triggers of {self.consumer}", self._tell)
        while not self._closed.is_set() and not abandoned.is_set():
            self._bell.clear()
            try:
                trigger = self._patience.insist(self._take)
                trouble.over()
            except StoreUnavailable as error:
                if not (self._follow and error.retryable):
                    raise
                self._closed.wait(trouble.met(error))
                continue
            if trigger is not None or not self._follow:
                return trigger
            self._bell.wait(POLL)
        return None

    def _take(self) -> Trigger | None:
        with self._lock:
            for position in [p for p, caller in self._joined.items() if not caller.is_open()]:
                del self._joined[position]
                self._held.discard(position)
            self._deliveries.scan()
            # One that was taken while the answer was lost is not told twice, nor forgotten.
            unknown = (d for d in self._deliveries.mine() if d.position not in self._held)
            delivery = next(unknown, None) or self._deliveries.take()
            trigger = self._read(delivery) if delivery else None
            if trigger is not None:
                self._held.add(trigger.position)
        return trigger

    def _put_back(self, waiting: "asyncio.Future[Trigger | None]") -> None:
        """Hand out again what came for a task that was cancelled."""
        if not waiting.cancelled() and not waiting.exception() and (late := waiting.result()):
            self._forget(late)

    def _read(self, delivery: Delivery) -> Trigger:
        key = WorkflowKey.parse(delivery.tenant_id, delivery.workflow_id)
        found: Recorded[DecisionEvent] | None
        found = self._store.decisions.at(key.stream, delivery.generation)
        if found is None or not isinstance(found.event, ChallengerRejectedWithoutReplacement):
            problem = f"{self._store.where} has no rejection at generation {delivery.generation}"
            raise StoreUnavailable(f"{problem} of {key}: it was restored", retryable=False)
        event = found.event
        return Trigger(
            key=key,
            version=event.version,
            reason=event.reason,
            actor=event.actor,
            generation=event.generation,
            position=delivery.position,
            remaining=event.allocation.challengers,
            time=event.recorded_at,
            attempt=delivery.attempts,
        )

    def _acknowledge(self, trigger: Trigger) -> bool:
        with self._store.desk.writing() as session:
            return self._deliveries.acknowledge(trigger.position, self._clock(), session)

    def _acknowledge_in(self, caller: Joined, trigger: Trigger) -> bool:
        """Until the caller's transaction has ended the trigger stays held; it may be undone."""
        position = trigger.position
        with self._lock:
            self._joined[position] = caller
        return self._deliveries.acknowledge(position, self._clock(), caller.session, caller.schema)

    def _forget(self, trigger: Trigger) -> None:
        with self._lock:
            self._held.discard(trigger.position)

    def _beat(self) -> None:
        """Several times in a lease, say that it lives, and look at who does not."""
        trouble = Trouble(f"triggers of {self.consumer}", self._tell)
        while not self._closed.wait(self._deliveries.lease / _BEATS):
            try:
                if self._held:
                    self._deliveries.beat()
                self._deliveries.free_the_dead(self._patience.monotonic())
                trouble.over()
            except StoreUnavailable as error:
                trouble.met(error)

    def _hear(self) -> None:
        trouble = Trouble(f"triggers of {self.consumer}", self._tell)
        while not self._closed.is_set():
            try:
                with closing(self._store.watch()) as watch:
                    trouble.over()
                    self._bell.set()
                    while not self._closed.is_set():
                        if watch.wait(_HEAR):
                            self._bell.set()
            except StoreUnavailable as error:
                self._closed.wait(trouble.met(error))
