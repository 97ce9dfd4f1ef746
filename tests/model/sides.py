"""One store, driven by calls, and everything that a call's outcome says."""

from bisect import bisect_right
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from time import monotonic
from typing import Any

import alloc_es
from alloc_es import Allocation, AllocationError, Allocations, RunSpawned, Workflow
from alloc_es.clock import Patience
from alloc_es.store import EventLog, Recorded

Key = tuple[str, str]

FIRST, SECOND = "first", "second"


class Sources:
    """Time and ids that are the same for the same step, whoever asks."""

    def __init__(self) -> None:
        self.begin(0)

    def begin(self, step: int) -> None:
        """Let a step begin; the clock stands still during one and may be asked at will."""
        self._step = step
        self._ids = 0

    def clock(self) -> datetime:
        # Every third step is an hour behind.
        hours = 0 if self._step % 3 else -1
        return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(hours=hours, seconds=self._step)

    def monotonic(self) -> float:
        """A clock by which nothing that an earlier step has read is new enough to be told."""
        return monotonic() + 2 * self._step

    def new_id(self) -> str:
        self._ids += 1
        return f"id-{self._step}-{self._ids}"


@dataclass(frozen=True)
class Call:
    """A method of a workflow and what it is called with, by one of two connections."""

    key: Key
    method: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    by: str = FIRST

    def on(self, workflow: Workflow) -> object:
        return getattr(workflow, self.method)(**self.arguments)


@dataclass(frozen=True)
class Outcome:
    """What became of a call: what it returned, or the refusal with all it says."""

    result: object = None
    error: object = None


class Side:
    """A store with two connections to it, `first` and `second`."""

    def __init__(self, first: Allocations, second: Allocations) -> None:
        self.first = first
        self.second = second
        self.start = (first.position(), run_position(first))

    def run(self, call: Call) -> Outcome:
        allocations = self.first if call.by == FIRST else self.second
        return self._outcome(lambda: call.on(allocations.workflow(*call.key)))

    def run_overtaken(self, call: Call, rival: Call) -> list[Outcome]:
        """Run a call of the first connection; a rival of the second comes before its append.

        Returns both outcomes, only the call's own if it never came to append anything.
        """
        log = self.first._store.decisions
        rivals: list[Outcome] = []

        def append(event: Any) -> Recorded[Any]:
            del vars(log)["append"]
            rivals.append(self._outcome(lambda: rival.on(self.second.workflow(*rival.key))))
            return log.append(event)

        vars(log)["append"] = append
        try:
            own = self._outcome(lambda: call.on(self.first.workflow(*call.key)))
        finally:
            vars(log).pop("append", None)
        return [own, *rivals]

    def allocation(self, key: Key) -> Allocation:
        return self.first.workflow(*key).allocation()

    def history(self, key: Key, by: str = FIRST) -> list[Any]:
        """The events of a key, oldest first; empty if it was never started."""
        outcome = self.run(Call(key, "history", by=by))
        return [each.event for each in outcome.result] if isinstance(outcome.result, list) else []

    def decisions(self) -> list[Any]:
        """The events of all keys since the side was made, in commit order."""
        return [each.event for each in self.first.decisions(after=self.start[0])]

    def runs(self) -> list[Any]:
        """The runs since the side was made, in commit order."""
        return [self._plain(each.event) for each in self.first.runs(after=self.start[1])]

    @property
    def rerouted(self) -> int:
        """How many runs a decision has overtaken, since the connections were made."""
        return self.first.spawn_counts().rerouted + self.second.spawn_counts().rerouted

    def _outcome(self, act: Callable[[], object]) -> Outcome:
        try:
            return Outcome(result=self._plain(act()))
        except AllocationError as error:
            return Outcome(error=self._facts(error))

    def _facts(self, value: object) -> object:
        """An error as its class, its words and its fields, so that two can be compared."""
        if not isinstance(value, AllocationError):
            return self._plain(value)
        fields = {name: self._facts(fact) for name, fact in vars(value).items()}
        return type(value), str(value), fields

    def _plain(self, value: object) -> object:
        """A run with the number of its newest decision in place of the decision's position.

        Positions are the store's own: one has gaps, and one holds other examples, too.
        """
        if not isinstance(value, RunSpawned) or value.decision_position is None:
            return value
        positions = [each.position for each in self.first.decisions(after=self.start[0])]
        number = bisect_right(positions, value.decision_position)
        return value.model_copy(update={"decision_position": number})


def run_position(allocations: Allocations) -> int:
    log: EventLog[Any] = allocations._store.runs
    return log.end()


def connect(url: str, sources: Sources, limit: int) -> Allocations:
    """A connection that waits for nothing between two tries."""
    return alloc_es.connect(
        url,
        actor="model",
        max_challengers=limit,
        clock=sources.clock,
        new_id=sources.new_id,
        patience=Patience(60, sleep=lambda _: None, monotonic=sources.monotonic),
    )


def beside(allocations: Allocations, sources: Sources, limit: int) -> Allocations:
    """A second connection to a store in memory, which has no URL to connect to."""
    ledger = allocations._ledger
    return Allocations(
        allocations._store,
        actor=ledger.actor,
        max_challengers=limit,
        cached_workflows=1_000,
        patience=ledger.patience,
        clock=sources.clock,
        new_id=sources.new_id,
    )
