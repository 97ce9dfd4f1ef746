"""What exports in either format have in common while they are written."""

from collections.abc import Mapping
from typing import Any, NamedTuple, TypeGuard

from alloc_es import codec
from alloc_es.evidence import Evidence
from alloc_es.store.recorder import LOGS, UNLIMITED, LogName


class Written(NamedTuple):
    """How far an export goes, how many events of each log it holds, and how many positions of
    both logs an earlier call had exported, which was interrupted."""

    ends: Mapping[LogName, int]
    counts: Mapping[LogName, int]
    kept: int


def are_ends(said: Any) -> TypeGuard[Mapping[LogName, int]]:
    """Whether what a file says of the last positions of both logs can be that."""
    return isinstance(said, dict) and all(
        type(said.get(log)) is int and 0 <= said[log] <= UNLIMITED for log in LOGS
    )


def has_at(evidence: Evidence, log: LogName, position: int, digest: str | None) -> bool:
    """Whether a log has, at a position, the event with a digest; at 0 it has none."""
    rows = evidence.stored(log, position - 1, position) if position else iter(())
    found = [codec.digest(bytes(row.state)) for row in rows]
    return found == ([] if digest is None else [digest])


def continues(evidence: Evidence, held: Evidence) -> bool:
    """Whether a log begins as another one does, which ends no later: by its last events."""
    ends, now = held.ends(), evidence.ends()
    for log in LOGS:
        last = next(iter(held.stored(log, ends[log] - 1, ends[log])), None) if ends[log] else None
        digest = codec.digest(bytes(last.state)) if last else None
        if ends[log] > now[log] or not has_at(evidence, log, ends[log], digest):
            return False
    return True
