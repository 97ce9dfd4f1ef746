"""The spawners of a drill, who spawn runs for as long as there are rounds."""

from collections.abc import Sequence
from contextlib import suppress
from queue import Full, Queue
from threading import Thread
from typing import NamedTuple

from alloc_es.drill.account import Account, ToldRun
from alloc_es.drill.crew import Crew
from alloc_es.events import RunSpawned
from alloc_es.harness import Done, Spawn
from alloc_es.identity import WorkflowKey
from alloc_es.spawning import SpawnRequest

CROWD = 64
"""How many callers spawn at the same time in a crowd."""

_TRIES = 60
_LOOK_EVERY = 0.1


class Batch(NamedTuple):
    """Runs that one spawner is to spawn: `size` of them, by so many `callers` at the same time."""

    name: str
    size: int
    callers: int = 1


class SpawnerThread:
    """Sees to it that one spawner's runs are spawned, whatever becomes of it meanwhile."""

    def __init__(
        self, crew: Crew, account: Account, name: str, keys: Sequence[WorkflowKey]
    ) -> None:
        self._crew = crew
        self._account = account
        self._name = name
        self._keys = keys
        # One waits at most: the runs of a round are spawned in it, or in the next one.
        self._batches: Queue[Batch | None] = Queue(1)
        self._thread = Thread(target=self._run, name=f"drill-{name}", daemon=True)
        self._abandoned = False
        self._error: Exception | None = None
        self._thread.start()

    def give(self, batch: Batch) -> None:
        """Hand it the runs of a round, once it has begun the last ones; raises what ended it."""
        self._put(batch)

    def finish(self) -> None:
        """Wait until all that it was given is spawned; raises what has ended it."""
        self._put(None)
        self._thread.join()
        self._check()

    def abandon(self) -> None:
        """Let it ask for nothing more."""
        self._abandoned = True
        with suppress(Full):
            self._batches.put_nowait(None)

    def await_end(self) -> None:
        """Wait for its end, which comes with the answer to what it has asked for."""
        self._thread.join()

    def _put(self, batch: Batch | None) -> None:
        while True:
            self._check()
            with suppress(Full):
                return self._batches.put(batch, timeout=_LOOK_EVERY)

    def _check(self) -> None:
        if self._error:
            raise self._error

    def _run(self) -> None:
        try:
            while (batch := self._batches.get()) is not None and not self._abandoned:
                self._spawn(batch)
        except Exception as error:  # noqa: BLE001 - raised where the drill goes on
            self._error = error

    def _spawn(self, batch: Batch) -> None:
        """Ask until every run of a batch has an answer; known ones are given it again."""
        left = self._requests(batch)
        self._account.ask_runs(left)
        for attempt in range(_TRIES):
            request_id = f"{self._name}-{batch.name}-{attempt}"
            self._ask(left, batch.callers, request_id)
            if not left or self._abandoned:
                break
        if batch.callers > 1:
            self._account.count_fault("crowd")
        for run in left:
            self._account.leave(f"run {run.run_id} of {run.tenant_id}/{run.workflow_id}")

    def _requests(self, batch: Batch) -> dict[SpawnRequest, int]:
        """The runs of a batch, each with the generation that is acknowledged by now."""
        keys = [self._keys[place % len(self._keys)] for place in range(batch.size)]
        return {
            SpawnRequest(*key, f"run-{batch.name}-{self._name}-{place}"): (
                self._account.acknowledged(key)
            )
            for place, key in enumerate(keys)
        }

    def _ask(self, left: dict[SpawnRequest, int], callers: int, request_id: str) -> None:
        """Ask for what is left, and take out what is answered."""
        asked = tuple(left)
        member, pending = self._crew.ask(self._name, Spawn(asked, callers), request_id)
        outcome = self._crew.settle(self._name, member, pending)
        answers = outcome.answer if isinstance(outcome, Done) else ()
        self._account.tell_runs(
            [
                ToldRun(answer, left.pop(run))
                for run, answer in zip(asked, answers, strict=bool(answers))
                if isinstance(answer, RunSpawned)
            ]
        )
