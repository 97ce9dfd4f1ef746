"""What a drill is told."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import get_args

from alloc_es.arguments import parse_count
from alloc_es.drill.plan import KINDS, FaultKind
from alloc_es.errors import InvalidSetting
from alloc_es.harness import Mode
from alloc_es.harness.launcher import OPENER
from alloc_es.wording import shown

_MOST_ROUNDS = 1_000_000
_MOST_PARTICIPANTS = 64
_MOST_FAULTS = 1_000_000

_NEED_PROCESSES: frozenset[FaultKind] = frozenset({"kill", "pause", "full disk"})
_NEED_POSTGRES: frozenset[FaultKind] = frozenset(
    {"lost reply", "cut", "delay", "black hole", "termination", "restart"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """A drill on the store `url`: who takes part, for how many rounds, and what befalls them.

    In each round every scheduler decides on the same generation of one of `workflows`
    workflows, while every spawner spawns `runs_per_round` runs. `faults` says how many of
    each kind; `restart` is the shell command that stops the server and starts it again.
    `timeout` is that of the participants' connections, in seconds. The same `seed` plans
    the same faults in the same rounds. `opener` names the function, as "module:function",
    that opens the participants' stores; it is `alloc_es.store.open_store` but for tests.
    """

    url: str
    schedulers: int = 2
    spawners: int = 1
    rounds: int = 100
    mode: Mode = "process"
    workflows: int = 2
    runs_per_round: int = 5
    faults: Mapping[FaultKind, int] = field(default_factory=dict)
    restart: str | None = None
    seed: int = 0
    timeout: float = 5.0
    opener: str = OPENER

    def check(self) -> None:
        """Raise `InvalidSetting` for what can't be done."""
        parse_count("rounds", self.rounds, _MOST_ROUNDS)
        parse_count("schedulers", self.schedulers, _MOST_PARTICIPANTS)
        parse_count("spawners", self.spawners, _MOST_PARTICIPANTS)
        parse_count("workflows", self.workflows, _MOST_PARTICIPANTS)
        self._check_store()
        for kind, count in self.faults.items():
            _check_count(kind, count)
        wanted = {kind for kind, count in self.faults.items() if count}
        if self.mode not in get_args(Mode):
            problem = f"{shown(self.mode)} is none of {', '.join(get_args(Mode))}"
            raise InvalidSetting("mode", problem)
        if self.mode != "process" and (asked := wanted & _NEED_PROCESSES):
            problem = f'{_listed(asked)} can befall processes only; let mode be "process"'
            raise InvalidSetting("faults", problem)
        if not self.on_postgres and (asked := wanted & _NEED_POSTGRES):
            raise InvalidSetting("faults", f"{_listed(asked)} can befall PostgreSQL only")
        if self.on_postgres and "full disk" in wanted:
            problem = "a full disk can be made under a SQLite file only, without being root"
            raise InvalidSetting("faults", problem)
        if "restart" in wanted and not self.restart:
            raise InvalidSetting("restart", "name the command that restarts the server")
        if wanted and self.rounds < 2:
            raise InvalidSetting("rounds", "the first round has no faults; give it two or more")

    def _check_store(self) -> None:
        if self.url.startswith("memory:"):
            problem = "one in memory can't be shared by participants; name one that lasts"
            raise InvalidSetting("store", problem)

    @property
    def on_postgres(self) -> bool:
        """Whether the store is a PostgreSQL server."""
        return is_postgres(self.url)

    @property
    def needs_proxy(self) -> bool:
        """Whether a proxy has to stand between the participants and the server."""
        kinds: tuple[FaultKind, ...] = ("lost reply", "cut", "delay", "black hole")
        return any(self.faults.get(kind) for kind in kinds)


def is_postgres(url: str) -> bool:
    """Whether a store is a PostgreSQL server."""
    return url.startswith(("postgresql:", "postgres:"))


def _check_count(kind: str, count: object) -> None:
    if kind not in KINDS:
        raise InvalidSetting("faults", f"{shown(kind)} is none of {', '.join(KINDS)}")
    if not isinstance(count, int) or not 0 <= count <= _MOST_FAULTS:
        problem = f"{shown(count)} of {kind} is no count up to {_MOST_FAULTS:,}"
        raise InvalidSetting("faults", problem)


def _listed(kinds: set[FaultKind]) -> str:
    return ", ".join(sorted(kinds))
