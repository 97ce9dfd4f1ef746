"""Who a participant is, what it may do, and what it can be asked."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Literal, assert_never, get_args

from alloc_es.allocation import Allocation
from alloc_es.errors import InvalidSetting
from alloc_es.harness.errors import NotAuthorised
from alloc_es.identity import WorkflowKey, parse_identifier
from alloc_es.proposals import Proposal
from alloc_es.spawning import SpawnRequest, parse_requests
from alloc_es.wording import shown

Role = Literal["scheduler", "spawner", "observer"]

_MAY = {"scheduler": "decide and read", "spawner": "spawn runs and read", "observer": "read"}


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
    """Spawn runs; the request can be sent again, as run ids stand for their runs.

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
    its tenants only. The name is the actor that its decisions and runs are recorded with.
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
        return cls(parse_identifier("actor", name), role, granted)  # type: ignore[arg-type]

    def authorise(self, request: Request) -> None:
        """Let a request pass, or raise `NotAuthorised`."""
        needed, tenants = _needs(request)
        asked = f"{needed} for {', '.join(sorted(tenants)) or 'nobody'}"
        if needed.partition(" ")[0] not in _MAY[self.role] or not tenants <= self.tenants:
            may = f"{_MAY[self.role]} for {', '.join(sorted(self.tenants))}"
            raise NotAuthorised(self.name, self.role, may, asked)


def _needs(request: Request) -> tuple[str, set[str]]:
    """What a request needs the right to, and for which tenants."""
    match request:
        case Decide():
            return "decide", {request.key.tenant_id}
        case Pass():
            return "decide", {key.tenant_id for key in request.keys}
        case Spawn():
            return "spawn runs", {run.tenant_id for run in parse_requests(request.runs)}
        case Read():
            return "read", {request.key.tenant_id}
        case _:
            assert_never(request)
