"""Where in the run log to begin to read for what was recorded since a time."""

from datetime import datetime, timedelta
from itertools import islice

from alloc_es.archive_errors import RunsArchived
from alloc_es.events import Recorded
from alloc_es.evidence import Evidence
from alloc_es.store.recorder import LOWEST

SKEW = timedelta(hours=1)
"""How far the clocks of spawners may be apart: so much earlier the reading begins."""

_PAGE = 1_000


def first_since(evidence: Evidence, since: datetime, end: int) -> int:
    """A position behind which every run that was recorded from a time on lies.

    Runs lie in the order in which they were committed, which their times follow but for the
    spawners' clocks. So 1,000 runs in a row that are all older by more than `SKEW` are believed to
    lie behind older ones alone; a few wrong clocks are not. Raises
    `RunsArchived` where it may be in an archive that is not at hand.
    """
    try:
        time = since - SKEW
    except OverflowError:
        return LOWEST
    first, last = LOWEST, end
    while max(first, 0) < last:
        middle = (max(first, 0) + last) // 2
        try:
            older = _older(evidence, middle, end, time)
        except RunsArchived as error:
            older = _older(evidence, error.archived_to, end, time)
            if older is None:
                raise
        if older is None:
            last = middle
        else:
            first = older
    return first


def _older(evidence: Evidence, after: int, end: int, time: datetime) -> int | None:
    """The position of the last of the next runs, if all of them are older."""
    page = islice(evidence.runs(after, end), _PAGE)
    runs = [each for each in page if isinstance(each, Recorded)]
    if not runs or any(each.time >= time for each in runs):
        return None
    return runs[-1].position
