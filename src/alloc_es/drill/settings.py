"""What a drill is told."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from alloc_es.arguments import parse_count
from alloc_es.drill.plan import FaultKind
from alloc_es.errors import InvalidSetting
from alloc_es.harness import Mode
from alloc_es.harness.launcher import OPENER

_MOST_ROUNDS = 1_000_000
_MOST_PARTICIPANTS = 64

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
    the same faults in the same rounds.
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
        wanted = {kind for kind, count in self.faults.items() if count}
        if self.mode != "process" and (asked := wanted & _NEED_PROCESSES):
            problem = f"{_listed(asked)} can befall processes only; use --mode process"
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

    @property
    def on_postgres(self) -> bool:
        """Whether the store is a PostgreSQL server."""
        return self.url.startswith(("postgresql:", "postgres:"))

    @property
    def needs_proxy(self) -> bool:
        """Whether a proxy has to stand between the participants and the server."""
        kinds: tuple[FaultKind, ...] = ("lost reply", "cut", "delay", "black hole")
        return any(self.faults.get(kind) for kind in kinds)


def _listed(kinds: set[FaultKind]) -> str:
    return ", ".join(sorted(kinds))
