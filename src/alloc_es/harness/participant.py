"""One participant as its launcher sees it: asked, watched, stopped."""

import signal
import time
from collections.abc import Callable
from itertools import count
from multiprocessing.connection import Connection
from threading import Event, Lock
from typing import assert_never

from alloc_es.harness.doubt import first_doubt
from alloc_es.harness.errors import (
    CannotKill,
    ParticipantEnded,
    ParticipantNotStarted,
    RequestIdReused,
    UnreadableRequest,
)
from alloc_es.harness.line import Line
from alloc_es.harness.outcomes import Done, Health, Outcome, Refused, Resolved, Unknown
from alloc_es.harness.pending import Asked, Pending
from alloc_es.harness.protocol import (
    Answer,
    Ask,
    CheckUp,
    FillDisk,
    NotUp,
    Opening,
    Probe,
    Reply,
    SetTrap,
    Standing,
    StepClock,
    Stop,
    Up,
    Vitals,
    packed_request,
    unpacked,
)
from alloc_es.harness.roles import Identity, Request
from alloc_es.harness.runners import Mode, Runner
from alloc_es.harness.traps import Fall, Point, parse_step, parse_trap
from alloc_es.identity import parse_identifier
from alloc_es.incarnation import Incarnation

PROBE_AFTER = 10.0
PROBE_WITHIN = 2.0
PROBES = 5

Look = Callable[[Request, str], Done | Refused | None]
"""Settles a request, by its id, from the log; None where the log can't."""


