"""One participant as its launcher sees it: asked, watched, stopped."""

import pickle
import queue
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from multiprocessing.connection import Connection
from threading import Event, Lock, Thread
from typing import Any

from alloc_es.errors import InvalidSetting
from alloc_es.harness.errors import CannotKill, ParticipantEnded, ParticipantNotStarted
from alloc_es.harness.outcomes import Done, Health, Outcome, Refused, Resolved, Unknown
from alloc_es.harness.protocol import (
    Answer,
    Ask,
    CheckUp,
    FillDisk,
    Message,
    NotUp,
    Probe,
    Reply,
    SetTrap,
    Standing,
    StepClock,
    Stop,
    Up,
    Vitals,
    unpacked,
)
from alloc_es.harness.roles import Identity, Request
from alloc_es.harness.runners import Mode, Runner
from alloc_es.harness.traps import Fall, Point
from alloc_es.harness.worker import is_in_doubt
from alloc_es.incarnation import Incarnation

PROBE_AFTER = 10.0
PROBE_WITHIN = 2.0
PROBES = 5

Look = Callable[[Request, str], Done | Refused | None]
"""Settles a request, by its id, from the log; None where the log can't."""


@dataclass(eq=False)
class Pending:
    """A request that was sent: `settled` is set once there is an `outcome`, or none can come."""

    request_id: str
    request: Request
    outcome: Done | Refused | None = None
    settled: Event = field(default_factory=Event)
    heard: Event = field(default_factory=Event)
    standing: str | None = None


