"""Schedulers that race for the same generation, and an account of who won and who overlapped."""

import multiprocessing
import queue
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

from alloc_es.allocation import Allocation
from alloc_es.app import connect
from alloc_es.errors import GenerationConflict
from alloc_es.workflow import Workflow

Launch = Literal["process", "thread"]

_PATIENCE_SECONDS = 60.0
_SHARES = 9_000


@dataclass(frozen=True, slots=True)
class Attempt:
    """One scheduler's try at one round's generation, and the commit that followed a loss.

    `began` and `ended` are nanoseconds of the system's monotonic clock around the try.
    `actual` and `winner` are what the conflict said, None for the one who won;
    `lost_at_commit` that the store and not the check before it decided. `generation` is
    the one that the scheduler made in the end.
    """

    round: int
    scheduler: str
    expected: int
    began: int
    ended: int
    actual: int | None
    winner: str | None
    lost_at_commit: bool
    generation: int

    @property
    def won(self) -> bool:
        """Whether the first try was let through."""
        return self.actual is None


@dataclass(frozen=True, slots=True)
class Race:
    """All attempts of a race, by round and scheduler."""

    attempts: tuple[Attempt, ...]

    @property
    def rounds(self) -> list[tuple[Attempt, ...]]:
        """The attempts of each round."""
        count = 1 + max((attempt.round for attempt in self.attempts), default=-1)
        return [tuple(a for a in self.attempts if a.round == number) for number in range(count)]

    @property
    def wins(self) -> dict[str, int]:
        """How many rounds each scheduler won."""
        names = sorted({attempt.scheduler for attempt in self.attempts})
        return {name: sum(a.won for a in self.attempts if a.scheduler == name) for name in names}

    @property
    def conflicts(self) -> int:
        """How many tries were told that another one had won."""
        return sum(not attempt.won for attempt in self.attempts)

    @property
    def overlapped(self) -> int:
        """In how many rounds every try began before any had ended."""
        return sum(
            max(a.began for a in attempts) < min(a.ended for a in attempts)
            for attempts in self.rounds
        )


def race(
    url: str,
    tenant_id: str,
    workflow_id: str,
    *,
    rounds: int,
    schedulers: Sequence[str] = ("scheduler-a", "scheduler-b"),
    launch: Launch = "process",
    on_round: Callable[[int], None] = lambda _: None,
) -> Race:
    """Let schedulers, each with a connection of its own, race on one live challenger's share.

    In every round all read the generation, wait for each other, and commit different
    shares on the generation they read; who loses commits again on the one it was told.
    `on_round` is called with the number of rounds done. Raises `RuntimeError` when a
    scheduler fails.
    """
    context: Any = multiprocessing.get_context("spawn") if launch == "process" else threading
    outbox: Any = context.Queue() if launch == "process" else queue.Queue()
    barrier = context.Barrier(len(schedulers), timeout=_PATIENCE_SECONDS)
    runner = context.Process if launch == "process" else context.Thread
    runners = [
        runner(
            target=_compete,
            args=(url, tenant_id, workflow_id, rounds, tuple(schedulers), index, barrier, outbox),
            daemon=True,
        )
        for index in range(len(schedulers))
    ]
    with _interrupts_kept_from_children():
        for each in runners:
            each.start()
    try:
        attempts = _collect(outbox, rounds, len(schedulers), on_round)
    except BaseException:
        _end(runners, barrier)
        raise
    for each in runners:
        each.join(_PATIENCE_SECONDS)
    return Race(tuple(sorted(attempts, key=lambda a: (a.round, a.scheduler))))


def _end(runners: Sequence[Any], barrier: Any) -> None:
    """End the schedulers in mid-race."""
    for each in runners:
        if isinstance(each, threading.Thread):
            barrier.abort()
        else:
            # No barrier of processes is touched: one of them may have died with its lock.
            each.terminate()
    for each in runners:
        each.join(_PATIENCE_SECONDS)


@contextmanager
def _interrupts_kept_from_children() -> Iterator[None]:
    """Let children inherit a deaf ear for Ctrl-C, which a terminal sends to all of them."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    handler = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)


def _collect(
    outbox: Any, rounds: int, schedulers: int, on_round: Callable[[int], None]
) -> list[Attempt]:
    attempts: list[Attempt] = []
    while len(attempts) < rounds * schedulers:
        try:
            message = outbox.get(timeout=_PATIENCE_SECONDS)
        except queue.Empty:
            raise RuntimeError("a scheduler went silent") from None
        if not isinstance(message, Attempt):
            raise RuntimeError(message)
        attempts.append(message)
        if len(attempts) % schedulers == 0:
            on_round(len(attempts) // schedulers)
    return attempts


def _compete(
    url: str,
    tenant_id: str,
    workflow_id: str,
    rounds: int,
    schedulers: tuple[str, ...],
    index: int,
    barrier: Any,
    outbox: Any,
) -> None:
    name = schedulers[index]
    try:
        with connect(url, actor=name, migrate=False) as allocations:
            workflow = allocations.workflow(tenant_id, workflow_id)
            for number in range(rounds):
                share = 1 + (number * len(schedulers) + index) % _SHARES
                before = workflow.allocation()
                barrier.wait()
                outbox.put(_attempt(workflow, name, number, before, share))
                barrier.wait()
    except Exception as error:  # noqa: BLE001 - reported to the parent, whatever it is
        barrier.abort()
        outbox.put(f"{name}: {type(error).__name__}: {error}")


def _attempt(workflow: Workflow, name: str, number: int, before: Allocation, share: int) -> Attempt:
    assert before.challenger is not None
    wish: dict[str, int] = {before.challenger: share}
    conflict: GenerationConflict | None = None
    began = time.monotonic_ns()
    try:
        generation = workflow.commit_allocation(
            wish, expected_generation=before.generation
        ).generation
        ended = time.monotonic_ns()
    except GenerationConflict as error:
        ended = time.monotonic_ns()
        conflict = error
        generation = _commit_after(workflow, wish, error)
    return Attempt(
        round=number,
        scheduler=name,
        expected=before.generation,
        began=began,
        ended=ended,
        actual=conflict.actual if conflict else None,
        winner=conflict.winner.actor if conflict and conflict.winner else None,
        lost_at_commit=conflict is not None and conflict.lost_at_commit,
        generation=generation,
    )


def _commit_after(workflow: Workflow, wish: dict[str, int], conflict: GenerationConflict) -> int:
    """Commit on the generation that a conflict named, as often as others come first again."""
    while True:
        try:
            committed = workflow.commit_allocation(wish, expected_generation=conflict.actual)
        except GenerationConflict as error:
            conflict = error
        else:
            return committed.generation
