"""Which versions served a workflow, as what, from when to when, and how that ended."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from alloc_es.events import (
    AllocationCommitted,
    ChallengerRejectedWithoutReplacement,
    DecisionEvent,
    Recorded,
)
from alloc_es.identity import Version

Role = Literal["current", "challenger"]

Outcome = Literal["promoted", "rejected", "replaced", "dropped", "superseded", "rolled back"]


@dataclass(frozen=True, slots=True)
class Tenure:
    """One time that a version was the current one, or a challenger.

    The decision `began` put it there, and `ended` took it away, with the `outcome`:
    `promoted`, `rejected`, `replaced` or `dropped` of a challenger, `superseded` or `rolled
    back` of a current version. Both are None while it serves. `shares` are the generations at
    which it got another share, each with that share in basis points.
    """

    version: Version
    role: Role
    began: Recorded[DecisionEvent]
    ended: Recorded[DecisionEvent] | None
    outcome: Outcome | None
    shares: tuple[tuple[int, int], ...]

    def covers(self, generation: int) -> bool:
        """Whether the version served in this role at a generation."""
        end = None if self.ended is None else self.ended.generation
        return self.began.generation <= generation and (end is None or generation < end)


def tenures(history: Sequence[Recorded[DecisionEvent]]) -> list[Tenure]:
    """The tenures of a workflow in the order in which they began.

    `history` are its decisions, all of them, oldest first. A challenger that is promoted ends
    one tenure and begins another.
    """
    served: defaultdict[tuple[str, Version, int], list[int]] = defaultdict(list)
    for place, each in enumerate(history):
        for arm in each.event.allocation.arms:
            served[arm.name, arm.version, arm.since_generation].append(place)
    return [
        _tenure(history, "current" if name == "control" else "challenger", version, places)
        for (name, version, _), places in served.items()
    ]


def runs_served(
    tenures: Sequence[Tenure], runs: Mapping[tuple[Version, int], int]
) -> tuple[list[int], int]:
    """How many runs each tenure got, and how many fit none.

    `runs` says how many runs each version got at each generation.
    """
    served, left_over = [0] * len(tenures), 0
    places: defaultdict[Version, list[int]] = defaultdict(list)
    for place, tenure in enumerate(tenures):
        places[tenure.version].append(place)
    for (version, generation), count in runs.items():
        found = [place for place in places[version] if tenures[place].covers(generation)]
        if found:
            served[found[0]] += count
        else:
            left_over += count
    return served, left_over


def _tenure(
    history: Sequence[Recorded[DecisionEvent]], role: Role, version: Version, places: list[int]
) -> Tenure:
    end = places[-1] + 1
    ended = history[end] if end < len(history) else None
    return Tenure(
        version=version,
        role=role,
        began=history[places[0]],
        ended=ended,
        outcome=None if ended is None else outcome(role, version, ended.event),
        shares=_shares([(history[place], version) for place in places]),
    )


def _shares(
    served: Sequence[tuple[Recorded[DecisionEvent], Version]],
) -> tuple[tuple[int, int], ...]:
    """The generations at which a version's share became another one."""
    changes: list[tuple[int, int]] = []
    for each, version in served:
        share = each.event.allocation.split[version]
        if not changes or changes[-1][1] != share:
            changes.append((each.generation, share))
    return tuple(changes)


def outcome(role: Role, version: Version, ended: DecisionEvent) -> Outcome:
    """How the tenure of a version ended, by the decision that took it away."""
    decision = ended.decision if isinstance(ended, AllocationCommitted) else None
    if role == "current":
        return "rolled back" if decision == "rollback" else "superseded"
    if version == ended.allocation.current:
        return "promoted"
    if isinstance(ended, ChallengerRejectedWithoutReplacement):
        return "rejected"
    return "replaced" if decision == "replacement" else "dropped"
