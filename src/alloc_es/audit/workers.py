"""Processes that check parts of a run log side by side."""

import subprocess
import sys
from collections.abc import Generator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from pathlib import Path

from alloc_es.audit.errors import AuditorLost
from alloc_es.audit.run_pass import PartResult, Scope, pass_over
from alloc_es.evidence import Evidence, Unreadable, open_evidence
from alloc_es.identity import key_of_stream
from alloc_es.rules import Timeline

Part = tuple[int, int]

_MAIN = (
    "import sys; sys.path[:] = sys.argv[2:]; "
    "from alloc_es.audit.workers import main; main(int(sys.argv[1]))"
)


@dataclass(frozen=True, slots=True)
class Assignment:
    """What a process opens, and up to which end of the decision log it reads."""

    where: str
    archives: Sequence[Path]
    decisions_end: int
    scope: Scope


def checked_by_processes(
    assignment: Assignment, parts: Sequence[Part], processes: int
) -> Generator[PartResult]:
    """The results of all parts, in their order; close it, so that no process is left behind.

    Raises what a process raised, and `AuditorLost` for one that died.
    """
    left = iter(enumerate(parts))
    results: dict[int, PartResult] = {}
    due = 0
    with ExitStack() as ending:
        workers = [_Process(assignment, ending) for _ in range(min(processes, len(parts)))]
        working = {each.connection: each for each in workers if each.take(next(left, None))}
        while working:
            for connection in wait(list(working)):
                assert isinstance(connection, Connection)
                worker = working[connection]
                number, result = worker.answer()
                results[number] = result
                if not worker.take(next(left, None)):
                    del working[connection]
            while due in results:
                yield results.pop(due)
                due += 1


class _Process:
    """One process, which ends with this one: its pipe is broken then."""

    def __init__(self, assignment: Assignment, ending: ExitStack) -> None:
        self.connection, far = Pipe()
        ending.callback(self.connection.close)
        with far:
            self._process = subprocess.Popen(
                [sys.executable, "-c", _MAIN, str(far.fileno()), *sys.path],
                pass_fds=[far.fileno()],
                stdin=subprocess.DEVNULL,
                # A Ctrl-C is for the process that was asked, which ends the others.
                start_new_session=True,
            )
        ending.callback(self._process.wait)
        ending.callback(self._process.kill)
        self._number = -1
        self._send(assignment)

    def take(self, part: tuple[int, Part] | None) -> bool:
        """Give it the next part, if there is one."""
        if part is None:
            return False
        self._number, bounds = part
        self._send(bounds)
        return True

    def _send(self, what: Assignment | Part) -> None:
        try:
            self.connection.send(what)
        except OSError:
            raise AuditorLost(self._process.wait()) from None

    def answer(self) -> tuple[int, PartResult]:
        """The number of the part that it had, and the result."""
        try:
            result = self.connection.recv()
        except (EOFError, OSError):
            raise AuditorLost(self._process.wait()) from None
        if isinstance(result, BaseException):
            raise result
        assert isinstance(result, PartResult)
        return self._number, result


def main(descriptor: int) -> None:
    """Check the parts that come through a pipe, until it ends."""
    with Connection(descriptor) as connection:
        try:
            _serve(connection)
        except (EOFError, OSError):
            return
        except Exception as error:  # noqa: BLE001 - raised again by the process that asked
            connection.send(error)


def _serve(connection: Connection) -> None:
    assignment = connection.recv()
    where, archives = assignment.where, assignment.archives
    # The process that asked has checked an export as a whole.
    with open_evidence(where, archives=archives, check=False) as evidence:
        timeline = read_timeline(evidence, assignment.decisions_end, assignment.scope)
        while True:
            part = connection.recv()
            connection.send(pass_over(timeline, evidence.runs(*part), assignment.scope))


def read_timeline(evidence: Evidence, end: int, scope: Scope) -> Timeline:
    """What the decisions up to a position made; of one tenant only, where that is the scope."""
    timeline = Timeline()
    for each in evidence.decisions():
        if each.position > end:
            break
        if isinstance(each, Unreadable):
            if key := key_of_stream(each.error.stream):
                timeline.pass_over(key, each.error.version, each.position)
        elif scope.tenant_id in (None, each.event.key.tenant_id):
            timeline.add(each)
    timeline.end = end
    return timeline
