"""Callers of every kind whose runs are in one group when a fault comes."""

import asyncio
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import ExitStack
from types import TracebackType
from typing import Any, Self

from alloc_es import AllocationError, Allocations, RunSpawned, SpawnRequest
from tests.faults.commands import KEY
from tests.groups.gate import Gate

Outcome = RunSpawned | AllocationError

THREADS = tuple(f"thread-{n}" for n in range(20))
TASKS = tuple(f"task-{n}" for n in range(10))
LIST = tuple(f"list-{n}" for n in range(30))
RUNS = (*THREADS, *TASKS, *LIST)


class Crowd:
    """On entry the group of all of them is on its way to the store, held at the gate.

    It goes on at `go`, or at the end of the block, which waits for all the callers; then
    `told` says what each of them was told, by the run's id. The gate is closed for the first
    time while the run "first" is recorded, so that the others gather behind it. Their timeout
    runs from one of the group's tries on: the first, unless another is named.
    """

    def __init__(
        self, client: Allocations, timeout: float | None = None, *, from_try: int = 1
    ) -> None:
        self._client = client
        self._timeout = timeout
        self._from_try = from_try
        self._gate = Gate(client)
        self._pool = ThreadPoolExecutor(len(RUNS) + 1)
        self._single: dict[str, Future[RunSpawned]] = {}
        self._list: Future[list[Outcome]]
        self._held = ExitStack()
        self.told: dict[str, Outcome] = {}

    def __enter__(self) -> Self:
        workflow = self._client.workflow(*KEY)
        workflow.peek("unit")
        self._held.enter_context(self._gate.closed())
        first = self._pool.submit(workflow.spawn_run, "first", timeout=60)
        self._gate.await_groups(1)
        self._gate.let_time_run_from(1 + self._from_try)
        for run_id in THREADS:
            call = self._pool.submit(workflow.spawn_run, run_id, timeout=self._timeout)
            self._single[run_id] = call
        tasks = [self._pool.submit(self._in_a_task, run_id) for run_id in TASKS]
        self._single |= dict(zip(TASKS, tasks, strict=True))
        asked = [SpawnRequest(*KEY, run_id) for run_id in LIST]
        self._list = self._pool.submit(self._client.spawn_runs, asked, timeout=self._timeout)
        self._gate.await_asked(1 + len(RUNS))
        self._gate.let_one_pass()
        self._gate.await_groups(2)
        assert self._gate.sizes == [1, len(RUNS)]
        assert not first.result().replayed
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.go()
        self._pool.shutdown()
        for run_id, call in self._single.items():
            try:
                self.told[run_id] = call.result()
            except AllocationError as told:
                self.told[run_id] = told
        self.told |= dict(zip(LIST, self._list.result(), strict=True))

    @property
    def gate(self) -> Gate:
        """What the groups pass."""
        return self._gate

    def go(self) -> None:
        """Let the group go on, and those behind it."""
        self._held.close()

    @property
    def _calls(self) -> list[Future[Any]]:
        return [*self._single.values(), self._list]

    def _in_a_task(self, run_id: str) -> RunSpawned:
        workflow = self._client.workflow(*KEY)
        return asyncio.run(workflow.aspawn_run(run_id, timeout=self._timeout))

    def await_all_told(self) -> None:
        """Return once every caller has its answer; fails where that takes suspiciously long."""
        assert not wait(self._calls, timeout=20).not_done

    @property
    def anybody_told(self) -> bool:
        """Whether a caller has its answer already."""
        return any(call.done() for call in self._calls)


def log_of(allocations: Allocations) -> dict[str, Any]:
    """The runs of the log by their ids, without the first; each of them is there once."""
    runs = [each.event for each in allocations.runs()]
    by_id = {str(run.run_id): run for run in runs}
    assert len(by_id) == len(runs)
    by_id.pop("first")
    return by_id
