"""The rival that this project is."""

from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import cycle
from typing import cast

from eventsourcing.domain import DomainEventProtocol

import alloc_es
from alloc_es import codec
from alloc_es.allocation import Allocation
from alloc_es.clock import Patience
from alloc_es.commands import Command, CommitAllocation, Envelope, RegisterChallenger, Start
from alloc_es.decider import decide
from alloc_es.events import DecisionEvent, Recorded
from alloc_es.identity import Actor, CommandId, Version, WorkflowKey
from alloc_es.store import Store, open_store
from tests.bench.rivals import ACTOR, CHALLENGER, CURRENT, REASON, TENANT, LostRace, Rival

_PAGE = 500
_TIMEOUT = 60.0
_SALT = "5f2b8c2e9d6a4f0e8f4f6f5d0a9b7c31"


class AllocEs(Rival):
    """alloc-es as an application uses it."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._allocations = alloc_es.connect(url, actor=ACTOR, timeout=_TIMEOUT)
        self._filling: Store | None = None

    def fill(self, key: str, generations: int) -> None:
        """Append a made-up history, many events to a transaction."""
        events = history(key, generations)
        if self._filling is None:
            self._filling = open_store(self._url, patience=Patience(_TIMEOUT), migrate=False)
        for first in range(0, len(events), _PAGE):
            page = cast(list[DomainEventProtocol[str]], events[first : first + _PAGE])
            self._filling.decisions.save(*page)

    def commit(self, key: str, share_bps: int, expected: int) -> int:
        """`commit_allocation`, which reads the newest event and appends one."""
        workflow = self._allocations.workflow(TENANT, key)
        try:
            done = workflow.commit_allocation(
                {CHALLENGER: share_bps}, expected_generation=expected, reason=REASON
            )
        except alloc_es.GenerationConflict as conflict:
            raise LostRace from conflict
        assert done.event is not None
        return done.generation

    def contend(self, key: str, share_bps: int) -> None:
        """`commit_allocation` without an expected generation, which decides again itself."""
        done = self._allocations.workflow(TENANT, key).commit_allocation(
            {CHALLENGER: share_bps}, reason=REASON
        )
        assert done.event is not None

    def read(self, key: str) -> int:
        """`allocation`."""
        return self._allocations.workflow(TENANT, key).allocation().generation

    def insert_run(self, key: str, run_id: str) -> None:
        """`spawn_run`, which routes in memory, verifies and records the run."""
        self._allocations.workflow(TENANT, key).spawn_run(run_id)

    def close(self) -> None:
        """Close the store."""
        if self._filling is not None:
            self._filling.close()
        self._allocations.close()


def history(key: str, generations: int, salt: str = _SALT) -> list[DecisionEvent]:
    """The events of a workflow whose challenger's share went up and down."""
    place = WorkflowKey.parse(TENANT, key)
    state: Allocation | None = None
    newest: Recorded[DecisionEvent] | None = None
    events: list[DecisionEvent] = []
    for generation, command in zip(range(1, generations + 1), _commands(salt), strict=False):
        event = decide(place, state, command, envelope(f"filled-{generation}"))
        assert event is not None
        event = event.chained_to(newest)
        newest = Recorded(generation, event, codec.digest(codec.encode(event)[1]))
        events.append(event)
        state = event.allocation
    return events


def envelope(command_id: str) -> Envelope:
    """Who sends a made-up command, and when."""
    return Envelope(
        command_id=CommandId(command_id),
        actor=Actor(ACTOR),
        reason=REASON,
        at=datetime(2026, 1, 1, tzinfo=UTC),
        max_challengers=1,
    )


def _commands(salt: str) -> Iterator[Command]:
    challenger = Version(CHALLENGER)
    yield Start(current=Version(CURRENT), salt=salt)
    yield RegisterChallenger(version=challenger, share_bps=500, salt=salt)
    for share_bps in cycle((1_000, 500)):
        yield CommitAllocation(shares=((challenger, share_bps),))
