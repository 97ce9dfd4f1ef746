"""Run ids that a tenant gave out more than once, found in little memory."""

from array import array
from collections.abc import Iterable, Iterator
from itertools import pairwise

from alloc_es.audit.run_pass import name_of
from alloc_es.events import Recorded, RunSpawned
from alloc_es.evidence import Unreadable
from alloc_es.rules import Finding
from alloc_es.rules.finding import found

_PARTITIONS = 64


def repeated_names(names: Iterable["array[int]"]) -> set[int]:
    """The short names that are there more than once: of one run id, or of two by chance."""
    partitions = [array("q") for _ in range(_PARTITIONS)]
    for each in names:
        for name in each:
            partitions[name % _PARTITIONS].append(name)
    return {
        name
        for partition in partitions
        for name, following in pairwise(sorted(partition))
        if name == following
    }


def repeated_ids(
    repeated: set[int], runs: Iterable[Recorded[RunSpawned] | Unreadable]
) -> Iterator[Finding]:
    """The runs whose own ids were recorded before, of those with a name that is repeated."""
    seen: set[str] = set()
    for each in runs:
        if isinstance(each, Unreadable) or name_of(each.event) not in repeated:
            continue
        stream = each.event.originator_id
        if stream in seen:
            yield found("run_ids", each, "its id was recorded before")
        seen.add(stream)
