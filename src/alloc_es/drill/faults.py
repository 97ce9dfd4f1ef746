"""Carrying the faults of a drill out."""

import subprocess
import time
from collections.abc import Callable, Sequence
from threading import Event

from alloc_es.drill.account import Account
from alloc_es.drill.crew import Crew
from alloc_es.drill.plan import Fault, Moment
from alloc_es.errors import AllocationError
from alloc_es.harness import Participant
from alloc_es.harness.traps import Point

_PAUSE = 0.2
_DELAY = 0.5
_RESTART_TIMEOUT = 120


class RestartFailed(AllocationError):
    """The command that restarts the server did not: its `problem`."""

    def __init__(self, command: str, problem: str) -> None:
        self.command = command
        self.problem = problem
        super().__init__(f"the server was not restarted by `{command}`: {problem}")


class Network:
    """What can be done to connections; of a store without a server, nothing."""

    def lose_reply(self) -> None:
        """Lose the reply to the next commit, and cut its connection."""

    def black_hole(self) -> None:
        """Let nothing come back on the connection of the next commit."""

    def delay(self, seconds: float) -> None:
        """Hold the reply to the next commit back."""

    def cut(self) -> None:
        """Cut every connection."""

    def terminate(self) -> None:
        """Let the server end every connection of the drill."""


class Faults:
    """Faults befall participants by the plan, each at its moment in a round."""

    def __init__(
        self,
        crew: Crew,
        account: Account,
        network: Network,
        *,
        names: Sequence[str],
        restart: str | None,
        probe: Callable[[], object],
    ) -> None:
        self._crew = crew
        self._account = account
        self._network = network
        self._names = names
        self._restart = restart
        self._probe = probe
        self._never = Event()

    def prepare(self, faults: Sequence[Fault]) -> None:
        """Before the schedulers are asked: what waits for them on their way."""
        for fault in faults:
            match fault.kind:
                case "kill" if fault.moment:
                    self._set_trap(fault.moment, self._target(fault))
                case "lost reply":
                    self._network.lose_reply()
                case "black hole":
                    self._network.black_hole()
                case "delay":
                    self._network.delay(_DELAY)
                case "clock step":
                    self._target(fault).step_clock(fault.clock)
                case "full disk":
                    self._target(fault).fill_disk(full=True)
                case _:
                    continue
            self._account.count(f"fault: {fault.kind}")

    def strike(self, faults: Sequence[Fault]) -> None:
        """While they are at it: each so long after they were asked."""
        begun = time.monotonic()
        for fault in sorted(faults, key=lambda each: each.after):
            self._never.wait(max(0.0, begun + fault.after - time.monotonic()))
            match fault.kind:
                case "kill" if fault.moment is None:
                    self._target(fault).kill("killed by the drill")
                case "pause":
                    self._pause(self._target(fault))
                case "cut":
                    self._network.cut()
                case "termination":
                    self._network.terminate()
                case "restart":
                    self._restart_server()
                case _:
                    continue
            self._account.count(f"fault: {fault.kind}")

    def lift(self, faults: Sequence[Fault]) -> None:
        """When all are answered: what would stay otherwise."""
        for fault in faults:
            if fault.kind == "full disk":
                self._target(fault).fill_disk(full=False)

    def _target(self, fault: Fault) -> Participant:
        return self._crew.member(self._names[fault.target % len(self._names)])

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
        member.set_trap(point, "kill")

    def _pause(self, member: Participant) -> None:
        member.pause()
        self._never.wait(_PAUSE)
        member.resume()

    def _restart_server(self) -> None:
        assert self._restart is not None
        try:
            done = subprocess.run(
                self._restart,
                shell=True,
                capture_output=True,
                text=True,
                timeout=_RESTART_TIMEOUT,
                stdin=subprocess.DEVNULL,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise RestartFailed(self._restart, f"not done in {_RESTART_TIMEOUT} s") from None
        if done.returncode:
            said = " ".join((done.stderr or done.stdout).split())[-300:]
            raise RestartFailed(self._restart, f"exit code {done.returncode}: {said}")
        up = time.monotonic()
        self._probe()
        self._account.outages.append(time.monotonic() - up)
