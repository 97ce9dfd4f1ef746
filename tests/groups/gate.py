"""Stands in front of a connection's recorder of runs: counts groups, holds them, breaks them."""

import sqlite3
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from threading import Condition
from typing import Any

import psycopg
from eventsourcing.persistence import IntegrityError

from alloc_es import Allocations
from alloc_es.drill.link import Loss
from alloc_es.errors import AnswerLost
from alloc_es.store.recorder import RunGroup

_PATIENCE_SECONDS = 60.0


class Gate:
    """What every group of one connection passes on its way to the store.

    `groups` holds the names of the runs' streams of each that came here, `asked` the number
    of runs that callers have put into the line.
    """

    def __init__(self, allocations: Allocations) -> None:
        recorder: Any = allocations._store.runs.recorder
        writer: Any = allocations._ledger.spawner._writer
        self._genuine = recorder.insert_runs
        self._submit = writer.submit
        recorder.insert_runs = self._pass
        writer.submit = self._ask
        self._changed = Condition()
        self._time_runs_from = 0
        self._held = False
        self._let = 0
        self._faults: list[Callable[..., Any]] = []
        self.groups: list[list[str]] = []
        self.asked = 0

    @property
    def sizes(self) -> list[int]:
        """How many runs each group held."""
        return [len(group) for group in self.groups]

    @contextmanager
    def closed(self) -> Iterator[None]:
        """Hold every group that comes until the end of the block."""
        self._hold(held=True)
        try:
            yield
        finally:
            self._hold(held=False)

    def let_time_run_from(self, groups: int) -> None:
        """Let no time run for those who get into the line until so many groups came here.

        So it is the test that says what they live to see, and not the speed of the machine.
        """
        with self._changed:
            self._time_runs_from = groups

    def let_one_pass(self) -> None:
        """Let one group go on though the gate is closed."""
        with self._changed:
            self._let += 1
            self._changed.notify_all()

    def await_groups(self, count: int) -> None:
        """Return once so many groups have come here."""
        self._await(lambda: len(self.groups) >= count, f"{count} groups came")

    def await_asked(self, count: int) -> None:
        """Return once callers have put so many runs into the line."""
        self._await(lambda: self.asked >= count, f"{count} runs were asked for")

    def await_call(self, call: Future[Any], asked: int) -> None:
        """Return once so many runs were asked for, or a call has ended without asking."""
        call.add_done_callback(self._tell)
        self._await(lambda: self.asked >= asked or call.done(), f"{asked} runs were asked for")

    def fail(self, error: Exception) -> None:
        """Have the next group end with an error before it reaches the store."""

        def raise_(*_: Any) -> Any:
            raise error

        self._faults.append(raise_)

    def lose(self, loss: Loss, meanwhile: Callable[[], object] = lambda: None) -> None:
        """Lose the next group on its way, or the store's answer to it."""

        def lost(*arguments: Any) -> Any:
            if loss == "reply":
                # That a run is known is an answer as well.
                with suppress(IntegrityError):
                    self._genuine(*arguments)
            meanwhile()
            raise AnswerLost(f"the {loss} was lost")

        self._faults.append(lost)

    def _pass(self, group: RunGroup, *more: Any) -> Any:
        with self._changed:
            self.groups.append(list(group.streams))
            self._changed.notify_all()
            self._await(lambda: not self._held or self._let > 0, "the gate was opened")
            self._let -= self._held
        record = self._faults.pop(0) if self._faults else self._genuine
        return record(group, *more)

    def _ask(self, allotments: Any, *more: Any) -> Any:
        batch = self._submit(allotments, *more)
        with self._changed:
            self.asked += len(allotments)
            self._changed.notify_all()
            self._await(lambda: len(self.groups) >= self._time_runs_from, "time ran")
        return batch

    def _hold(self, *, held: bool) -> None:
        with self._changed:
            self._held = held
            self._let = 0
            self._changed.notify_all()

    def _tell(self, _: Future[Any]) -> None:
        with self._changed:
            self._changed.notify_all()

    def _await(self, holds: Callable[[], bool], what: str) -> None:
        with self._changed:
            assert self._changed.wait_for(holds, _PATIENCE_SECONDS), f"it never held that {what}"


@contextmanager
def blocked(url: str, allocations: Allocations) -> Iterator[None]:
    """Hold the lock that whoever records runs needs, as another client may do."""
    match url.partition(":")[0]:
        case "memory":
            recorder: Any = allocations._store.runs.recorder
            with recorder._database_lock:
                yield
        case "sqlite":
            path = url.removeprefix("sqlite:///")
            other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
            other.execute("BEGIN IMMEDIATE")
            try:
                yield
            finally:
                other.close()
        case _:
            server, _, schema = url.rpartition("schema=")
            lock = "SELECT pg_advisory_xact_lock(1634496355, %s::regclass::oid::integer)"
            with psycopg.connect(server[:-1]) as connection:
                connection.execute(lock, (f"{schema}.run_events",))
                yield
