"""The launcher: starts participants, watches over them, and leaves none behind."""

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from threading import Lock
from types import MappingProxyType, TracebackType
from typing import Self, assert_never, get_args

from alloc_es.app import DEFAULT_TIMEOUT, Allocations, connect
from alloc_es.arguments import parse_count
from alloc_es.clock import new_id
from alloc_es.errors import InvalidSetting
from alloc_es.harness.budget import THREADS_PER_CORE, Budget, physical_cores
from alloc_es.harness.errors import AlreadyStarted, ParticipantEnded, UnknownParticipant
from alloc_es.harness.looking import settled_in_log
from alloc_es.harness.outcomes import Outcome
from alloc_es.harness.participant import Participant
from alloc_es.harness.protocol import Opening
from alloc_es.harness.roles import Identity, Request
from alloc_es.harness.runners import Mode, ProcessRunner, Runner, Runtime, TaskRunner, ThreadRunner
from alloc_es.harness.watchdog import Watchdog
from alloc_es.wording import shown

OPENER = "alloc_es.store:open_store"

_MOST_THREADS = 10_000


class Launcher:
    """Runs participants on one store, in any of three modes; safe for threads.

    `threads` is how many all of them may have together, by default four for each physical
    core. `timeout` and `max_challengers` are those of their connections. Close it, or use
    it in a `with` statement: every participant ends with it, also when its process dies.
    """

    def __init__(
        self,
        url: str,
        *,
        threads: int | None = None,
        timeout: float = DEFAULT_TIMEOUT,
        max_challengers: int = 1,
        start_within: float = 60.0,
        opener: str = OPENER,
        new_id: Callable[[], str] = new_id,
    ) -> None:
        budget = physical_cores() * THREADS_PER_CORE if threads is None else threads
        parse_count("threads", budget, _MOST_THREADS)
        self._budget = Budget(budget)
        self._url = url
        self._opener = opener
        self._timeout = timeout
        self._max_challengers = max_challengers
        self._start_within = start_within
        self._new_id = new_id
        self._lock = Lock()
        self._participants: dict[str, Participant] = {}
        self._runtime: Runtime | None = None
        self._watchdog: Watchdog | None = None
        self._starting: set[str] = set()
        self.allocations: Allocations = connect(
            url, actor="launcher", timeout=timeout, max_challengers=max_challengers
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def participants(self) -> Mapping[str, Participant]:
        """Those that were started, by name, in their newest incarnation; also the ended ones."""
        with self._lock:
            return MappingProxyType(dict(self._participants))

    @property
    def budget(self) -> Budget:
        """The threads there are, and who has them."""
        return self._budget

    def start(
        self,
        name: str,
        role: str,
        tenants: Iterable[str],
        *,
        mode: Mode = "process",
        threads: int = 1,
    ) -> Participant:
        """Start a participant, and wait until it is ready.

        It carries out up to `threads` requests at a time. Raises `AlreadyStarted`,
        `ThreadBudgetSpent`, `ParticipantNotStarted`, `InvalidSetting`,
        `InvalidIdentifier` and `StoreUnavailable`.
        """
        identity = Identity.parse(name, role, tenants)
        parse_count("threads", threads, _MOST_THREADS)
        if mode not in get_args(Mode):
            raise InvalidSetting("mode", f"{shown(mode)} is none of {', '.join(get_args(Mode))}")
        with self._claimed(identity.name, threads):
            started = self._started(identity, mode, threads)
            with self._lock:
                self._participants[identity.name] = started
        return started

    def participant(self, name: str) -> Participant:
        """Who was started under a name; raises `UnknownParticipant`."""
        found = self.participants.get(name)
        if found is None:
            raise UnknownParticipant(name, self.participants)
        return found

    def call(self, name: str, request: Request, *, request_id: str | None = None) -> Outcome:
        """Ask a participant, and wait for what becomes of it; see `Participant.settle`.

        Raises `UnknownParticipant`, `NotAuthorised` and `ParticipantEnded`, and then nothing
        was sent.
        """
        return self.participant(name).call(request, request_id=request_id)

    def restart(self, name: str, reason: str, *, within: float = 10.0) -> Participant:
        """End a participant and start it as a new incarnation.

        Raises `ParticipantEnded` when a task did not end within so many seconds: it shares
        its launcher's connection, where the store can't tell it from its successor.
        """
        old = self.participant(name)
        threads = self._budget.given.get(name, 1)
        if not old.stop(reason, within=within) and old.mode == "in_process":
            raise ParticipantEnded(name, old.incarnation.number, f"{reason}, and it still works")
        identity = old.identity
        return self.start(name, identity.role, identity.tenants, mode=old.mode, threads=threads)

    def stop(self, name: str, reason: str, *, within: float = 10.0) -> None:
        """Let a participant finish what is under way and end; its threads are free again."""
        self.participant(name).stop(reason, within=within)
        self._budget.give_back(name)

    def close(self) -> None:
        """End every participant, and give the connection back. Closing twice is allowed."""
        for name in self.participants:
            self.stop(name, "the launcher was closed")
        if self._watchdog:
            self._watchdog.close()
            self._watchdog = None
        if self._runtime:
            self._runtime.close()
            self._runtime = None
        self.allocations.close()

    @contextmanager
    def _claimed(self, name: str, threads: int) -> Iterator[None]:
        """Keep a name and its threads for one start; a failed one gives them back."""
        with self._lock:
            running = self._participants.get(name)
            if name in self._starting or (running and running.ended is None):
                raise AlreadyStarted(name, running.incarnation.number if running else None)
            self._budget.give_back(name)
            self._budget.take(name, threads)
            self._starting.add(name)
        try:
            yield
        except BaseException:
            self._budget.give_back(name)
            raise
        finally:
            with self._lock:
                self._starting.discard(name)

    def _started(self, identity: Identity, mode: Mode, threads: int) -> Participant:
        incarnation = self.allocations.new_incarnation(identity.name)
        opening = Opening(
            identity,
            incarnation,
            self._url,
            self._opener,
            self._timeout,
            self._max_challengers,
            threads,
        )
        ours, theirs = Pipe()
        runner = self._runner(mode, theirs, opening)
        if mode == "process":
            ours.send(sys.path)
            ours.send(opening)
        look = partial(settled_in_log, self.allocations, incarnation)
        participant = Participant(identity, incarnation, mode, ours, runner, look, self._new_id)
        participant.await_up(self._start_within)
        return participant

    def _runner(self, mode: Mode, theirs: Connection, opening: Opening) -> Runner:
        with self._lock:
            match mode:
                case "process":
                    self._watchdog = self._watchdog or Watchdog()
                    return ProcessRunner(theirs, self._watchdog)
                case "thread":
                    return ThreadRunner(theirs, opening)
                case "in_process":
                    self._runtime = self._runtime or Runtime()
                    return TaskRunner(theirs, opening, self.allocations, self._runtime.loop)
                case _:
                    assert_never(mode)
