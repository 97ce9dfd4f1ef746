"""The launcher: starts participants, watches over them, and leaves none behind."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from threading import Lock
from types import MappingProxyType, TracebackType
from typing import Self, assert_never, get_args

from alloc_es.app import Allocations
from alloc_es.arguments import parse_count, parse_seconds
from alloc_es.clock import new_id
from alloc_es.connecting import DEFAULT_TIMEOUT, connect
from alloc_es.errors import InvalidSetting
from alloc_es.harness.budget import THREADS_PER_CORE, Budget
from alloc_es.harness.cores import physical_cores
from alloc_es.harness.errors import AlreadyStarted, ParticipantNotStarted, UnknownParticipant
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
_LONGEST_START = 86_400.0


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
        self._start_within = parse_seconds("start_within", start_within, _LONGEST_START)
        self._new_id = new_id
        self._lock = Lock()
        self._participants: dict[str, Participant] = {}
        self._runtime: Runtime | None = None
        self._watchdog: Watchdog | None = None
        self._starting: dict[str, Participant | None] = {}
        self._closed = False
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

    def __repr__(self) -> str:
        where = self.allocations.store
        return f"<Launcher on {where}, {len(self.participants)} participants, {self._budget}>"

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

        It carries out up to `threads` requests at a time; what a request itself begins, as the
        policies of a wave, is not in the budget. Raises `AlreadyStarted`, `ThreadBudgetSpent`,
        `ParticipantNotStarted`, `InvalidSetting`, `InvalidIdentifier` and `StoreUnavailable`,
        and then nothing runs and no threads are taken.
        """
        identity = Identity.parse(name, role, tenants)
        parse_count("threads", threads, _MOST_THREADS)
        if mode not in get_args(Mode):
            raise InvalidSetting("mode", f"{shown(mode)} is none of {', '.join(get_args(Mode))}")
        with self._claimed(identity.name, threads):
            return self._started(identity, mode, threads)

    def participant(self, name: str) -> Participant:
        """Who was started under a name; raises `UnknownParticipant`."""
        participants = self.participants
        if name not in participants:
            ended = [each.name for each in participants.values() if each.ended is not None]
            raise UnknownParticipant(name, participants, ended)
        return participants[name]

    def call(self, name: str, request: Request, *, request_id: str | None = None) -> Outcome:
        """Ask a participant, and wait for what becomes of it; see `Participant.settle`.

        Raises `UnknownParticipant`, and what `Participant.send` does, and then nothing was
        sent.
        """
        return self.participant(name).call(request, request_id=request_id)

    def restart(self, name: str, reason: str, *, within: float = 10.0) -> Participant:
        """End a participant, as `stop` does, and start it as a new incarnation.

        It keeps its threads. A thread or task that has not ended in time can't commit any
        more. Raises `UnknownParticipant`, and what `start` does.
        """
        old = self.participant(name)
        with self._claimed(name, old.threads, old):
            old.stop(reason, within=within)
            return self._started(old.identity, old.mode, old.threads)

    def stop(self, name: str, reason: str, *, within: float = 10.0) -> bool:
        """Let a participant finish what is under way and end; see `Participant.stop`.

        Its threads are free again when it has ended. Raises `UnknownParticipant`.
        """
        return self.participant(name).stop(reason, within=within)

    def close(self, *, within: float = 10.0) -> None:
        """End every participant, and give the connection back. Closing twice is allowed.

        What is under way may take so many seconds; processes that take longer are killed.
        """
        with self._lock:
            self._closed = True
            participants = [*self._participants.values(), *filter(None, self._starting.values())]
            watchdog, self._watchdog = self._watchdog, None
            runtime, self._runtime = self._runtime, None
        deadline = time.monotonic() + within
        for participant in participants:
            participant.ask_to_stop("the launcher was closed")
        for participant in participants:
            participant.await_end(max(0.0, deadline - time.monotonic()))
        if runtime:
            runtime.close(max(0.0, deadline - time.monotonic()))
        if watchdog:
            watchdog.close()
        self.allocations.close()

    @contextmanager
    def _claimed(self, name: str, threads: int, old: Participant | None = None) -> Iterator[None]:
        """Keep a name and its threads for one start, of `old`'s successor or of a new one.

        A start that fails gives them back.
        """
        with self._lock:
            running = self._participants.get(name)
            if name in self._starting:
                raise AlreadyStarted(name, None)
            if running is not old and running is not None and running.ended is None:
                raise AlreadyStarted(name, running.incarnation.number)
            self._budget.take(name, threads)
            self._starting[name] = None
        try:
            yield
        except BaseException:
            self._budget.give_back(name)
            raise
        finally:
            with self._lock:
                del self._starting[name]
                newest = self._participants.get(name)
                if newest and newest.ended is not None:
                    self._budget.give_back(name)

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
        participant = self._launched(opening, mode)
        try:
            participant.await_up(self._start_within)
        except BaseException as error:
            participant.stop(f"it did not come up: {type(error).__name__}", within=0)
            raise
        with self._lock:
            self._participants[identity.name] = participant
        return participant

    def _launched(self, opening: Opening, mode: Mode) -> Participant:
        """Start what is not ready yet."""
        name, number = opening.incarnation
        look = partial(settled_in_log, self.allocations, opening.incarnation)
        with self._lock:
            if self._closed:
                raise ParticipantNotStarted(name, number, "the launcher was closed")
            try:
                ours, runner = self._running(mode, name)
            except OSError as error:
                raise ParticipantNotStarted(name, number, f"no room for it: {error}") from error
            participant = Participant(
                opening, mode, ours, runner, look, self._new_id, self._note_end
            )
            self._starting[name] = participant
        return participant

    def _running(self, mode: Mode, name: str) -> tuple[Connection, Runner]:
        """Our end of a pipe, and what serves the other one."""
        ours, theirs = Pipe()
        try:
            return ours, self._runner(mode, theirs, name)
        except BaseException:
            ours.close()
            theirs.close()
            raise

    def _note_end(self, ended: Participant) -> None:
        """Take the threads of one that has ended back, unless its successor has them."""
        with self._lock:
            if self._participants.get(ended.name) is ended and ended.name not in self._starting:
                self._budget.give_back(ended.name)

    def _runner(self, mode: Mode, theirs: Connection, name: str) -> Runner:
        match mode:
            case "process":
                self._watchdog = self._watchdog or Watchdog()
                return ProcessRunner(theirs, self._watchdog)
            case "thread":
                return ThreadRunner(theirs, name)
            case "in_process":
                self._runtime = self._runtime or Runtime()
                return TaskRunner(theirs, self._runtime.loop)
            case _:
                assert_never(mode)
