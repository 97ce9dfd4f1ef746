"""The participants of a drill: started, asked, and started again when they have died."""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from signal import SIGKILL
from threading import Lock

from alloc_es.drill.account import Account
from alloc_es.errors import StoreUnavailable
from alloc_es.harness import (
    Done,
    Launcher,
    Mode,
    Participant,
    ParticipantEnded,
    ParticipantNotStarted,
    Pending,
    Refused,
    Request,
    Resolved,
    Role,
    Unknown,
)
from alloc_es.incarnation import Incarnation

_TRIES = 10
_STARTS = 5
_PROBE_AFTER = 5.0


class Crew:
    """Keeps everybody alive under their names; safe for threads.

    In the store a name begins with the drill's tenant: there incarnations of a name follow
    each other, whoever starts them, and a user's own participants must not be superseded.
    """

    def __init__(self, launcher: Launcher, account: Account, tenant: str, mode: Mode) -> None:
        self._launcher = launcher
        self._account = account
        self._tenant = tenant
        self._mode: Mode = mode
        self._reviving: dict[str, Lock] = {}
        self._condemned: set[Incarnation] = set()
        self._buried: set[Incarnation] = set()

    def enlist(self, roles: Mapping[str, Role]) -> None:
        """Start those who are named, each in a role, all at the same time."""
        with ThreadPoolExecutor(len(roles)) as starts:
            # A list, as the first error among them is to be raised.
            list(starts.map(self._enlist_one, roles, roles.values()))

    def _enlist_one(self, name: str, role: Role) -> None:
        self._launcher.start(self._stored(name), role, [self._tenant], mode=self._mode)
        self._reviving[name] = Lock()

    def member(self, name: str) -> Participant:
        """A participant that lives, in its newest incarnation.

        Raises `StoreUnavailable` and `ParticipantNotStarted` where it can't be started again.
        """
        with self._reviving[name]:
            member = self._launcher.participant(self._stored(name))
            if member.ended is None:
                return member
            self._bury(member)
            successor = self._started_again(member)
            self._account.count("restarted")
            return successor

    def restart(self, name: str) -> None:
        """Let a participant end in order, and start it again."""
        with self._reviving[name]:
            member = self._launcher.participant(self._stored(name))
            self._buried.add(member.incarnation)
            self._started_again(member)

    def condemn(self, member: Participant) -> None:
        """Note, before it can happen, that somebody may die by the drill's hand."""
        self._condemned.add(member.incarnation)

    def ask(self, name: str, request: Request, request_id: str) -> tuple[Participant, Pending]:
        """Ask a participant that lives, without waiting."""
        while True:
            member = self.member(name)
            with suppress(ParticipantEnded):
                return member, member.send(request, request_id=request_id)

    def settle(self, name: str, member: Participant, pending: Pending) -> Done | Refused | None:
        """What became of a request, however often it takes to find out; None if it can't be."""
        doubted = False
        for _ in range(_TRIES):
            outcome = member.settle(pending, probe_after=_PROBE_AFTER)
            if not isinstance(outcome, Unknown):
                if doubted or isinstance(outcome, Resolved):
                    self._account.count("settled")
                return outcome.outcome if isinstance(outcome, Resolved) else outcome
            doubted = True
            pending = self._pursued(name, member, pending)
        return None

    def end(self) -> int | None:
        """Count those who died last; how many runs were routed again, as far as anyone can tell.

        Of those who live only, and None where nobody could say.
        """
        counts = []
        for member in self._launcher.participants.values():
            if member.ended is not None:
                self._bury(member)
            elif (rerouted := member.health().rerouted) is not None:
                counts.append(rerouted)
        return sum(counts) if counts else None

    def _stored(self, name: str) -> str:
        return f"{self._tenant}-{name}"

    def _pursued(self, name: str, member: Participant, pending: Pending) -> Pending:
        """See to it that the next look at a request can tell."""
        if member.ended is None and pending.outcome:
            # The store did not say: the same command id settles it.
            with suppress(ParticipantEnded):
                return member.send(pending.request, request_id=pending.request_id)
        if member.ended is not None:
            # Its successor's incarnation keeps it from committing later.
            self.member(name)
        return pending

    def _bury(self, member: Participant) -> None:
        """Count a death: the drill kills, and nobody may die of anything else."""
        if member.incarnation in self._buried:
            return
        self._buried.add(member.incarnation)
        code = member.health().exit_code
        if code == -SIGKILL and member.incarnation in self._condemned:
            self._account.count_fault("kill")
        else:
            self._account.mourn(f"{member.name}, incarnation {member.incarnation.number}", code)

    def _started_again(self, member: Participant) -> Participant:
        """Start its successor; the store may be away for longer than one start waits."""
        for _ in range(_STARTS - 1):
            with suppress(StoreUnavailable, ParticipantNotStarted):
                return self._launcher.restart(member.name, "it had died")
        return self._launcher.restart(member.name, "it had died")
