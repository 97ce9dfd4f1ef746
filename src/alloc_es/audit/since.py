"""Where in the run log to begin to read for what was recorded since a time."""

from datetime import datetime, timedelta

from alloc_es.evidence import Evidence, Unreadable

SKEW = timedelta(hours=1)
"""How far the clocks of spawners may be apart: so much earlier the reading begins."""


def first_since(evidence: Evidence, since: datetime, end: int) -> int:
    """A position behind which every run that was recorded from a time on lies.

    Runs lie in the order in which they were committed, which their times follow but for the
    spawners' clocks.
    """
    first, last = 0, end
    while first < last:
        middle = (first + last) // 2
        each = next(evidence.runs(middle, end), None)
        if each is None or isinstance(each, Unreadable) or each.time >= since - SKEW:
            last = middle
        else:
            first = each.position
    return first
