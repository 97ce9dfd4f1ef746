"""Many callers spawn while the server crashes and comes back: what each was told holds."""

import asyncio
import threading
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import count
from threading import Condition

import alloc_es
from alloc_es import (
    AllocationError,
    Allocations,
    OutcomeUnknown,
    RunSpawned,
    SpawnRequest,
    StoreUnavailable,
)
from tests.faults.commands import KEY, commit, given
from tests.faults.conftest import SHORT
from tests.support.postgres import PostgresServer

_THREADS = 12
_TASKS = 12
_LISTS = 2
_LENGTH = 40
_MORE = 300


class Spawners:
    """Threads, tasks and lists that spawn through one client until they are told to stop."""

    def __init__(self, client: Allocations) -> None:
        self.told: dict[str, RunSpawned | AllocationError] = {}
        self._client = client
        self._recorded = 0
        self._stop = threading.Event()
        self._progress = Condition()
        self._pool = ThreadPoolExecutor(_THREADS + _LISTS + 1)
        self._futures: list[Future[None]] = [self._pool.submit(self._run_tasks)]
        for number in range(_THREADS):
            self._futures.append(self._pool.submit(self._spawn, f"thread-{number}"))
        for number in range(_LISTS):
            self._futures.append(self._pool.submit(self._spawn_lists, f"list-{number}"))

    def await_recorded(self, more: int) -> None:
        """Return once callers were told of so many more recorded runs."""
        with self._progress:
            wanted = self._recorded + more
            assert self._progress.wait_for(lambda: self._recorded >= wanted, timeout=60)

    def stop(self) -> None:
        """End all of them; raises what one of them did not expect."""
        self._stop.set()
        self._pool.shutdown()
        for future in self._futures:
            future.result()

    def _names(self, name: str) -> Iterator[str]:
        for number in count():
            if self._stop.is_set():
                return
            yield f"{name}-{number}"

    def _tell(self, run_id: str, told: RunSpawned | AllocationError) -> None:
        with self._progress:
            self.told[run_id] = told
            self._recorded += isinstance(told, RunSpawned)
            self._progress.notify_all()

    def _spawn(self, name: str) -> None:
        workflow = self._client.workflow(*KEY)
        for run_id in self._names(name):
            try:
                self._tell(run_id, workflow.spawn_run(run_id))
            except (StoreUnavailable, OutcomeUnknown) as error:
                self._tell(run_id, error)

    def _run_tasks(self) -> None:
        async def main() -> None:
            await asyncio.gather(*(self._aspawn(f"task-{n}") for n in range(_TASKS)))

        asyncio.run(main())

    async def _aspawn(self, name: str) -> None:
        workflow = self._client.workflow(*KEY)
        for run_id in self._names(name):
            try:
                self._tell(run_id, await workflow.aspawn_run(run_id))
            except (StoreUnavailable, OutcomeUnknown) as error:
                self._tell(run_id, error)

    def _spawn_lists(self, name: str) -> None:
        for prefix in self._names(name):
            asked = [SpawnRequest(*KEY, f"{prefix}-{n}") for n in range(_LENGTH)]
            for request, told in zip(asked, self._client.spawn_runs(asked), strict=True):
                self._tell(request.run_id, told)


def test_what_every_caller_was_told_holds_after_crashes_of_the_server() -> None:
    """Recorded runs are in the log as told, unrecorded ones are not, and the rest is settled.

    Red when a caller is answered before the commit, or when what is in doubt is said not to
    be recorded.
    """
    with PostgresServer() as server:
        url = f"{server.url}&schema=crash"
        with alloc_es.connect(url, timeout=SHORT) as client:
            given(client, commit)
            spawners = Spawners(client)
            try:
                for _ in range(3):
                    spawners.await_recorded(_MORE)
                    server.restart("immediate")
                spawners.await_recorded(_MORE)
            finally:
                spawners.stop()
            counts = client.spawn_counts()
        with alloc_es.connect(url) as reopened:
            check(spawners.told, reopened)

    assert counts.retried > 0
    assert counts.groups < counts.recorded


def check(told: dict[str, RunSpawned | AllocationError], reopened: Allocations) -> None:
    """Compare what callers were told with the log, and settle what is unknown."""
    log = {str(each.event.run_id): each.event for each in reopened.runs()}
    assert len(log) == len(list(reopened.runs()))
    assert set(log) <= set(told)
    by_kind = defaultdict(set)
    for run_id, answer in told.items():
        by_kind[type(answer)].add(run_id)
        if isinstance(answer, RunSpawned):
            assert log[run_id] == answer
    assert set(by_kind) <= {RunSpawned, StoreUnavailable, OutcomeUnknown}
    assert not by_kind[StoreUnavailable] & set(log)
    unknown = sorted(by_kind[OutcomeUnknown])
    settled = reopened.spawn_runs([SpawnRequest(*KEY, run_id) for run_id in unknown])
    for run_id, run in zip(unknown, settled, strict=True):
        assert isinstance(run, RunSpawned)
        assert run.replayed is (run_id in log)
        assert run.replayed is False or run == log[run_id].model_copy(update={"replayed": True})
