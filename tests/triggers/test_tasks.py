"""Tasks of an event loop take triggers; one that is cancelled loses and blocks nothing."""

import asyncio
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import Any

import pytest

from alloc_es import Allocations, Trigger, Triggers
from alloc_es.delivering import Deliveries
from tests.triggers.workers import Office, deliveries, reject

# Where what is waited for never comes, it is told soon.
pytestmark = pytest.mark.timeout(30)

SECONDS = 60


def run(main: Coroutine[Any, Any, Any]) -> Any:
    """Run it on an event loop that has one thread for whatever blocks."""

    async def bounded() -> Any:
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
        return await asyncio.wait_for(main, SECONDS)

    return asyncio.run(bounded())


def test_async_for_gives_every_trigger_and_ends(allocations: Allocations, office: Office) -> None:
    """Red when `__anext__` does not end where `__next__` does."""
    expected = reject(allocations, "v2", "v3", "v4")

    async def work() -> list[int]:
        done = []
        async with office.hire() as worker:
            async for trigger in worker:
                await worker.aacknowledge(trigger)
                done.append(trigger.position)
        return done

    assert run(work()) == expected
    assert [row[3] for row in deliveries(allocations)] == [1, 1, 1]


def test_leaving_async_with_gives_back_what_is_held(
    allocations: Allocations, office: Office
) -> None:
    """Red when `__aexit__` does not close."""
    (position,) = reject(allocations, "v2")

    async def take() -> None:
        async with office.hire(follow=True) as worker:
            await anext(worker)

    run(take())
    assert deliveries(allocations) == [(position, 1, 0, 0)]


def test_tasks_that_wait_leave_the_threads_to_the_handlers(
    allocations: Allocations, office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Eight tasks wait while the event loop has one thread for them and for the handlers.

    Red when `__anext__` waits in a thread of the event loop.
    """
    monkeypatch.setattr("alloc_es.triggers.POLL", 0.01)
    worker = office.hire(follow=True)
    looks: list[object] = []
    genuine = worker._look

    def look() -> Any:
        looks.append(genuine())
        return looks[-1]

    monkeypatch.setattr(worker, "_look", look)
    done: list[int] = []
    enough = asyncio.Event()

    async def handle() -> None:
        async for trigger in worker:
            await worker.aacknowledge(trigger)
            done.append(trigger.position)
            if len(done) == 3:
                enough.set()

    async def main() -> list[int]:
        tasks = [asyncio.create_task(handle()) for _ in range(8)]
        while len(looks) < 24:
            await asyncio.sleep(0)
        expected = await asyncio.to_thread(reject, allocations, "v2", "v3", "v4")
        await enough.wait()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return expected

    assert sorted(done) == [] != (expected := run(main()))
    assert sorted(done) == expected


def test_a_task_that_is_cancelled_while_it_waits_takes_nothing(
    allocations: Allocations, office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Red when a look goes on for a task that has gone."""
    worker, other = office.hire(follow=True), office.hire()
    waits = Event()

    async def main() -> None:
        hear = worker._bell.hear

        async def heard(*arguments: Any) -> None:
            waits.set()
            await hear(*arguments)

        monkeypatch.setattr(worker._bell, "hear", heard)
        task = asyncio.create_task(anext(worker))
        while not waits.is_set():
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    run(main())
    (position,) = reject(allocations, "v2")
    assert [(each.position, each.attempt) for each in other] == [(position, 1)]


def test_what_was_taken_for_a_task_that_is_cancelled_goes_to_others(
    allocations: Allocations, office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The trigger is taken already, and the answer is on its way: it counts as no delivery.

    Red when `_put_back` does not give it back, or gives it back as one that was tried.
    """
    (position,) = reject(allocations, "v2")
    worker, other = office.hire(follow=True), office.hire()
    taken, go_on = Event(), Event()
    genuine = Deliveries._take

    def take(self: Deliveries, delivery: Any) -> bool:
        done = genuine(self, delivery)
        if self is worker._deliveries:
            taken.set()
            go_on.wait(SECONDS)
        return done

    monkeypatch.setattr(Deliveries, "_take", take)

    async def main() -> None:
        task = asyncio.create_task(anext(worker))
        while not taken.is_set():
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    run(main())
    assert deliveries(allocations) == [(position, 1, 1, 0)]
    go_on.set()
    assert [(each.position, each.attempt) for each in other] == [(position, 1)]


def test_a_task_that_is_cancelled_with_its_trigger_in_hand_gives_it_back(
    allocations: Allocations, office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cancelled in the turn of the loop in which the answer is there.

    Red when only an answer that comes after the cancellation is given back.
    """
    (position,) = reject(allocations, "v2")
    worker, other = office.hire(follow=True), office.hire()

    async def main() -> None:
        looking: Any = None
        submit = worker._taker.submit

        def submitted(*arguments: Any) -> Any:
            nonlocal looking
            looking = submit(*arguments)
            return looking

        monkeypatch.setattr(worker._taker, "submit", submitted)
        task = asyncio.create_task(anext(worker))
        while looking is None:
            await asyncio.sleep(0)
        monkeypatch.setattr(worker._taker, "submit", submit)
        # The event loop hears nothing while it waits here.
        assert isinstance(looking.result(SECONDS), Trigger)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    run(main())
    assert [(each.position, each.attempt) for each in other] == [(position, 1)]


def test_a_worker_that_is_closed_ends_its_tasks(allocations: Allocations, office: Office) -> None:
    """Red when `close` does not ring."""
    reject(allocations, "v2")
    worker = office.hire(follow=True)

    async def all_of(worker: Triggers) -> int:
        return len([trigger async for trigger in worker])

    async def main() -> list[int]:
        tasks = [asyncio.create_task(all_of(worker)) for _ in range(3)]
        while not worker._held:
            await asyncio.sleep(0)
        await asyncio.to_thread(worker.close)
        return sorted(await asyncio.gather(*tasks))

    assert run(main()) == [0, 0, 1]
