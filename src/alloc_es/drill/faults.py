"""Carrying the faults of a drill out."""

import time
from collections.abc import Callable, Sequence
from threading import Event

from alloc_es.drill.account import Account
from alloc_es.drill.crew import Crew
from alloc_es.drill.network import Commit, Network
from alloc_es.drill.plan import Fault, Moment
from alloc_es.drill.restarting import await_service, run_restart, told_if_long
from alloc_es.harness import Participant
from alloc_es.harness.traps import Point
from alloc_es.incarnation import Incarnation

_PAUSE = 0.2
_DELAY = 0.5
_FULL_FOR = 0.3


class Faults:
    """Faults befall participants by the plan, each at its moment in a round.

    Each is counted once it has happened. A trap, or a loss, may wait for longer than a round
    until somebody comes by, or for ever: those are counted by who died and by what was lost.
    """

    def __init__(
        self,
        crew: Crew,
        account: Account,
        network: Network,
        *,
        names: Sequence[str],
        restart: str | None,
        probe: Callable[[], bool],
        tell: Callable[[str], object],
    ) -> None:
        self._crew = crew
        self._account = account
        self._network = network
        self._names = names
        self._restart = restart
        self._probe = probe
        self._tell = tell
        self._clocks: dict[Incarnation, float] = {}
        self._never = Event()

    def prepare(self, faults: Sequence[Fault]) -> None:
        """Before the schedulers are asked: what waits for them on their way."""
        for fault in faults:
            match fault.kind:
                case "kill" if fault.moment:
                    self._set_trap(fault.moment, self._target(fault))
                case "lost reply":
                    self._network.lose_reply(_commit(fault))
                case "black hole":
                    self._network.black_hole()
                case "delay":
                    self._network.delay(_DELAY)
                case "clock step":
                    self._step_clock(fault.clock, self._target(fault))
                case "full disk":
                    self._target(fault).fill_disk(full=True)
                case _:
                    continue

    def strike(self, faults: Sequence[Fault]) -> None:
        """While they are at it: each so long after they were asked."""
        begun = time.monotonic()
        for fault in sorted(faults, key=lambda each: each.after):
            self._never.wait(max(0.0, begun + fault.after - time.monotonic()))
            match fault.kind:
                case "kill" if fault.moment is None:
                    self._kill(self._target(fault))
                case "pause":
                    self._pause(self._target(fault))
                case "cut":
                    self._count_if(fault, self._network.cut())
                case "termination":
                    self._count_if(fault, self._network.terminate())
                case "restart":
                    self._restart_server()
                case "full disk":
                    self._empty_disk(self._target(fault))
                case _:
                    continue

    def count_lost(self) -> None:
        """Count the losses that have happened; when the rounds are over."""
        for kind, count in self._network.lost.items():
            self._account.count_fault(kind, count)

    def _target(self, fault: Fault) -> Participant:
        return self._crew.member(self._names[fault.target % len(self._names)])

    def _kill(self, member: Participant) -> None:
        self._crew.condemn(member)
        member.kill("killed by the drill")

    def _count_if(self, fault: Fault, connections: int) -> None:
        if connections:
            self._account.count_fault(fault.kind)

    def _set_trap(self, moment: Moment, member: Participant) -> None:
        """Let it die at a moment; a scheduler commits by appending, a spawner by recording."""
        appends = member.identity.role == "scheduler"
        match moment:
            case "before commit":
                point: Point = "before append" if appends else "before record"
            case "after commit":
                point = "after append" if appends else "after record"
            case _:
                point = "before answer"
        self._crew.condemn(member)
        member.set_trap(point, "kill")

    def _step_clock(self, seconds: float, member: Participant) -> None:
        """Let its clock go wrong, or right where it is wrong; a new incarnation's is right."""
        wrong = self._clocks.get(member.incarnation)
        self._clocks[member.incarnation] = step = 0.0 if wrong else seconds
        member.step_clock(step)
        self._account.count_fault("clock step")

    def _pause(self, member: Participant) -> None:
        member.pause()
        try:
            self._never.wait(_PAUSE)
        finally:
            member.resume()
        if member.ended is None:
            self._account.count_fault("pause")

    def _empty_disk(self, member: Participant) -> None:
        """Let it fail for a while longer, and no more: what is in doubt could not be settled."""
        self._never.wait(_FULL_FOR)
        member.fill_disk(full=False)
        if member.ended is None:
            self._account.count_fault("full disk")

    def _restart_server(self) -> None:
        """Restart it, see that it was, and take the time until a client is served again."""
        assert self._restart is not None
        with (
            told_if_long(self._restart, self._tell),
            run_restart(self._restart, self._network.started_at),
        ):
            up = time.monotonic()
            await_service(self._restart, self._probe)
            self._account.outages.append(time.monotonic() - up)
        self._account.count_fault("restart")


def _commit(fault: Fault) -> Commit:
    return "runs" if fault.target % 2 else "decision"
