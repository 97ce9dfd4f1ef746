"""What serves a participant's requests, the same in every mode."""

import pickle
import sys
import time
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from pkgutil import resolve_name
from threading import Lock
from typing import Any, assert_never

from alloc_es.app import Allocations
from alloc_es.clock import Patience, new_id, utc_now
from alloc_es.committing import Committed
from alloc_es.errors import AllocationError, OutcomeUnknown
from alloc_es.events import RunSpawned
from alloc_es.harness.errors import ParticipantFailed
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

    It works on a connection of its own, or on `shared` where it is given one. `tell` sends
    a reply and is called from many threads.
    """

    def __init__(
        self,
        opening: Opening,
        tell: Callable[[Reply], None],
        *,
        shared: Allocations | None = None,
        peak_rss: Callable[[], int | None] = lambda: None,
    ) -> None:
        self._opening = opening
        self._identity = opening.identity
        self._tell = tell
        self._peak_rss = peak_rss
        self._traps = Traps()
        self._clock_off_by = timedelta()
        self._owns = shared is None
        self._allocations = shared or self._open()
        self._pool = ThreadPoolExecutor(opening.threads, f"{opening.identity.name}-worker")
        self._answers: OrderedDict[str, bytes | None] = OrderedDict()
        self._lock = Lock()

    def take(self, message: Message) -> bool:
        """See to a message without waiting for it; False for the one that ends the work."""
        match message:
            case Ask():
                if self._is_new(message.request_id):
                    self._pool.submit(self._carry_out, message)
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
        self._pool.shutdown()
        if self._owns:
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
        if answer is None:
            self._tell(Standing(request_id, "working" if heard else "unheard"))
        else:
            self._tell(Answer(request_id, answer))

    def _carry_out(self, ask: Ask) -> None:
        outcome = self._outcome(ask)
        answer = packed(self._identity.name, outcome)
        self._keep(ask.request_id, answer, in_doubt=is_in_doubt(outcome))
        self._traps.pass_by("before answer")
        self._tell(Answer(ask.request_id, answer))

    def _keep(self, request_id: str, answer: bytes, *, in_doubt: bool) -> None:
        """Remember an answer; one that is in doubt is found out when it is asked for again."""
        with self._lock:
            if in_doubt:
                del self._answers[request_id]
                return
            self._answers[request_id] = answer
            self._answers.move_to_end(request_id)
            while len(self._answers) > _KEPT_ANSWERS and next(iter(self._answers.values())):
                self._answers.popitem(last=False)

    def _outcome(self, ask: Ask) -> Done | Refused:
        began = time.monotonic_ns()
        try:
            request: Request = pickle.loads(ask.request)
            self._identity.authorise(request)
            answer = self._done(ask.request_id, request)
        except AllocationError as error:
            return Refused(error, began, time.monotonic_ns())
        except Exception as error:  # noqa: BLE001 - told to whoever asked
            failed = ParticipantFailed(self._identity.name, type(error).__name__, str(error))
            return Refused(failed, began, time.monotonic_ns())
        return Done(answer, began, time.monotonic_ns())

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
        named = [run._replace(actor=run.actor or self._identity.name) for run in request.runs]
        if request.callers == 1:
            return self._allocations.spawn_runs(named)
        with ThreadPoolExecutor(request.callers) as callers:
            return list(callers.map(self._spawned_alone, named))

    def _spawned_alone(self, run: SpawnRequest) -> RunSpawned | AllocationError:
        workflow = self._allocations.workflow(run.tenant_id, run.workflow_id)
        try:
            return workflow.spawn_run(run.run_id, unit=run.unit, actor=run.actor)
        except AllocationError as error:
            return error


def is_in_doubt(outcome: Done | Refused) -> bool:
    """Whether the store did not say what became of the request."""
    return isinstance(outcome, Refused) and isinstance(outcome.error, OutcomeUnknown)


def fill_disk(*, full: bool) -> None:
    """Let every write to a file fail from now on, or let them succeed again."""
    from resource import RLIMIT_FSIZE, getrlimit, setrlimit

    _, hard = getrlimit(RLIMIT_FSIZE)
    setrlimit(RLIMIT_FSIZE, (0 if full else hard, hard))


def peak_rss_of_this_process() -> int | None:
    """The most memory, in bytes, that this process ever held; None where no system says so."""
    try:
        from resource import RUSAGE_SELF, getrusage
    except ImportError:
        return None
    # Kilobytes on Linux, bytes on macOS: getrusage(2) of each.
    peak = getrusage(RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
