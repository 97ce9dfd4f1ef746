"""Where in the run log to begin to read for what was recorded since a time."""

from datetime import datetime, timedelta
from typing import TypeGuard

from alloc_es.archive_errors import RunsArchived
from alloc_es.events import Recorded, RunSpawned
from alloc_es.evidence import Evidence, Unreadable

SKEW = timedelta(hours=1)
"""How far the clocks of spawners may be apart: so much earlier the reading begins."""


def first_since(evidence: Evidence, since: datetime, end: int) -> int:
    """A position behind which every run that was recorded from a time on lies.

    Runs lie in the order in which they were committed, which their times follow but for the
    spawners' clocks. Raises `RunsArchived` where it may be in an archive that is not at hand.
    """
    first, last = 0, end
    while first < last:
        middle = (first + last) // 2
        try:
            each = next(evidence.runs(middle, end), None)
        except RunsArchived as error:
            each = next(evidence.runs(error.archived_to, end), None)
            if not _is_before(each, since - SKEW):
                raise
        if _is_before(each, since - SKEW):
            first = each.position
        else:
            last = middle
    return first


def _is_before(
    each: Recorded[RunSpawned] | Unreadable | None, time: datetime
) -> TypeGuard[Recorded[RunSpawned]]:
    """Whether whatever lies before it need not be read."""
    return isinstance(each, Recorded) and each.time < time
