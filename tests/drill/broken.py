"""Stores that break one promise each: what opens them for the participants of a drill."""

import sqlite3
from collections import defaultdict
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from threading import Barrier
from typing import Any, cast

from eventsourcing.persistence import RecordConflictError

from alloc_es import StoreUnavailable
from alloc_es.codec import POSITION, digest, encode
from alloc_es.events import DecisionEvent
from alloc_es.store import Recorded, Store, open_store
from alloc_es.store.recorder import RunGroup

Append = Callable[[DecisionEvent], Recorded[DecisionEvent]]
Record = Callable[[RunGroup, Callable[..., RunGroup]], int]

_OVERWRITE = (
    "UPDATE decision_events SET state = ? WHERE originator_id = ? AND originator_version = ?"
)


# One for each store: its two schedulers, of one process, append at the same time.
_meetings: defaultdict[str, Barrier] = defaultdict(lambda: Barrier(2, timeout=60))


def _meet(url: str, event: DecisionEvent) -> None:
    """Wait for the other one; behind the rounds there is none."""
    if "again" not in event.command_id:
        _meetings[url].wait()


class Log:
    """A log whose `append`, or `record`, is another one."""

    def __init__(self, log: Any, **others: Any) -> None:
        self._log = log
        vars(self).update(others)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)


def appending(store: Store, append: Append) -> Store:
    return replace(store, decisions=cast(Any, Log(store.decisions, append=append)))


def recording(store: Store, record: Record) -> Store:
    return replace(store, runs=cast(Any, Log(store.runs, record=record)))


def told(store: Store, event: DecisionEvent) -> Recorded[DecisionEvent]:
    """The answer to an append, whatever the log holds."""
    return Recorded(store.decisions.end() + 1, event, digest(encode(event)[1]))


def healthy(url: str, **keywords: Any) -> Store:
    """Nothing is wrong with it, and both schedulers append at the same time."""
    store = open_store(url, **keywords)

    def append(event: DecisionEvent) -> Recorded[DecisionEvent]:
        _meet(url, event)
        return store.decisions.append(event)

    return appending(store, append)


def without_incarnations(url: str, **keywords: Any) -> Store:
    """It takes what an old self records for what its successor does."""
    return open_store(url, **{**keywords, "incarnation": None})


def commands_forgotten(url: str, **keywords: Any) -> Store:
    """It does not know what a command id has done."""
    store = open_store(url, **keywords)
    forgetful = Log(store.decisions, command=lambda _stream, _command_id: None)
    return replace(store, decisions=cast(Any, forgetful))


def nothing_let_through(url: str, **keywords: Any) -> Store:
    """Every decision is refused, in good order."""
    store = open_store(url, **keywords)

    def append(_event: DecisionEvent) -> Recorded[DecisionEvent]:
        raise StoreUnavailable("it takes none", retryable=False)

    return appending(store, append)


def taken_and_acknowledged(url: str, **keywords: Any) -> Store:
    """Whoever comes second to a generation is told that it has made it."""
    store = open_store(url, **keywords)

    def append(event: DecisionEvent) -> Recorded[DecisionEvent]:
        _meet(url, event)
        try:
            return store.decisions.append(event)
        except RecordConflictError:
            return told(store, event)

    return appending(store, append)


def last_write_wins(url: str, **keywords: Any) -> Store:
    """Whoever comes second to a generation overwrites it; see `unprotected`."""
    store = open_store(url, **keywords)

    def append(event: DecisionEvent) -> Recorded[DecisionEvent]:
        _meet(url, event)
        try:
            return store.decisions.append(event)
        except RecordConflictError:
            place = (encode(event)[1], event.originator_id, event.originator_version)
            with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as connection:
                connection.execute(_OVERWRITE, place)
                connection.commit()
            return told(store, event)

    return appending(store, append)


def unprotected(url: str) -> None:
    """Take away what refuses a change of an event."""
    with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as connection:
        connection.execute("DROP TRIGGER decision_events_no_update")
        connection.commit()


def decisions_swallowed(url: str, **keywords: Any) -> Store:
    """A decision is acknowledged and never stored."""
    store = open_store(url, **keywords)
    return appending(store, lambda event: told(store, event))


def decisions_doubled(url: str, **keywords: Any) -> Store:
    """A decision is stored again, as the next one and under another command id."""
    store = open_store(url, **keywords)

    def append(event: DecisionEvent) -> Recorded[DecisionEvent]:
        recorded = store.decisions.append(event)
        allocation = event.allocation
        again = {
            "command_id": f"{event.command_id}-again",
            "allocation": allocation.model_copy(update={"generation": allocation.generation + 1}),
        }
        store.decisions.append(event.model_copy(update=again))
        return recorded

    return appending(store, append)


def lost_replies_refused(url: str, **keywords: Any) -> Store:
    """A decision is stored, its answer is lost, and that is told as if nothing were stored."""
    store = open_store(url, **keywords)

    def append(event: DecisionEvent) -> Recorded[DecisionEvent]:
        store.decisions.append(event)
        raise StoreUnavailable("the connection was lost", retryable=False)

    return appending(store, append)


def runs_swallowed(url: str, **keywords: Any) -> Store:
    """Runs are acknowledged and never stored."""
    store = open_store(url, **keywords)
    return recording(store, lambda _group, _reroute: store.decisions.end())


def runs_doubled(url: str, **keywords: Any) -> Store:
    """Runs are stored again, under other ids."""
    store = open_store(url, **keywords)

    def record(group: RunGroup, reroute: Callable[..., RunGroup]) -> int:
        position = store.runs.record(group, reroute)
        again = group._replace(
            streams=[stream.replace("/run-", "/again-") for stream in group.streams],
            states=[state.replace('"run_id":"run-', '"run_id":"again-') for state in group.states],
        )
        store.runs.record(again, lambda found: fenced_anew(again, found))
        return position

    return recording(store, record)


def without_fence(url: str, **keywords: Any) -> Store:
    """Runs are stored as they were routed, also behind a decision that came in between."""
    store = open_store(url, **keywords)

    def record(group: RunGroup, _reroute: Callable[..., RunGroup]) -> int:
        return store.runs.record(group, lambda found: fenced_anew(group, found))

    return recording(store, record)


def stamped_old(url: str, **keywords: Any) -> Store:
    """As without a fence, and verified at a position at which the route was the newest."""
    store = open_store(url, **keywords)
    read_at: dict[str, int] = {}

    def record(group: RunGroup, _reroute: Callable[..., RunGroup]) -> int:
        for fence in group.fences.values():
            read_at.setdefault(fence, store.decisions.end())
        position = min(read_at[fence] for fence in group.fences.values())
        states = [state.replace(POSITION, str(position)) for state in group.states]
        old = group._replace(states=states)
        store.runs.record(old, lambda found: fenced_anew(old, found))
        return position

    return recording(store, record)


def fenced_anew(group: RunGroup, found: Any) -> RunGroup:
    """The same runs, as if they were routed by what is the newest now."""
    return group._replace(fences={stream: newest.digest for stream, newest in found.items()})
