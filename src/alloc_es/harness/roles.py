"""Who a participant is, what it may do, and what it can be asked."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, cast, get_args

from alloc_es.allocation import Allocation
from alloc_es.arguments import parse_count
from alloc_es.errors import InvalidSetting
from alloc_es.harness.errors import NotAuthorised
from alloc_es.identity import WorkflowKey, parse_identifier
from alloc_es.proposals import Proposal
from alloc_es.spawning import SpawnRequest, parse_requests
from alloc_es.wording import shown

Role = Literal["scheduler", "spawner", "observer"]

Right = Literal["decide", "spawn runs", "read"]

_RIGHTS: dict[Role, tuple[Right, ...]] = {
    "scheduler": ("decide", "read"),
    "spawner": ("spawn runs", "read"),
    "observer": ("read",),
}
_MOST_CALLERS = 1_000


@dataclass(frozen=True, slots=True)
class Decide:
    """Carry a proposal out, with the request's id as command id."""

    key: WorkflowKey
    proposal: Proposal
    expected_generation: int | None = None


@dataclass(frozen=True, slots=True)
class Pass:
    """Run a decide pass; `policy` is a function that the participant can import by its name."""

    keys: tuple[WorkflowKey, ...]
    policy: Callable[[Allocation], Any]
    concurrency: int = 1


@dataclass(frozen=True, slots=True)
class Spawn:
    """Spawn runs; the answer is an outcome for each, as of `Allocations.spawn_runs`.

    With `callers` above 1 so many threads spawn them one by one at the same time.
    """

    runs: tuple[SpawnRequest, ...]
    callers: int = 1


@dataclass(frozen=True, slots=True)
class Read:
    """Read the newest decision of a workflow."""

    key: WorkflowKey


Request = Decide | Pass | Spawn | Read


@dataclass(frozen=True, slots=True)
class Identity:
    """A participant's name, its role, and the tenants that it was granted.

    A scheduler decides and reads, a spawner spawns and reads, an observer reads: each for
    its tenants only, and under its own name: that is the actor of its decisions and runs.
    """

    name: str
    role: Role
    tenants: frozenset[str] = field(default_factory=frozenset)

    @classmethod
    def parse(cls, name: object, role: object, tenants: Iterable[object]) -> "Identity":
        """Read an identity as given by a caller.

        Raises `InvalidIdentifier`, and `InvalidSetting` for another role or no tenant.
        """
        if role not in get_args(Role):
            raise InvalidSetting("role", f"{shown(role)} is none of {', '.join(get_args(Role))}")
        if isinstance(tenants, str) or not isinstance(tenants, Iterable):
            raise InvalidSetting("tenants", f"{shown(tenants)} is no list of tenants")
        granted = frozenset(parse_identifier("tenant id", tenant) for tenant in tenants)
        if not granted:
            raise InvalidSetting("tenants", "none was granted, so nothing could be done")
        return cls(parse_identifier("actor", name), cast(Role, role), granted)

    def authorise(self, request: Request) -> None:
        """Let a request pass, or raise `NotAuthorised`.

        Raises `InvalidSetting` and `InvalidIdentifier` for what is no request.
        """
        right, tenants, actors = _needs(request)
        rights = _RIGHTS[self.role]
        if right in rights and tenants <= self.tenants and actors <= {self.name}:
            return
        asked = f"{right} for {', '.join(sorted(tenants)) or 'nobody'}"
        if strangers := actors - {self.name}:
            asked += f" as {', '.join(sorted(strangers))}"
        may = f"{' and '.join(rights)} for {', '.join(sorted(self.tenants))}"
        raise NotAuthorised(self.name, self.role, may, asked)


def _needs(request: Request) -> tuple[Right, set[str], set[str]]:
    """The right that a request needs, for which tenants, and the actors that it names."""
    match request:
        case Decide():
            return "decide", {_tenant(request.key)}, set()
        case Pass():
            return "decide", {_tenant(key) for key in _listed("keys", request.keys)}, set()
        case Spawn():
            parse_count("callers", request.callers, _MOST_CALLERS)
            runs = parse_requests(request.runs)
            tenants = {parse_identifier("tenant id", run.tenant_id) for run in runs}
            named = (run.actor for run in runs if run.actor is not None)
            return "spawn runs", tenants, {parse_identifier("actor", actor) for actor in named}
        case Read():
            return "read", {_tenant(request.key)}, set()
        case _:
            raise InvalidSetting("request", f"{shown(request)} is none")


def _tenant(key: object) -> str:
    if not isinstance(key, tuple) or len(key) != 2:
        raise InvalidSetting("key", f"{shown(key)} is no pair of tenant and workflow")
    return WorkflowKey.parse(*key).tenant_id


def _listed(setting: str, value: object) -> Iterable[object]:
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise InvalidSetting(setting, f"{shown(value)} is no list")
    return value
