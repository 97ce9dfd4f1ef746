"""What held for each workflow at each position of the decision log."""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from alloc_es.allocation import Allocation
from alloc_es.events import DecisionEvent, Recorded
from alloc_es.identity import WorkflowKey
from alloc_es.routing import Router

_MOST_ROUTERS = 4_096
_NOWHERE: Mapping[int, int] = {}


class Link(NamedTuple):
    """A decision in the chain of its stream: its digest, and whether it carries one itself."""

    digest: str
    chained: bool


class Timeline:
    """The allocations of a decision log, held in memory; add decisions in their order."""

    def __init__(self, decisions: Iterable[Recorded[DecisionEvent]] = ()) -> None:
        self.end = 0
        """The position of the last decision, 0 before the first.

        Runs are verified at the end of the whole log: whoever adds one tenant's decisions
        only sets this to the position at which that log ends.
        """
        self._positions: defaultdict[WorkflowKey, list[int]] = defaultdict(list)
        self._allocations: defaultdict[WorkflowKey, list[Allocation]] = defaultdict(list)
        self._generations: dict[tuple[WorkflowKey, int], Allocation] = {}
        self._links: dict[tuple[WorkflowKey, int], Link] = {}
        self._routers: dict[tuple[WorkflowKey, int], Router] = {}
        self._unread: defaultdict[WorkflowKey, dict[int, int]] = defaultdict(dict)
        for each in decisions:
            self.add(each)

    def add(self, decision: Recorded[DecisionEvent]) -> None:
        """Take in the next decision."""
        key, allocation = decision.event.key, decision.event.allocation
        self.end = decision.position
        self._positions[key].append(decision.position)
        self._allocations[key].append(allocation)
        self._generations[key, allocation.generation] = allocation
        link = Link(decision.digest, decision.event.previous_digest is not None)
        self._links[key, allocation.generation] = link

    def pass_over(self, key: WorkflowKey, generation: int, position: int) -> None:
        """A decision can't be read: what its generation was like is not known."""
        self._unread[key][generation] = position

    @property
    def keys(self) -> Sequence[WorkflowKey]:
        """The workflows that were decided on, in the order of their first decisions."""
        return list(self._allocations)

    def of(self, key: WorkflowKey) -> Sequence[Allocation]:
        """Every allocation of a workflow, in the order of its decisions."""
        return self._allocations.get(key, [])

    def last(self, key: WorkflowKey) -> Allocation | None:
        """The allocation of the last decision on a workflow; None before its first."""
        allocations = self._allocations.get(key)
        return allocations[-1] if allocations else None

    def at(self, key: WorkflowKey, position: int) -> Allocation | None:
        """The newest allocation of a workflow at a position; None before its first."""
        count = bisect_right(self._positions.get(key, ()), position)
        return self._allocations[key][count - 1] if count else None

    def between(self, key: WorkflowKey, first: int, last: int) -> Sequence[Allocation]:
        """What held at position `first` and whatever came after it, up to `last`."""
        positions = self._positions.get(key, ())
        begin = bisect_right(positions, first) - 1
        end = max(begin + 1, bisect_right(positions, last))
        return self._allocations.get(key, [])[max(begin, 0) : end]

    def generation(self, key: WorkflowKey, generation: int) -> Allocation | None:
        """The allocation that a generation made, or None."""
        return self._generations.get((key, generation))

    def newest_during(self, key: WorkflowKey, generation: int) -> tuple[int, int] | None:
        """The positions `[first, end)` at which a generation was the newest of its workflow.

        None where the generations of the workflow are not 1, 2, 3, … up to it.
        """
        allocations, positions = self.of(key), self._positions.get(key, ())
        if not 0 < generation <= len(allocations):
            return None
        if allocations[generation - 1].generation != generation:
            return None
        first = positions[generation - 1]
        later = positions[generation] if generation < len(positions) else self.end + 1
        unread = self._unread.get(key, _NOWHERE).values()
        return first, min([later, *(position for position in unread if position > first)])

    def is_unread(self, key: WorkflowKey, generation: int | None) -> bool:
        """Whether the decision that made a generation can't be read."""
        return generation in self._unread.get(key, _NOWHERE)

    def unread_at(self, key: WorkflowKey, position: int) -> int | None:
        """The newest generation of a workflow at a position if it can't be read, else None."""
        positions = self._positions.get(key, ())
        count = bisect_right(positions, position)
        known = positions[count - 1] if count else 0
        unread = self._unread.get(key, _NOWHERE).items()
        behind = [(at, generation) for generation, at in unread if known < at <= position]
        return max(behind)[1] if behind else None

    def link(self, key: WorkflowKey, generation: int) -> Link | None:
        """The decision that made a generation as others are chained to it, or None."""
        return self._links.get((key, generation))

    def router(self, key: WorkflowKey, generation: int) -> Router | None:
        """The router of a generation, or None; kept for the next run of it, for a while."""
        router = self._routers.get((key, generation))
        if router is None and (allocation := self.generation(key, generation)):
            if len(self._routers) >= _MOST_ROUTERS:
                self._routers.clear()
            router = self._routers[key, generation] = Router(allocation)
        return router
