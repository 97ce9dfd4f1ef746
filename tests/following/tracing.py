"""A read model that shows in which order, and how often, events were applied."""

from collections import Counter
from collections.abc import Callable, Sequence
from threading import Condition
from typing import Any

import pytest

from alloc_es import Allocations, Column, Projection, Rows, Table
from alloc_es.applying import Applier
from alloc_es.identity import WorkflowKey
from alloc_es.store import Recorded
from alloc_es.store.recorder import LogName

PATIENCE = 30.0
"""Seconds after which what was waited for counts as never coming."""

_WHOSE = (Column("tenant_id", "text", "Whose."), Column("workflow_id", "text", "Whose."))


def tracing(log: LogName, before: Callable[[], object] = lambda: None) -> Projection:
    """Numbers the events of each workflow as they are applied, so that none goes twice unseen.

    `before` is called in front of each batch.
    """
    trace = Table(
        f"trace_{log}",
        "The events of a log, as they came.",
        (
            *_WHOSE,
            Column("sequence", "integer", "Which it was, from 1."),
            Column("position", "integer", "Its position."),
        ),
        key=("tenant_id", "workflow_id", "sequence"),
    )
    ends = Table(
        f"trace_{log}_ends",
        "How many came so far.",
        (*_WHOSE, Column("last", "integer", "The last sequence.")),
        key=("tenant_id", "workflow_id"),
    )

    def apply(events: Sequence[Recorded[Any]], rows: Rows) -> None:
        before()
        keys = {entry.event.key for entry in events}
        last = {(row[0], row[1]): row[2] for row in rows.of(ends.name, keys)}
        added = []
        for entry in events:
            key = tuple(entry.event.key)
            last[key] = last.get(key, 0) + 1
            added.append((*key, last[key], entry.position))
        rows.insert(trace.name, added)
        rows.put(ends.name, [(*key, number) for key, number in last.items()])

    return Projection(trace.name, 1, "The order of events.", (log,), (trace, ends), apply)


TRACE = tracing("runs")
NAME = TRACE.name


Places = list[tuple[str, str, int, int]]
"""Tenant, workflow, sequence and position of events, sorted."""


def traced(allocations: Allocations, projection: Projection = TRACE) -> Places:
    """What was applied, and as which of its workflow's events."""
    columns = "tenant_id, workflow_id, sequence, position"
    with allocations._store.desk.reading() as session:
        found = session.rows(f"SELECT {columns} FROM {projection.name}")
    return sorted((row[0], row[1], row[2], row[3]) for row in found)


def expected(allocations: Allocations, projection: Projection = TRACE) -> Places:
    """What the trace must be: each event of the log once, in its order."""
    seen: Counter[WorkflowKey] = Counter()
    places: Places = []
    events = allocations.runs() if projection.logs == ("runs",) else allocations.decisions()
    for entry in events:
        key = entry.event.key
        seen[key] += 1
        places.append((*key, seen[key], entry.position))
    return sorted(places)


def in_batches_of(events: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Apply so many events at a time."""
    defaults = Applier.step.__kwdefaults__
    assert defaults is not None
    monkeypatch.setitem(defaults, "limit", events)


BUILT = "is built, its views are there"
"""What a follower tells of a first build, which no test here is about."""


class Told:
    """Keeps what a follower tells of trouble, for tests that wait for it."""

    def __init__(self) -> None:
        self.sentences: list[str] = []
        self._changed = Condition()

    def __call__(self, sentence: str) -> None:
        if BUILT in sentence:
            return
        with self._changed:
            self.sentences.append(sentence)
            self._changed.notify_all()

    def about(self, text: str) -> list[str]:
        """The sentences that hold a text."""
        return [sentence for sentence in self.sentences if text in sentence]

    def await_about(self, text: str, times: int = 1) -> None:
        """Return once so many sentences hold a text."""
        with self._changed:
            came = self._changed.wait_for(lambda: len(self.about(text)) >= times, PATIENCE)
        assert came, f"nothing about {text!r} in {self.sentences}"
