"""What the two logs must show about every run; pure functions over recorded events.

Each takes the decisions and the runs of a store in the order of their positions and returns
a finding for every run that breaks its rule; none where the rule was kept. `began_behind`
says of some runs, by the name of their stream, behind which decision their call began: the
position of one whose own call had returned by then.
"""

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from alloc_es import DecisionEvent, Recorded, RunSpawned, WorkflowKey, bucket_of
from alloc_es.allocation import Allocation

Decisions = Sequence[Recorded[DecisionEvent]]
Runs = Sequence[Recorded[RunSpawned]]


class Finding(NamedTuple):
    """A run that broke a rule: its position in the run log, its id, and what is wrong."""

    position: int
    run_id: str
    problem: str


class Timeline:
    """What held for each workflow at each position of the decision log."""

    def __init__(self, decisions: Decisions) -> None:
        self._positions: defaultdict[WorkflowKey, list[int]] = defaultdict(list)
        self._allocations: defaultdict[WorkflowKey, list[Allocation]] = defaultdict(list)
        for each in decisions:
            self._positions[each.event.key].append(each.position)
            self._allocations[each.event.key].append(each.event.allocation)

    def at(self, key: WorkflowKey, position: int) -> Allocation | None:
        """The newest allocation of a workflow at a position; None before its first."""
        count = bisect_right(self._positions[key], position)
        return self._allocations[key][count - 1] if count else None

    def between(self, key: WorkflowKey, first: int, last: int) -> Sequence[Allocation]:
        """What held at position `first` and whatever came after it, up to `last`."""
        positions = self._positions[key]
        begin = bisect_right(positions, first) - 1
        return self._allocations[key][max(begin, 0) : max(begin + 1, bisect_right(positions, last))]

    def generation(self, key: WorkflowKey, generation: int) -> Allocation | None:
        """The allocation that a generation made, or None."""
        allocations = self._allocations[key]
        return allocations[generation - 1] if 0 < generation <= len(allocations) else None


def superseded(decisions: Decisions, runs: Runs) -> list[Finding]:
    """Runs whose generation was not the newest of its workflow at their decision position."""
    timeline = Timeline(decisions)
    return _findings(runs, (_superseded(timeline, each.event) for each in runs))


def misrouted(decisions: Decisions, runs: Runs) -> list[Finding]:
    """Runs that say anything else than what follows from their unit and generation."""
    timeline = Timeline(decisions)
    return _findings(runs, (_misrouted(timeline, each.event) for each in runs))


def doubled(runs: Runs) -> list[Finding]:
    """Runs whose id their tenant has given out before."""
    seen: Counter[str] = Counter()
    problems = []
    for each in runs:
        earlier = seen[each.event.originator_id]
        seen[each.event.originator_id] += 1
        problems.append("its id was recorded before" if earlier else None)
    return _findings(runs, problems)


def verified_too_early(runs: Runs, began_behind: Mapping[str, int]) -> list[Finding]:
    """Runs that were verified at a position before a decision that they began behind."""
    return _findings(runs, (_too_early(each.event, began_behind) for each in runs))


def out_of_service(
    decisions: Decisions, runs: Runs, began_behind: Mapping[str, int]
) -> list[Finding]:
    """Runs on a version that served at no moment from their call's beginning on.

    A version that was rejected, or superseded, before the call began may have come back
    before the run was verified; else nothing may be on it.
    """
    timeline = Timeline(decisions)
    return _findings(runs, (_out_of_service(timeline, each.event, began_behind) for each in runs))


def _superseded(timeline: Timeline, run: RunSpawned) -> str | None:
    if run.decision_position is None:
        return "it was not verified"
    held = timeline.at(run.key, run.decision_position)
    if held is None:
        return f"nothing was decided on {run.key} at position {run.decision_position}"
    if held.generation != run.generation:
        return (
            f"it is of generation {run.generation} of {run.key}, and at position "
            f"{run.decision_position} generation {held.generation} was the newest"
        )
    return None


def _misrouted(timeline: Timeline, run: RunSpawned) -> str | None:
    allocation = timeline.generation(run.key, run.generation)
    if allocation is None:
        return f"{run.key} has no generation {run.generation}"
    said = (run.version, run.arm, run.bucket, run.slot)
    episode = (run.episode, run.salt, run.hash_version)
    if episode != (allocation.episode, allocation.salt, allocation.hash_version):
        return f"its episode, salt and hash version are not those of generation {run.generation}"
    bucket = bucket_of(run.unit, salt=allocation.salt, hash_version=allocation.hash_version)
    (owed,) = (
        (arm.version, arm.name, bucket, slot)
        for arm in allocation.arms
        for slot in arm.slots
        if slot[0] <= bucket < slot[1]
    )
    return None if said == owed else f"it says {said}, and its generation says {owed}"


def _too_early(run: RunSpawned, began_behind: Mapping[str, int]) -> str | None:
    floor = began_behind.get(run.originator_id, 0)
    if run.decision_position is not None and run.decision_position >= floor:
        return None
    return f"it began behind position {floor} and was verified at {run.decision_position}"


def _out_of_service(
    timeline: Timeline, run: RunSpawned, began_behind: Mapping[str, int]
) -> str | None:
    floor = began_behind.get(run.originator_id, 0)
    served = timeline.between(run.key, floor, run.decision_position or 0)
    if any(arm.version == run.version for allocation in served for arm in allocation.arms):
        return None
    return f"it is on {run.version}, which was out of service from position {floor} on"


def _findings(runs: Runs, problems: Iterable[str | None]) -> list[Finding]:
    return [
        Finding(each.position, each.event.run_id, problem)
        for each, problem in zip(runs, problems, strict=True)
        if problem
    ]