class Participant:
    """Who was started, under one incarnation; made by a launcher. Safe for threads."""

    def __init__(
        self,
        identity: Identity,
        incarnation: Incarnation,
        mode: Mode,
        connection: Connection,
        runner: Runner,
        look: Look,
        new_id: Callable[[], str],
    ) -> None:
        self.identity = identity
        self.incarnation = incarnation
        self.mode: Mode = mode
        self.ended: str | None = None
        """Why it does not run any more; None while it does."""
        self._connection = connection
        self._runner = runner
        self._look = look
        self._new_id = new_id
        self._lock = Lock()
        self._pending: dict[str, Pending] = {}
        self._reason: str | None = None
        self._up = Event()
        self._not_up = "it ended before it was ready"
        self._gone = Event()
        self._last_heard: float | None = None
        self._checks = count(1)
        self._vitals: dict[int, tuple[Event, list[Vitals]]] = {}
        # Written by a thread of its own: a participant that was stopped reads nothing, and its
        # pipe fills up.
        self._outbox: queue.SimpleQueue[Message | None] = queue.SimpleQueue()
        Thread(target=self._write, daemon=True).start()
        Thread(target=self._listen, daemon=True).start()

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
        """Wait until it is ready; raises `ParticipantNotStarted`, and then none is left."""
        self._up.wait(seconds)
        if self._up.is_set() and not self._gone.is_set():
            return
        problem = self._not_up if self._gone.is_set() else f"it was not ready in {seconds:g} s"
        self._end("it did not come up", 0)
        raise ParticipantNotStarted(self.name, self.incarnation.number, problem)

    def send(self, request: Request, *, request_id: str | None = None) -> Pending:
        """Ask without waiting.

        Raises `NotAuthorised` and `ParticipantEnded`, and then nothing was sent.
        """
        self.identity.authorise(request)
        pending = Pending(request_id or self._new_id(), request)
        with self._lock:
            if self.ended is not None:
                raise ParticipantEnded(self.name, self.incarnation.number, self.ended)
            pending = self._pending.setdefault(pending.request_id, pending)
        self._post(pending)
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
        again under the same id, one that it works on is waited for. At last, and at once
        when the participant has ended, the log is asked. So a slow one loses nothing, and
        the whole takes no longer than these times and one read of the store.
        """
        pending.settled.wait(probe_after)
        probed = 0
        while probed < probes and not pending.settled.is_set():
            probed += 1
            self._probe(pending, probe_within)
        outcome = pending.outcome
        if outcome and not is_in_doubt(outcome):
            return Resolved(outcome, "participant", probed) if probed else outcome
        found = self._look(pending.request, pending.request_id)
        if found:
            return Resolved(found, "log", probed)
        problem = str(outcome.error) if isinstance(outcome, Refused) else self._silence()
        return Unknown(problem, probed, working=pending.standing == "working")

    def health(self, within: float = PROBE_WITHIN) -> Health:
        """Ask how it is, and wait so many seconds for it."""
        number, heard, vitals = next(self._checks), Event(), list[Vitals]()
        self._vitals[number] = (heard, vitals)
        self._outbox.put(CheckUp(number))
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
        """Let its process fall over at a point; raises `CannotKill` where it has none."""
        self._need_process()
        self._outbox.put(SetTrap(point, fall))

    def step_clock(self, seconds: float) -> None:
        """Let its clock be wrong by so many seconds; a task has none of its own."""
        if self.mode == "in_process":
            raise InvalidSetting("seconds", f"{self.name} shares its launcher's clock")
        self._outbox.put(StepClock(seconds))

    def fill_disk(self, *, full: bool) -> None:
        """Let every write of its process to a file fail, as on a full disk, or succeed again."""
        self._need_process()
        self._outbox.put(FillDisk(full))

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
        self._end(reason, 0)

    def stop(self, reason: str, *, within: float = 10.0) -> bool:
        """Let it finish what is under way; a process that takes longer is killed.

        False for a thread or a task that has not ended in time: it can't be ended from
        outside, and does nothing more once it has.
        """
        self._reason = self._reason or reason
        self._outbox.put(Stop())
        return self._end(reason, within)

    def _end(self, reason: str, within: float) -> bool:
        self._reason = self._reason or reason
        over = within > 0 and self._runner.wait(within)
        if not over and self._runner.signal(signal.SIGKILL):
            over = self._runner.wait(None)
        if over or within == 0:
            self._gone.wait()
        else:
            self._note_end()
        return over

    def _need_process(self) -> None:
        if self.pid is None:
            raise CannotKill(self.name, self.mode)

    def _post(self, pending: Pending) -> None:
        self._outbox.put(Ask(pending.request_id, pickle.dumps(pending.request)))

    def _probe(self, pending: Pending, within: float) -> None:
        """Ask about a request, and wait for its outcome."""
        pending.heard.clear()
        pending.standing = None
        deadline = time.monotonic() + within
        self._outbox.put(Probe(pending.request_id))
        pending.heard.wait(within)
        if pending.standing == "unheard":
            self._post(pending)
        pending.settled.wait(max(0, deadline - time.monotonic()))

    def _silence(self) -> str:
        if self.ended is not None:
            return f"{self.name} has ended before it answered: {self.ended}"
        return f"{self.name} did not answer in time"

    def _write(self) -> None:
        with suppress(OSError):
            while (message := self._outbox.get()) is not None:
                self._connection.send(message)

    def _listen(self) -> None:
        try:
            while True:
                self._hear(self._connection.recv())
        except (EOFError, OSError):
            self._runner.wait(None)
            self._note_end()
            self._outbox.put(None)

    def _hear(self, reply: Reply) -> None:
        self._last_heard = time.monotonic()
        match reply:
            case Up():
                self._up.set()
            case NotUp():
                self._not_up = reply.problem
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

    def _settle(self, answer: Answer) -> None:
        with self._lock:
            pending = self._pending.pop(answer.request_id, None)
        if pending:
            pending.outcome = unpacked(answer.outcome)
            pending.heard.set()
            pending.settled.set()

    def _note_end(self) -> None:
        """Nothing more comes from it: say why, and let nobody wait for it."""
        code = self._runner.exit_code
        died = "it died" if code is None else f"it died with exit code {code}"
        with self._lock:
            if self.ended is None:
                self.ended = self._reason or died
            pending: list[Any] = list(self._pending.values())
            self._pending.clear()
        for each in pending:
            each.heard.set()
            each.settled.set()
        self._gone.set()
        self._up.set()