class Participant:
    """Who was started, under one incarnation; made by a launcher. Safe for threads."""

    def __init__(
        self,
        opening: Opening,
        mode: Mode,
        connection: Connection,
        runner: Runner,
        look: Look,
        new_id: Callable[[], str],
        on_end: Callable[["Participant"], None],
    ) -> None:
        self.identity: Identity = opening.identity
        self.incarnation: Incarnation = opening.incarnation
        self.threads = opening.threads
        self.mode: Mode = mode
        self.ended: str | None = None
        """Why it does not run any more; None while it does."""
        self._runner = runner
        self._look = look
        self._new_id = new_id
        self._on_end = on_end
        self._lock = Lock()
        self._pending: dict[str, Pending] = {}
        self._asked = Asked()
        self._reason: str | None = None
        self._opened = Event()
        self._not_up: str | None = None
        self._gone = Event()
        self._last_heard: float | None = None
        self._checks = count(1)
        self._vitals: dict[int, tuple[Event, list[Vitals]]] = {}
        self._line = Line(connection, runner, self._hear, self._on_loss)
        self._line.say(opening)

    def __repr__(self) -> str:
        return f"<Participant {self.name}, incarnation {self.incarnation.number}, {self.mode}>"

    @property
    def name(self) -> str:
        """Its name, which is the actor of what it does."""
        return self.identity.name

    @property
    def pid(self) -> int | None:
        """The number of its own process; None for a thread or a task."""
        return self._runner.pid

    def await_up(self, seconds: float) -> None:
        """Wait until it is ready; raises `ParticipantNotStarted`."""
        in_time = self._opened.wait(seconds)
        problem = self._not_up or self.ended
        if not in_time:
            problem = problem or f"it was not ready in {seconds:g} s"
        if problem:
            raise ParticipantNotStarted(self.name, self.incarnation.number, problem)

    def send(self, request: Request, *, request_id: str | None = None) -> Pending:
        """Ask without waiting.

        A request id stands for one request: asked under it again, it is not carried out
        twice. Raises `NotAuthorised`, `UnreadableRequest`, `RequestIdReused`,
        `ParticipantEnded`, `InvalidSetting` and `InvalidIdentifier`, and then nothing was sent.
        """
        self.identity.authorise(request)
        chosen = self._new_id() if request_id is None else request_id
        pending = Pending(parse_identifier("request id", chosen), request)
        packed = self._packed(request)
        with self._lock:
            if self.ended is not None:
                raise ParticipantEnded(self.name, self.incarnation.number, self.ended)
            if not self._asked.is_same(pending.request_id, request):
                raise RequestIdReused(self.name, pending.request_id)
            pending = self._pending.setdefault(pending.request_id, pending)
        self._line.say(Ask(pending.request_id, packed))
        return pending

    def call(
        self,
        request: Request,
        *,
        request_id: str | None = None,
        probe_after: float = PROBE_AFTER,
        probe_within: float = PROBE_WITHIN,
        probes: int = PROBES,
    ) -> Outcome:
        """Ask and wait; see `settle`."""
        pending = self.send(request, request_id=request_id)
        return self.settle(
            pending, probe_after=probe_after, probe_within=probe_within, probes=probes
        )

    def settle(
        self,
        pending: Pending,
        *,
        probe_after: float = PROBE_AFTER,
        probe_within: float = PROBE_WITHIN,
        probes: int = PROBES,
    ) -> Outcome:
        """Wait for what becomes of a request.

        When `probe_after` seconds bring no answer, it is asked what became of the request,
        up to `probes` times, `probe_within` seconds each: one that it never heard of is sent
        again under the same id, one that it works on is waited for. At last the log is asked,
        and at once when the participant has ended or the store did not say what became of
        it. So a slow one loses nothing, and the whole takes no longer than these times and
        what the log takes, which gives up with the launcher's `timeout`.
        """
        pending.settled.wait(probe_after)
        probed = 0
        while probed < probes and not pending.settled.is_set():
            probed += 1
            self._probe(pending, probe_within)
        outcome = pending.outcome
        if outcome and not pending.in_doubt:
            return Resolved(outcome, "participant", probed) if probed else outcome
        found = self._look(pending.request, pending.request_id)
        if found:
            return Resolved(found, "log", probed)
        error = first_doubt(outcome) if outcome else None
        problem = str(error) if error else self._silence()
        working = outcome is None and pending.standing == "working"
        return Unknown(problem, probed, working, error)

    def health(self, within: float = PROBE_WITHIN) -> Health:
        """Ask how it is, and wait so many seconds for it."""
        number, heard, vitals = next(self._checks), Event(), list[Vitals]()
        self._vitals[number] = (heard, vitals)
        self._line.say(CheckUp(number))
        running = not self._gone.is_set()
        answered = running and heard.wait(within)
        self._vitals.pop(number, None)
        last = self._last_heard
        return Health(
            state="up" if answered else "ended" if self._gone.is_set() else "silent",
            incarnation=self.incarnation.number,
            pid=self.pid,
            exit_code=self._runner.exit_code,
            silent_for=None if last is None else time.monotonic() - last,
            peak_rss=vitals[0].peak_rss if vitals else None,
            rerouted=vitals[0].rerouted if vitals else None,
            under_way=len(self._pending),
        )

    def set_trap(self, point: Point, fall: Fall) -> None:
        """Let its process fall over at a point; raises `CannotKill` where it has none.

        Raises `InvalidSetting` for another point or fall.
        """
        self._need_process()
        parse_trap(point, fall)
        self._line.say(SetTrap(point, fall))

    def step_clock(self, seconds: float) -> None:
        """Let its clock be wrong by so many seconds; raises `InvalidSetting`."""
        self._line.say(StepClock(parse_step(seconds)))

    def fill_disk(self, *, full: bool) -> None:
        """Let every write of its process to a file fail, as on a full disk, or succeed again."""
        self._need_process()
        self._line.say(FillDisk(full))

    def pause(self) -> None:
        """SIGSTOP: its process does nothing until `resume`."""
        self._need_process()
        self._runner.signal(signal.SIGSTOP)

    def resume(self) -> None:
        """SIGCONT."""
        self._need_process()
        self._runner.signal(signal.SIGCONT)

    def kill(self, reason: str) -> None:
        """SIGKILL, and wait until it is reaped; raises `CannotKill` where it has no process."""
        self._need_process()
        self._reason = self._reason or reason
        self._end_now()

    def stop(self, reason: str, *, within: float = 10.0) -> bool:
        """Let it finish what is under way; a process that takes longer is killed.

        False for a thread or a task that has not ended in time: it can't be ended from
        outside, and does nothing more once it has.
        """
        self.ask_to_stop(reason)
        return self.await_end(within)

    def ask_to_stop(self, reason: str) -> None:
        """Begin what `stop` does."""
        self._reason = self._reason or reason
        self._line.say(Stop())

    def await_end(self, within: float) -> bool:
        """See to the end of what `ask_to_stop` began."""
        if self._gone.wait(within) or self._end_now():
            return True
        self._note_end()
        return False

    def _end_now(self) -> bool:
        """Kill its process and wait until it is reaped; False where it has none."""
        if not self._runner.signal(signal.SIGKILL):
            return False
        self._gone.wait()
        return True

    def _need_process(self) -> None:
        if self.pid is None:
            raise CannotKill(self.name, self.mode)

    def _packed(self, request: Request) -> bytes:
        try:
            return packed_request(request)
        except Exception as error:
            problem = f"{type(error).__name__}: {error}"
            raise UnreadableRequest(self.name, problem) from error

    def _probe(self, pending: Pending, within: float) -> None:
        """Ask about a request, and wait for its outcome."""
        pending.heard.clear()
        pending.standing = None
        deadline = time.monotonic() + within
        self._line.say(Probe(pending.request_id))
        # Whoever settles it says so before it is heard, so that the clearing can't hide it.
        if not pending.settled.is_set():
            pending.heard.wait(within)
        if pending.standing == "unheard":
            self._line.say(Ask(pending.request_id, self._packed(pending.request)))
        pending.settled.wait(max(0, deadline - time.monotonic()))

    def _silence(self) -> str:
        if self.ended is not None:
            return f"{self.name} has ended before it answered: {self.ended}"
        return f"{self.name} did not answer in time"

    def _on_loss(self) -> None:
        self._note_end()
        self._on_end(self)
        self._gone.set()

    def _hear(self, reply: Reply) -> None:
        self._last_heard = time.monotonic()
        match reply:
            case Up():
                self._opened.set()
            case NotUp():
                self._not_up = reply.problem
                self._opened.set()
            case Answer():
                self._settle(reply)
            case Standing():
                if pending := self._pending.get(reply.request_id):
                    pending.standing = reply.state
                    pending.heard.set()
            case Vitals():
                heard, vitals = self._vitals.get(reply.number, (Event(), []))
                vitals.append(reply)
                heard.set()
            case _:
                assert_never(reply)

    def _settle(self, answer: Answer) -> None:
        outcome, in_doubt = unpacked(self.name, answer)
        with self._lock:
            pending = self._pending.pop(answer.request_id, None)
        if pending:
            pending.outcome, pending.in_doubt = outcome, in_doubt
            pending.settled.set()
            pending.heard.set()

    def _note_end(self) -> None:
        """Nothing more is to come from it: say why, and let nobody wait for it."""
        code = self._runner.exit_code
        died = "it died" if code is None else f"it died with exit code {code}"
        with self._lock:
            if self.ended is None:
                self.ended = self._reason or died
            pending = list(self._pending.values())
            self._pending.clear()
        for each in pending:
            each.settled.set()
            each.heard.set()
        self._opened.set()
