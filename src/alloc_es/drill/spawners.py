"""The spawners of a drill, who spawn runs for as long as there are rounds."""

from collections.abc import Sequence
from queue import SimpleQueue
from threading import Thread
from typing import NamedTuple

from alloc_es.drill.account import Account, ToldRun
from alloc_es.drill.crew import Crew
from alloc_es.errors import AllocationError
from alloc_es.events import RunSpawned
from alloc_es.harness import Done, Spawn
from alloc_es.identity import WorkflowKey
from alloc_es.spawning import SpawnRequest

_TRIES = 20


class Batch(NamedTuple):
    """Runs that one spawner is to spawn in a round; `callers` of them at the same time."""

    round: int
    size: int
    callers: int


class SpawnerThread:
    """Sees to it that one spawner's runs are spawned, whatever becomes of it meanwhile."""

    def __init__(
        self, crew: Crew, account: Account, name: str, keys: Sequence[WorkflowKey]
    ) -> None:
        self._crew = crew
        self._account = account
        self._name = name
        self._keys = keys
        self._batches: SimpleQueue[Batch | None] = SimpleQueue()
        self._thread = Thread(target=self._run, name=f"drill-{name}", daemon=True)
        self._error: Exception | None = None
        self._thread.start()

    def give(self, batch: Batch) -> None:
        """Hand it the runs of a round; raises what has ended it."""
        self._check()
        self._batches.put(batch)

    def finish(self) -> None:
        """Wait until all that it was given is spawned; raises what has ended it."""
        self._batches.put(None)
        self._thread.join()
        self._check()

    def _check(self) -> None:
        if self._error:
            raise self._error

    def _run(self) -> None:
        try:
            while (batch := self._batches.get()) is not None:
                self._spawn(batch)
        except Exception as error:  # noqa: BLE001 - raised where the drill goes on
            self._error = error

    def _spawn(self, batch: Batch) -> None:
        """Ask until every run of a batch has an answer; known ones are given it again."""
        left = {}
        for place in range(batch.size):
            key = self._keys[place % len(self._keys)]
            run = SpawnRequest(*key, f"run-{batch.round}-{self._name}-{place}")
            left[run] = self._account.acknowledged(key)
        for attempt in range(_TRIES):
            if not left:
                return
            request = Spawn(tuple(left), callers=batch.callers)
            member, pending = self._crew.ask(
                self._name, request, f"{self._name}-{batch.round}-{attempt}"
            )
            outcome = self._crew.settle(member, pending)
            if isinstance(outcome, Done):
                self._keep(left, outcome.answer)
        for run in left:
            self._account.leave(f"run {run.run_id} of {run.tenant_id}/{run.workflow_id}")

    def _keep(
        self, left: dict[SpawnRequest, int], answers: Sequence[RunSpawned | AllocationError]
    ) -> None:
        told = []
        for request, answer in zip(tuple(left), answers, strict=True):
            if isinstance(answer, RunSpawned):
                told.append(ToldRun(answer, left.pop(request)))
        self._account.tell_runs(told)
