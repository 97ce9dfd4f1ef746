"""From a command to the store: load, decide, append, and settle what became of it."""

from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from threading import Lock
from typing import NamedTuple

from eventsourcing.persistence import RecordConflictError

from alloc_es.allocation import Allocation
from alloc_es.clock import Patience
from alloc_es.commands import Command, Envelope
from alloc_es.decider import decide, evolve, is_outcome_of
from alloc_es.errors import (
    AnswerLost,
    CommandIdReused,
    GenerationConflict,
    OutcomeUnknown,
    Refusal,
    StoreUnavailable,
)
from alloc_es.events import DecisionEvent, Recorded
from alloc_es.identity import WorkflowKey
from alloc_es.scheduler_errors import DecisionInsidePolicy, IncarnationSuperseded
from alloc_es.store.log import EventLog

MAX_ATTEMPTS = 100
"""How often a command without an expected generation is decided before it gives up."""


@dataclass(slots=True)
class Asking:
    """A policy that is being asked for a workflow, until it has answered: `over`."""

    key: WorkflowKey
    over: bool = False


ASKED_FOR: ContextVar[Asking | None] = ContextVar("asked_for", default=None)
"""Which policy's context this is; it may not decide while it is being asked."""

_TURNS = 64


@dataclass(frozen=True, slots=True)
class Committed:
    """What became of a command.

    `event` is None when the wish held already and nothing was appended; `generation` and
    `allocation` are then those that were found. `replayed` says that an earlier call with
    the same command id had done it. `attempts` counts the times that this call decided.
    """

    generation: int
    allocation: Allocation
    event: DecisionEvent | None
    attempts: int
    replayed: bool


@dataclass(frozen=True, slots=True)
class Order:
    """A command on its way: what, on which key, in which envelope, on what expectation.

    `sent_before` says that the command id may have been used by an earlier call.
    """

    key: WorkflowKey
    command: Command
    envelope: Envelope
    expected: int | None
    sent_before: bool


class Committer:
    """Carries commands out against the decision log; safe for threads."""

    def __init__(
        self,
        log: EventLog[DecisionEvent],
        patience: Patience,
        learn: Callable[[Recorded[DecisionEvent], float], None],
    ) -> None:
        self._log = log
        self._patience = patience
        self._learn = learn
        # One command in flight per key and process: those of one process that would only
        # make each other lose wait here instead. Keys share a fixed number of locks.
        self._turns = [Lock() for _ in range(_TURNS)]

    def commit(self, order: Order) -> Committed:
        """Carry out a command; *atomic*, and *idempotent* by its command id.

        Raises a `Refusal`, `GenerationConflict`, `IncarnationSuperseded`, `StoreUnavailable`
        or `OutcomeUnknown`.
        """
        asking = ASKED_FOR.get()
        if asking is not None and not asking.over:
            raise DecisionInsidePolicy(order.key, asking.key)
        deadline = self._patience.deadline()
        turn = self._turns[hash(order.key) % _TURNS]
        if not turn.acquire(timeout=self._patience.timeout):
            waited = f"{self._patience.timeout:g} s"
            raise StoreUnavailable(
                f"other commands of this process kept the one on {order.key} waiting for {waited}"
            )
        try:
            return self._commit(order, deadline)
        finally:
            turn.release()

    def _commit(self, order: Order, deadline: float) -> Committed:
        begun = self._patience.monotonic()
        attempts = 0
        in_time = True
        while True:
            # Before the look for the command id: if its twin commits in between, the append
            # finds out; the other way round it would be taken for somebody else's.
            newest = self._newest(order.key, deadline)
            if newest:
                self._learn(newest, begun)
            if attempts or order.sent_before:
                earlier = self._earlier(order, deadline)
                if earlier:
                    return _replayed(earlier.event, order.command, attempts)
            state = evolve(None, newest.event) if newest else None
            found = state.generation if state else 0
            if order.expected is not None and order.expected != found:
                raise self._conflict(order, newest, order.expected, attempts, deadline)
            if attempts == MAX_ATTEMPTS or not in_time:
                raise self._conflict(order, newest, found, attempts, deadline)
            attempts += 1
            event = decide(order.key, state, order.command, order.envelope)
            if event is None:
                assert state is not None
                return Committed(found, state, None, attempts, replayed=False)
            event = event.chained_to(newest)
            place = append(self._log, event, self._patience, deadline)
            if place.ours and place.holder:
                self._learn(place.holder, begun)
                return Committed(event.generation, event.allocation, event, attempts, False)
            # Before the newest state is read, which grows old during a wait. Who expects a
            # generation has lost it and is told at once.
            in_time = order.expected is not None or self._patience.pause(attempts, deadline)

    def _newest(self, key: WorkflowKey, deadline: float) -> Recorded[DecisionEvent] | None:
        return self._patience.insist(lambda: self._log.newest(key.stream), deadline)

    def _earlier(self, order: Order, deadline: float) -> Recorded[DecisionEvent] | None:
        stream, command_id = order.key.stream, order.envelope.command_id
        return self._patience.insist(lambda: self._log.command(stream, command_id), deadline)

    def _conflict(
        self,
        order: Order,
        newest: Recorded[DecisionEvent] | None,
        expected: int,
        attempts: int,
        deadline: float,
    ) -> GenerationConflict:
        refusal = _refusal(order, newest)
        if newest is None and refusal:
            raise refusal
        took = self._patience.insist(lambda: self._log.at(order.key.stream, expected + 1), deadline)
        winner = took or newest
        return GenerationConflict(
            order.key,
            expected=expected,
            actual=newest.generation if newest else 0,
            winner=winner.event if winner else None,
            refusal=refusal,
            lost_at_commit=attempts > 0,
            attempts=attempts,
        )


