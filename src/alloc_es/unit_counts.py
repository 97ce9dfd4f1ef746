"""How many units came to each version in each generation, counted from the runs."""

from collections import defaultdict
from hashlib import blake2b
from operator import itemgetter
from typing import Any

from alloc_es.allocation import Allocation
from alloc_es.events import RunSpawned
from alloc_es.identity import TenantId, WorkflowId, WorkflowKey
from alloc_es.rules.timeline import Timeline
from alloc_es.sample_ratio import Epoch

# Of a million units of one episode two share a digest with a chance of one in 10^5, and then
# one of them is not counted.
_DIGEST_BYTES = 7

_Cell = tuple[str, str, int, str]
_cell_of = itemgetter("tenant_id", "workflow_id", "generation", "version")

_Episode = tuple[str, str, int]
_episode_of = itemgetter("tenant_id", "workflow_id", "episode")


class UnitCounts:
    """Counts of units by generation and version; add runs in the order of their positions.

    A unit is counted once in an episode, where its first run went: it stays there, so its
    later runs tell nothing new. A run that is its own unit is not remembered, only counted;
    of each other unit a short digest is kept. It can be pickled.
    """

    def __init__(self) -> None:
        self._units: defaultdict[_Cell, int] = defaultdict(int)
        self._first: defaultdict[_Episode, dict[int, _Cell]] = defaultdict(dict)
        # One tuple for all units of a cell, as there may be millions.
        self._cells: dict[_Cell, _Cell] = {}

    def add(self, run: RunSpawned) -> None:
        """Count the run's unit, if it is new in its episode."""
        # Half the time of reading a model's attributes one by one, for millions of runs.
        fields = run.__dict__
        cell = _cell_of(fields)
        if fields["unit"] == fields["run_id"] or self._is_new(fields, cell):
            self._units[cell] += 1

    def _is_new(self, fields: dict[str, Any], cell: _Cell) -> bool:
        digest = blake2b(fields["unit"].encode(), digest_size=_DIGEST_BYTES).digest()
        unit, first = int.from_bytes(digest), self._first[_episode_of(fields)]
        known = unit in first
        if not known:
            first[unit] = self._cells.setdefault(cell, cell)
        return not known

    def merge(self, later: "UnitCounts") -> None:
        """Add the counts of a later part of the log; those stay as they are.

        A unit that is in both is counted where it was seen first.
        """
        for cell, units in later._units.items():
            self._units[cell] += units
        for episode, units_of in later._first.items():
            first = self._first[episode]
            for unit, cell in units_of.items():
                if unit in first:
                    self._units[cell] -= 1
                else:
                    first[unit] = self._cells.setdefault(cell, cell)

    def epochs(self, timeline: Timeline) -> dict[WorkflowKey, list[Epoch]]:
        """The epochs of every workflow of a timeline, for `sample_ratio`; also those without runs.

        Runs of generations that the timeline does not have are left out.
        """
        observed: defaultdict[tuple[WorkflowKey, int], dict[str, int]] = defaultdict(dict)
        for (tenant_id, workflow_id, generation, version), units in self._units.items():
            key = WorkflowKey(TenantId(tenant_id), WorkflowId(workflow_id))
            observed[key, generation][version] = units
        return {
            key: [_epoch(each, observed[key, each.generation]) for each in timeline.of(key)]
            for key in timeline.keys
        }


def _epoch(allocation: Allocation, observed: dict[str, int]) -> Epoch:
    split = allocation.split.items()
    shares: dict[str, int] = {version: share for version, share in split if share}
    return Epoch(allocation.episode, allocation.generation, shares, observed)
