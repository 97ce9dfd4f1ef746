"""What serves a participant's requests, the same in every mode."""

import pickle
import time
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from pkgutil import resolve_name
from queue import SimpleQueue
from threading import Lock, Thread
from typing import Any, assert_never

from alloc_es.app import Allocations
from alloc_es.clock import Patience, new_id, utc_now
from alloc_es.committing import Committed
from alloc_es.errors import AllocationError
from alloc_es.events import RunSpawned
from alloc_es.harness.doubt import is_in_doubt
from alloc_es.harness.errors import ParticipantFailed, UnreadableRequest
from alloc_es.harness.outcomes import Done, Refused
from alloc_es.harness.protocol import (
    Answer,
    Ask,
    CheckUp,
    FillDisk,
    Message,
    Opening,
    Probe,
    Reply,
    SetTrap,
    Standing,
    StepClock,
    Stop,
    Vitals,
    packed,
)
from alloc_es.harness.roles import Decide, Pass, Read, Request, Spawn
from alloc_es.harness.traps import Traps
from alloc_es.identity import Actor
from alloc_es.proposals import command_of, parse_proposal
from alloc_es.scheduling import decide_pass
from alloc_es.spawning import SpawnRequest

_KEPT_ANSWERS = 1_000


class Worker:
    """Carries requests out and remembers its answers, so that it can be asked for them again.

    It works on a connection of its own, with its incarnation. `tell` sends a reply and is
    called from many threads.
    """

    def __init__(
        self,
        opening: Opening,
        tell: Callable[[Reply], None],
        peak_rss: Callable[[], int | None] = lambda: None,
    ) -> None:
        self._opening = opening
        self._identity = opening.identity
        self._tell = tell
        self._peak_rss = peak_rss
        self._traps = Traps()
        self._clock_off_by = timedelta()
        self._answers: OrderedDict[str, Answer | None] = OrderedDict()
        self._doubted: set[str] = set()
        self._lock = Lock()
        self._asks: SimpleQueue[Ask | None] = SimpleQueue()
        self._allocations = self._open()
        # Not those of an executor, for which the interpreter waits when it ends: a policy may
        # think for hours.
        self._threads = [
            Thread(target=self._work, name=f"{self._identity.name}-{number}", daemon=True)
            for number in range(opening.threads)
        ]
        for thread in self._threads:
            thread.start()

    def take(self, message: Message) -> bool:
        """See to a message without waiting for it; False for the one that ends the work."""
        match message:
            case Ask():
                if self._is_new(message.request_id):
                    self._asks.put(message)
                else:
                    self._answer_again(message.request_id)
            case Probe():
                self._answer_again(message.request_id)
            case CheckUp():
                rerouted = self._allocations.spawn_counts().rerouted
                self._tell(Vitals(message.number, self._peak_rss(), rerouted))
            case SetTrap():
                self._traps.set(message.point, message.fall)
            case StepClock():
                self._clock_off_by = timedelta(seconds=message.seconds)
            case FillDisk():
                fill_disk(full=message.full)
            case Stop():
                return False
            case _:
                assert_never(message)
        return True

    def end(self) -> None:
        """Finish what is under way, and give the connection back."""
        for _ in self._threads:
            self._asks.put(None)
        for thread in self._threads:
            thread.join()
        self._allocations.close()

    def _open(self) -> Allocations:
        opening = self._opening
        patience = Patience(opening.timeout)
        store = resolve_name(opening.opener)(
            opening.url, patience=patience, migrate=False, incarnation=opening.incarnation
        )
        return Allocations(
            self._traps.around(store),
            actor=Actor(self._identity.name),
            max_challengers=opening.max_challengers,
            cached_workflows=1_000,
            patience=patience,
            clock=self._now,
            new_id=new_id,
        )

    def _now(self) -> datetime:
        return utc_now() + self._clock_off_by

    def _is_new(self, request_id: str) -> bool:
        with self._lock:
            if request_id in self._answers:
                return False
            self._answers[request_id] = None
            return True

    def _answer_again(self, request_id: str) -> None:
        with self._lock:
            heard, answer = request_id in self._answers, self._answers.get(request_id)
        self._tell(answer or Standing(request_id, "working" if heard else "unheard"))

    def _work(self) -> None:
        while (ask := self._asks.get()) is not None:
            self._carry_out(ask)

    def _carry_out(self, ask: Ask) -> None:
        outcome = self._outcome(ask)
        doubted = ask.request_id in self._doubted
        answer = packed(
            self._identity.name,
            ask.request_id,
            outcome,
            in_doubt=is_in_doubt(outcome, doubted_before=doubted),
        )
        self._keep(answer)
        self._traps.pass_by("before answer")
        self._tell(answer)

    def _keep(self, answer: Answer) -> None:
        """Remember an answer; one that is in doubt is found out when it is asked for again."""
        with self._lock:
            if answer.in_doubt:
                self._doubted.add(answer.request_id)
                del self._answers[answer.request_id]
                return
            self._doubted.discard(answer.request_id)
            self._answers[answer.request_id] = answer
            self._answers.move_to_end(answer.request_id)
            if len(self._answers) > _KEPT_ANSWERS:
                del self._answers[next(known for known, kept in self._answers.items() if kept)]

    def _outcome(self, ask: Ask) -> Done | Refused:
        began = time.monotonic_ns()
        try:
            request = self._read(ask)
            self._identity.authorise(request)
            answer = self._done(ask.request_id, request)
        except AllocationError as error:
            return Refused(error, began, time.monotonic_ns())
        except BaseException as error:  # noqa: BLE001 - told to whoever asked
            failed = ParticipantFailed(self._identity.name, type(error).__name__, str(error))
            return Refused(failed, began, time.monotonic_ns())
        return Done(answer, began, time.monotonic_ns())

    def _read(self, ask: Ask) -> Request:
        try:
            request: Request = pickle.loads(ask.request)
        except Exception as error:
            problem = f"{type(error).__name__}: {error}"
            raise UnreadableRequest(self._identity.name, problem) from error
        return request

    def _done(self, request_id: str, request: Request) -> Any:
        match request:
            case Decide():
                return self._decided(request_id, request)
            case Pass():
                return decide_pass(
                    self._allocations,
                    request.keys,
                    request.policy,
                    concurrency=request.concurrency,
                    actor=self._identity.name,
                )
            case Spawn():
                return self._spawned(request)
            case Read():
                return self._allocations.workflow(*request.key).newest()
            case _:
                assert_never(request)

    def _decided(self, request_id: str, request: Decide) -> Committed | None:
        """What became of a proposal; None of one that holds."""
        proposal = parse_proposal(request.proposal)
        command = command_of(proposal, new_id)
        if command is None:
            return None
        return self._allocations.workflow(*request.key).send(
            command,
            expected_generation=request.expected_generation,
            command_id=request_id,
            reason=proposal.reason,
            actor=self._identity.name,
        )

    def _spawned(self, request: Spawn) -> list[RunSpawned | AllocationError]:
        if request.callers == 1:
            return self._allocations.spawn_runs(request.runs)
        with ThreadPoolExecutor(request.callers) as callers:
            return list(callers.map(self._spawned_alone, request.runs))

    def _spawned_alone(self, run: SpawnRequest) -> RunSpawned | AllocationError:
        try:
            workflow = self._allocations.workflow(run.tenant_id, run.workflow_id)
            return workflow.spawn_run(run.run_id, unit=run.unit)
        except AllocationError as error:
            return error


def fill_disk(*, full: bool) -> None:
    """Let every write to a file fail from now on, or let them succeed again."""
    from resource import RLIMIT_FSIZE, getrlimit, setrlimit

    _, hard = getrlimit(RLIMIT_FSIZE)
    setrlimit(RLIMIT_FSIZE, (0 if full else hard, hard))