class Place(NamedTuple):
    """What an append found: the event that its place holds, and whether this call put it there.

    `holder` is None when the place is free and the event's command id is taken.
    """

    holder: Recorded[DecisionEvent] | None
    ours: bool


def append(
    log: EventLog[DecisionEvent], event: DecisionEvent, patience: Patience, deadline: float
) -> Place:
    """Record an event, or find what holds its place.

    An append whose answer was lost is sent again: it can land once only, because its place
    can be taken once only. Raises `StoreUnavailable` or `IncarnationSuperseded` when nothing
    was recorded, `OutcomeUnknown` when that can't be told.
    """
    in_doubt = False
    attempt = 0
    while True:
        try:
            return Place(log.append(event), ours=True)
        except RecordConflictError:
            return _held(log, event, patience, deadline, in_doubt)
        except IncarnationSuperseded:
            # What was sent before is committed by now, or never will be: the successor's
            # number was counted up behind it, or it is refused as this one was.
            if in_doubt and (place := _held(log, event, patience, deadline, in_doubt)).ours:
                return place
            raise
        except StoreUnavailable as error:
            in_doubt = in_doubt or isinstance(error, AnswerLost)
            attempt += 1
            if error.retryable and patience.pause(attempt, deadline):
                continue
            if in_doubt:
                raise _unknown(event, error) from error
            raise


def _held(
    log: EventLog[DecisionEvent],
    event: DecisionEvent,
    patience: Patience,
    deadline: float,
    in_doubt: bool,
) -> Place:
    """What holds the place of an event that may have been sent before."""
    try:
        holder = patience.insist(
            lambda: log.at(event.originator_id, event.originator_version), deadline
        )
    except StoreUnavailable as error:
        if in_doubt:
            raise _unknown(event, error) from error
        raise
    return Place(holder, ours=holder is not None and holder.event == event)


def _refusal(order: Order, newest: Recorded[DecisionEvent] | None) -> Refusal | None:
    """What the rules say to a command on the newest state; None when they let it through."""
    state = newest.event.allocation if newest else None
    try:
        decide(order.key, state, order.command, order.envelope)
    except Refusal as refusal:
        return refusal
    return None


def _replayed(event: DecisionEvent, command: Command, attempts: int) -> Committed:
    if not is_outcome_of(event, command):
        raise CommandIdReused(event)
    return Committed(event.generation, event.allocation, event, attempts, replayed=True)


def _unknown(event: DecisionEvent, error: StoreUnavailable) -> OutcomeUnknown:
    return OutcomeUnknown(event.key, error.problem, command_id=event.command_id)
