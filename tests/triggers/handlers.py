"""Processes that handle triggers until they are killed; each step is told through a pipe."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from random import Random
from time import sleep

import psycopg

from alloc_es import (
    Allocations,
    GenerationConflict,
    Refusal,
    Trigger,
    TriggerLost,
    Triggers,
    connect,
)
from tests.support.children import start_child
from tests.support.raw import Raw
from tests.triggers.workers import acknowledged

CONSUMER = "generate-loop"
WORKERS = 4
KILLS = 12
LEASE = 0.3
"""Short, so that what the dead held comes again soon. Who is taken for dead in spite of being
alive, on a busy machine, is told so and goes on."""

GENERATING = 0.03
"""A handler takes its time, so that kills find workers at it. Nothing is timed by it."""

_STEPS_BETWEEN_KILLS = (4, 24)
_LOOK = 0.1
_HELD_BY = "SELECT count(*) FROM trigger_deliveries WHERE acknowledged_at IS NULL AND worker LIKE ?"

Target = Callable[[Connection, str], None]


def register(pipe: Connection, url: str) -> None:
    """Answer each trigger with a challenger, and acknowledge it."""
    with connected(url) as (allocations, triggers):
        for trigger in triggers:
            pipe.send("held")
            sleep(GENERATING)
            workflow = allocations.workflow(trigger.tenant_id, trigger.workflow_id)
            # Late or doubled: somebody decided since.
            with suppress(GenerationConflict, Refusal):
                workflow.register_challenger(
                    f"answers-{trigger.position}",
                    expected_generation=trigger.generation,
                    command_id=f"generate/{trigger.position}",
                )
            pipe.send("handled")
            with suppress(TriggerLost):
                triggers.acknowledge(trigger)


def record(pipe: Connection, url: str) -> None:
    """Write an effect of each trigger and acknowledge it in the same transaction."""
    server, _, schema = url.rpartition("schema=")
    with psycopg.connect(server[:-1], autocommit=True) as own, connected(url) as (_, triggers):
        insert = f"INSERT INTO {schema}.effects (position) VALUES (%s)".encode()
        for trigger in triggers:
            pipe.send("held")
            sleep(GENERATING)
            with suppress(TriggerLost):
                _record(own, insert, triggers, trigger)
            pipe.send("handled")


def _record(
    own: "psycopg.Connection[tuple[int]]", insert: bytes, triggers: Triggers, trigger: Trigger
) -> None:
    with own.transaction():
        own.execute(insert, [trigger.position])
        triggers.acknowledge(trigger, connection=own)


@contextmanager
def connected(url: str) -> Iterator[tuple[Allocations, Triggers]]:
    with (
        connect(url, actor="generator", migrate=False, timeout=60) as allocations,
        allocations.triggers(CONSUMER, lease=LEASE) as triggers,
    ):
        yield allocations, triggers


class Crew:
    """Four processes; now and then one of them is killed, and another takes its place."""

    def __init__(self, target: Target, url: str, store: Raw, seed: int) -> None:
        self._target = target
        self._url = url
        self._store = store
        self._random = Random(seed)
        self._members: list[tuple[BaseProcess, Connection]] = []
        self._at_work: set[Connection] = set()
        self.kills = 0
        self.killed_with_triggers = 0

    def work_until(self, done: int) -> None:
        """Work until so many triggers are acknowledged; then nobody is left."""
        try:
            for _ in range(WORKERS):
                self._hire()
            steps = self._random.randint(*_STEPS_BETWEEN_KILLS)
            while acknowledged(self._store, CONSUMER) < done:
                steps -= self._steps()
                if steps < 0 and self.kills < KILLS:
                    self._replace(self._random.choice(self._victims()))
                    steps = self._random.randint(*_STEPS_BETWEEN_KILLS)
        finally:
            for process, _ in self._members:
                process.kill()
                process.join()

    def _hire(self) -> None:
        self._members.append(start_child(self._target, self._url))

    def _steps(self) -> int:
        """How many steps were taken in a moment."""
        ready = wait([pipe for _, pipe in self._members], _LOOK)
        for pipe in ready:
            assert isinstance(pipe, Connection)
            assert pipe.recv() in ("held", "handled")
            self._at_work.add(pipe)
        return len(ready)

    def _victims(self) -> list[int]:
        """Those who have begun to handle triggers."""
        return [place for place, (_, pipe) in enumerate(self._members) if pipe in self._at_work]

    def _replace(self, place: int) -> None:
        process, pipe = self._members.pop(place)
        self._at_work.discard(pipe)
        process.kill()
        process.join()
        pipe.close()
        self.kills += 1
        ((held,),) = self._store.execute(_HELD_BY, f"%:{process.pid}:%")
        self.killed_with_triggers += bool(held)
        self._hire()
