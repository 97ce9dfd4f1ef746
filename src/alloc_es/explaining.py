"""Why a run got its version: what was recorded, computed again from the decision it names."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from alloc_es.events import DecisionEvent, Recorded, RunSpawned
from alloc_es.routing import Router, Routing


class Deviation(NamedTuple):
    """A `field` of a run that is `recorded` as something else than it is `recomputed` as."""

    field: str
    recorded: object
    recomputed: object


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a run got its version, and whether that is what follows.

    `decision` made the generation of the `run`, and is None where the log does not have it;
    `following` is the next one on the workflow, None where there is none. `recomputed` is
    where the run's unit goes by the decision, and `differences` are the fields in which the
    run says something else. `verified` is whether the generation was the newest at the run's
    decision position, and `digest_matches` whether the decision is the one whose digest the
    run carries; both are None where it can't be told, because the decision is missing, or an
    older release recorded the run without.
    """

    run: Recorded[RunSpawned]
    decision: Recorded[DecisionEvent] | None
    following: Recorded[DecisionEvent] | None
    recomputed: Routing | None
    differences: tuple[Deviation, ...]
    verified: bool | None
    digest_matches: bool | None

    @property
    def holds(self) -> bool:
        """Whether nothing that was recorded contradicts what follows from the decisions."""
        told = (self.decision is not None, self.verified, self.digest_matches)
        return not self.differences and False not in told


def explain(run: Recorded[RunSpawned], decisions: Iterable[Recorded[DecisionEvent]]) -> Explanation:
    """Explain a run by decisions on its workflow: the one that it names and the next, or all."""
    wanted = run.event.generation
    found = {each.generation: each for each in decisions if each.event.key == run.event.key}
    decision, following = found.get(wanted), found.get(wanted + 1)
    if decision is None:
        return Explanation(run, None, following, None, (), None, None)
    owed = Router(decision.event.allocation).route(run.event.unit)
    return Explanation(
        run=run,
        decision=decision,
        following=following,
        recomputed=owed,
        differences=deviations(run.event, owed),
        verified=_was_newest(run.event, decision, following),
        digest_matches=_matches(run.event, decision),
    )


def deviations(run: RunSpawned, owed: Routing) -> tuple[Deviation, ...]:
    """The fields in which a run says something else than where its unit goes."""
    pairs = ((name, getattr(run, name), right) for name, right in owed._asdict().items())
    return tuple(Deviation(*each) for each in pairs if each[1] != each[2])


def _was_newest(
    run: RunSpawned,
    decision: Recorded[DecisionEvent],
    following: Recorded[DecisionEvent] | None,
) -> bool | None:
    position = run.decision_position
    if position is None:
        return None
    return decision.position <= position and (following is None or position < following.position)


def _matches(run: RunSpawned, decision: Recorded[DecisionEvent]) -> bool | None:
    return None if run.decision_digest is None else run.decision_digest == decision.digest
