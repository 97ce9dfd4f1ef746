"""What a drill found out: counts, and whatever was not as it was promised."""

from collections.abc import Mapping
from dataclasses import dataclass

from alloc_es.drill.plan import FaultKind

PROMISES: Mapping[str, str] = {
    "acknowledged": "Every decision that was acknowledged is in the log, once, as acknowledged.",
    "refused": "Nothing that was refused, or lost to another, is in the log.",
    "one winner": "Of those who decide on one generation one at most is let through.",
    "winner named": "Whoever loses is told which event took the place.",
    "runs": "Every run that was acknowledged is in the log, once, as acknowledged.",
    "settled": "Whatever was in doubt is settled by asking again.",
    "linearizable": "All decisions and reads of a workflow can be put in one order that fits time.",
    "back in service": "Clients work again within 5 seconds of the server, without a restart.",
    "strangers": "Nobody but the drill writes to its tenant; if somebody does, it proves nothing.",
    "asked for": "What the logs hold by the drill's own participants was asked of them.",
    "let through": "Where nothing is broken, in the first round, somebody is let through.",
    "again": "The same command id, or run id, again returns what was done and does nothing.",
    "one life": "A participant that has a successor records nothing any more.",
    "alive": "No participant ends but by the drill's hand.",
}
"""Name → text of each promise that a drill holds the logs against, besides the rules."""

BACK_WITHIN = 5.0
"""Seconds from the server's return to the first answer to a client that was connected."""


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that was not kept: a name in `PROMISES` or in the rules, and what happened."""

    rule: str
    text: str
    problem: str

    def __str__(self) -> str:
        return f"{self.problem} ({self.rule}: {self.text})"


@dataclass(frozen=True, slots=True)
class Score:
    """How one scheduler's commands ended; together they are the rounds that it played.

    `unchanged` held already, `refused` were told that nothing was recorded, for want of a
    store or by the rules, and of `unsettled` it was never known.
    """

    won: int
    lost: int
    unchanged: int
    refused: int
    unsettled: int


@dataclass(frozen=True, slots=True)
class Verdict:
    """The outcome of a drill; `problems` is empty when everything was kept.

    `decisions` and `runs` are what the logs hold of the tenant. `conflicts` were lost, of
    which `lost_at_commit` in the store. `settled` are the requests whose first answer was
    lost or in doubt. `rerouted` counts runs that a decision overtook, as far as participants
    that live could say; None if none could. `planned` are the faults that the seed planned,
    and `faults` those that have happened: a trap that nobody stepped into is none. `outages`
    are the seconds from each return of the server to the first answer. `left_in` says which
    read models could not be told to leave the tenant out, and why.
    """

    store: str
    tenant: str
    mode: str
    seed: int
    rounds: int
    seconds: float
    scores: Mapping[str, Score]
    decisions: int
    runs: int
    conflicts: int
    lost_at_commit: int
    settled: int
    rerouted: int | None
    restarted: int
    planned: Mapping[FaultKind, int]
    faults: Mapping[FaultKind, int]
    outages: tuple[float, ...]
    left_in: Mapping[str, str]
    problems: tuple[Problem, ...]

    @property
    def lost(self) -> int:
        """How many decisions and runs were acknowledged and are not in the logs as acknowledged."""
        return self._found("acknowledged", "runs")

    @property
    def doubled(self) -> int:
        """How many generations were won twice, and ids that are recorded, or acted on, twice."""
        return self._found("one winner", "run_ids", "again")

    @property
    def passed(self) -> bool:
        """Whether nothing was found."""
        return not self.problems

    @property
    def disturbed(self) -> bool:
        """Whether somebody else wrote to the tenant, so that nothing is proved."""
        return any(problem.rule == "strangers" for problem in self.problems)

    def _found(self, *rules: str) -> int:
        return sum(problem.rule in rules for problem in self.problems)
