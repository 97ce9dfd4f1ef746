"""The logs of a store that a forger is given: every kind of decision, and runs between them."""

from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any, NamedTuple

from alloc_es import Allocations, RunSpawned, SpawnRequest, Workflow, connect
from alloc_es.codec import encode
from alloc_es.events import DecisionEvent, Event, Recorded
from alloc_es.store.recorder import Stored
from tests.rules.given import KEY, Decisions, edited, rechained, rechained_runs

Runs = list[Recorded[RunSpawned]]

START = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


class Logs(NamedTuple):
    """The two logs of a store."""

    decisions: Decisions
    runs: Runs

    def place(self, generation: int) -> int:
        """Where the decision that made a generation of acme/triage lies in its list."""
        (place,) = (
            place
            for place, each in enumerate(self.decisions)
            if each.event.key == KEY and each.generation == generation
        )
        return place

    def decision(self, generation: int) -> Recorded[DecisionEvent]:
        """The decision that made a generation of acme/triage."""
        return self.decisions[self.place(generation)]

    def of(self, generation: int, version: str) -> list[int]:
        """The places of the runs of a generation of acme/triage that got a version."""
        return [
            place
            for place, each in enumerate(self.runs)
            if (each.event.key, each.generation) == (KEY, generation)
            and each.event.version == version
        ]

    def until(self, generation: int) -> "Logs":
        """What was there when a generation of acme/triage was made."""
        end = self.decision(generation).position
        return Logs(
            [each for each in self.decisions if each.position <= end],
            [each for each in self.runs if (each.event.decision_position or 0) < end],
        )

    def decide(self, generation: int, **fields: object) -> "Logs":
        """Other fields in one decision, and nobody can tell by the chain."""
        return self.forged(edited(self.decisions, self.place(generation), **fields))

    def forged(self, decisions: Decisions) -> "Logs":
        """Other decisions, with all digests behind them made anew."""
        again = rechained(decisions)
        return Logs(again, rechained_runs(again, self.runs))

    def run(self, place: int, **fields: object) -> "Logs":
        """Other fields in one run."""
        return self._replace(runs=edited(self.runs, place, **fields))

    def without(self, places: Iterable[int]) -> "Logs":
        """Some runs fewer."""
        gone = set(places)
        return self._replace(runs=[each for n, each in enumerate(self.runs) if n not in gone])

    def spread(self, stride: int) -> "Logs":
        """The runs at positions that lie further apart."""
        return self._replace(
            runs=[replace(each, position=each.position * stride) for each in self.runs]
        )


def rows(log: Iterable[Recorded[Any]]) -> list[Stored]:
    """A log as a table holds it."""
    return [row(each.position, each.event) for each in log]


def row(position: int, event: Event) -> Stored:
    """An event as a table holds it at a position."""
    return Stored(position, event.originator_id, event.originator_version, *encode(event))


def settings() -> dict[str, Any]:
    """What makes a store's events the same each time: a minute passes with every look."""
    minutes, numbers = count(), count(1)
    return {
        "actor": "ada",
        "max_challengers": 2,
        "clock": lambda: START + timedelta(minutes=next(minutes)),
        "new_id": lambda: f"id-{next(numbers):03}",
    }


def history() -> Logs:
    """The logs of `decide_and_spawn`, which are the same each time."""
    with connect("memory:", **settings()) as allocations:
        decide_and_spawn(allocations)
        return logs_of(allocations)


def logs_of(allocations: Allocations) -> Logs:
    """The logs of a store."""
    return Logs(list(allocations.decisions()), list(allocations.runs()))


def decide_and_spawn(allocations: Allocations) -> None:
    """Eleven generations of acme/triage, between others' workflows; no runs at 3 to 6."""
    other = allocations.workflow("beta", "triage")
    other.start("w1")
    workflow = allocations.workflow(*KEY)
    workflow.start("v1")
    spawn(allocations, workflow, "a", 3)
    workflow.register_challenger("v2", 5_000)
    spawn(allocations, workflow, "b", 60)
    spawn(allocations, other, "a", 3)
    workflow.commit_allocation({"v2": 500})
    workflow.commit_allocation({"v2": 600})
    other.register_challenger("w2", 2_000)
    workflow.commit_allocation({"v2": 700})
    workflow.register_challenger("v3", 300)
    workflow.reject_challenger("v2")
    spawn(allocations, workflow, "c", 4)
    spawn(allocations, other, "b", 4)
    workflow.reject_challenger("v3", replacement="v4")
    other.reject_challenger("w2")
    workflow.promote_challenger("v4")
    spawn(allocations, workflow, "d", 4, customers=2)
    workflow.register_challenger("v5", 1_000)
    spawn(allocations, workflow, "e", 4, customers=2)
    workflow.roll_back(to_generation=2, drop=["v5"])
    spawn(allocations, workflow, "f", 3)


def spawn(
    allocations: Allocations, workflow: Workflow, name: str, number: int, customers: int = 0
) -> None:
    """Spawn runs, each of its own unit or of one of some customers, in one transaction."""
    requests = [
        SpawnRequest(
            *workflow.key, f"{name}-{place}", f"customer-{place % customers}" if customers else None
        )
        for place in range(number)
    ]
    for outcome in allocations.spawn_runs(requests):
        assert isinstance(outcome, RunSpawned), outcome
