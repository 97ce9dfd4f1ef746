"""The participants of a drill: started, asked, and started again when they have died."""

from threading import Lock

from alloc_es.drill.account import Account
from alloc_es.harness import (
    Done,
    HarnessError,
    Launcher,
    Mode,
    Participant,
    Pending,
    Refused,
    Request,
    Resolved,
    Unknown,
)

_TRIES = 10
_PROBE_AFTER = 5.0


class Crew:
    """Keeps everybody alive under their names; safe for threads."""

    def __init__(self, launcher: Launcher, account: Account, tenant: str, mode: Mode) -> None:
        self._launcher = launcher
        self._account = account
        self._tenant = tenant
        self._mode: Mode = mode
        self._reviving: dict[str, Lock] = {}

    def enlist(self, name: str, role: str, threads: int = 1) -> None:
        """Start a participant."""
        self._reviving[name] = Lock()
        self._launcher.start(name, role, [self._tenant], mode=self._mode, threads=threads)

    def member(self, name: str) -> Participant:
        """A participant that lives, in its newest incarnation."""
        with self._reviving[name]:
            member = self._launcher.participant(name)
            if member.ended is not None:
                self._account.count("restarted")
                member = self._launcher.restart(name, "it had died")
            return member

    def ask(self, name: str, request: Request, request_id: str) -> tuple[Participant, Pending]:
        """Ask a participant that lives, without waiting."""
        while True:
            member = self.member(name)
            try:
                return member, member.send(request, request_id=request_id)
            except HarnessError:
                if member.ended is None:
                    raise

    def settle(self, member: Participant, pending: Pending) -> Done | Refused | None:
        """What became of a request, however often it takes to find out; None if it can't be."""
        for _ in range(_TRIES):
            outcome = member.settle(pending, probe_after=_PROBE_AFTER)
            if isinstance(outcome, Resolved):
                self._account.count("settled")
                return outcome.outcome
            if not isinstance(outcome, Unknown):
                return outcome
            if member.ended is not None:
                # Its successor's incarnation keeps it from committing later.
                self.member(member.name)
            elif pending.outcome:
                # The store did not say: the same command id settles it.
                self._account.count("asked again")
                pending = member.send(pending.request, request_id=pending.request_id)
        return None

    def rerouted(self) -> int | None:
        """How many runs were routed again, as far as those who live can tell."""
        counts = [member.health().rerouted for member in self._launcher.participants.values()]
        told = [count for count in counts if count is not None]
        if not told:
            return None
        # Tasks share a connection, whose count each of them tells.
        return max(told) if self._mode == "in_process" else sum(told)
