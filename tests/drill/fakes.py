"""A launcher and its participants that do what a test says, for those who ask them."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

from alloc_es.drill.account import Account
from alloc_es.drill.crew import Crew
from alloc_es.harness import (
    Health,
    Identity,
    Launcher,
    Outcome,
    Participant,
    ParticipantEnded,
    Pending,
    Request,
    Role,
)
from alloc_es.incarnation import Incarnation

TENANT = "drill-1"


class Member:
    """A participant that answers with the outcomes that it was given, the last one for ever."""

    def __init__(self, name: str, number: int, outcomes: Iterable[Outcome] = ()) -> None:
        self.name = name
        self.incarnation = Incarnation(name, number)
        self.identity = Identity(name, "scheduler", frozenset({TENANT}))
        self.outcomes = list(outcomes)
        self.sent: list[str | None] = []
        self.done: list[tuple[Any, ...]] = []
        self.ended: str | None = None
        self.exit_code: int | None = None
        self.rerouted: int | None = None
        self.on_settle: Callable[[Pending], None] = lambda _: None
        self.on_send: Callable[[], None] = lambda: None
        self.on_kill: Callable[[], None] = lambda: None
        self.on_resume: Callable[[], None] = lambda: None

    def die(self, exit_code: int) -> None:
        self.ended, self.exit_code = "it died", exit_code

    def send(self, request: Request, *, request_id: str | None = None) -> Pending:
        self.on_send()
        if self.ended is not None:
            raise ParticipantEnded(self.name, self.incarnation.number, self.ended)
        self.sent.append(request_id)
        return Pending(request_id or "", request)

    def settle(self, pending: Pending, *, probe_after: float) -> Outcome:
        assert probe_after > 0
        self.on_settle(pending)
        return self.outcomes.pop(0) if len(self.outcomes) > 1 else self.outcomes[0]

    def health(self) -> Health:
        number = self.incarnation.number
        return Health("silent", number, 1, self.exit_code, None, None, self.rerouted, 0)

    def set_trap(self, *trap: Any) -> None:
        self.done.append(trap)

    def kill(self, reason: str) -> None:
        self.done.append((reason,))
        self.on_kill()

    def step_clock(self, seconds: float) -> None:
        self.done.append(("clock", seconds))

    def fill_disk(self, *, full: bool) -> None:
        self.done.append(("full disk", full))

    def pause(self) -> None:
        self.done.append(("pause",))

    def resume(self) -> None:
        self.done.append(("resume",))
        self.on_resume()


class Staff:
    """Stands in for a launcher: each name has a row of incarnations, or of errors at its start."""

    def __init__(self, rows: Mapping[str, list[Member | Exception]]) -> None:
        self._rows = {f"{TENANT}-{name}": list(row) for name, row in rows.items()}
        self.participants: dict[str, Member] = {}

    def start(self, name: str, role: Role, tenants: list[str], *, mode: str) -> Member:
        assert (role, tenants, mode) == ("scheduler", [TENANT], "process")
        return self._begin(name)

    def participant(self, name: str) -> Member:
        return self.participants[name]

    def restart(self, name: str, reason: str) -> Member:
        assert reason
        return self._begin(name)

    def _begin(self, name: str) -> Member:
        begun = self._rows[name].pop(0)
        if isinstance(begun, Exception):
            raise begun
        self.participants[name] = begun
        return begun


def crew_of(account: Account, **rows: list[Member | Exception]) -> Crew:
    """A crew of schedulers of these names, all of whom are started."""
    launcher = cast(Launcher, Staff(rows))
    crew = Crew(launcher, account, TENANT, "process")
    crew.enlist(dict.fromkeys(rows, "scheduler"))
    return crew


def as_participant(member: Member) -> Participant:
    return cast(Participant, member)
