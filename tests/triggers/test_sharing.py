"""Several workers of one consumer share its triggers, each with one of them at a time."""

from collections import Counter
from threading import Barrier
from typing import Any

import pytest

from alloc_es import Allocations, Trigger, Triggers
from alloc_es.delivering import Deliveries
from tests.support.overlap import in_threads
from tests.triggers.workers import Office, acknowledge_all, deliveries, positions, reject

# Where what is waited for never comes, it is told soon.
pytestmark = pytest.mark.timeout(30)

WORKERS = 3


def test_a_held_trigger_is_with_no_other_worker(allocations: Allocations, office: Office) -> None:
    """Red when `_FREE` and `_TAKE` give out what another worker holds."""
    expected = reject(allocations, "v2", "v3", "v4")
    one, two, three = (office.hire(follow=True) for _ in range(3))
    assert positions([next(one), next(two), next(three)]) == expected
    assert deliveries(allocations) == [(position, 1, 1, 0) for position in expected]


def test_one_worker_may_hold_several(allocations: Allocations, office: Office) -> None:
    """Red when a worker is told again of what it was handed and has not dealt with."""
    expected = reject(allocations, "v2", "v3", "v4")
    assert positions(office.hire()) == expected


def test_workers_that_look_at_once_take_each_trigger_once(
    allocations: Allocations, office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All see the same ones free before any is taken.

    Red when `_take` counts as taken what another worker was quicker to take.
    """
    expected = reject(allocations, *(f"c{number}" for number in range(6)))
    workers = [office.hire() for _ in range(WORKERS)]
    barrier, lost = meet_before_taking(monkeypatch)
    taken = in_threads(*(lambda worker=worker: take(worker, 2) for worker in workers))
    assert not barrier.broken
    assert lost.total() > 0
    assert sorted(p for each in taken if isinstance(each, list) for p in each) == expected


def test_more_workers_than_triggers_that_are_looked_at_find_one_each(
    allocations: Allocations, office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Red when `take` gives up after the candidates that it has read."""
    monkeypatch.setattr("alloc_es.delivering._CANDIDATES", 1)
    expected = reject(allocations, "v2", "v3", "v4")
    workers = [office.hire()._deliveries for _ in range(WORKERS)]
    workers[0].scan()
    barrier, lost = meet_before_taking(monkeypatch)
    taken = in_threads(
        *(lambda worker=worker: worker.take(lambda one: one.position) for worker in workers)
    )
    assert not barrier.broken
    assert lost.total() > 0
    assert sorted(p for p in taken if isinstance(p, int)) == expected


def test_threads_share_one_worker(allocations: Allocations, office: Office) -> None:
    """Red when two threads take at the same time and one of them is told of the other's."""
    expected = reject(allocations, *(f"c{number}" for number in range(12)))
    worker = office.hire()
    done = in_threads(*(lambda: acknowledge_all(worker) for _ in range(4)))
    assert sorted(p for each in done if isinstance(each, list) for p in each) == expected


def test_a_worker_whose_page_was_entered_by_another_one_reads_on(
    allocations: Allocations, office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Red when `scan` ends where another worker was quicker: then behind that page lie more."""
    expected = reject(allocations, "v2", "v3", "v4")
    pages = allocations._store.decisions.batch
    monkeypatch.setattr(
        allocations._store.decisions, "batch", lambda after, **more: pages(after, limit=2, **more)
    )
    slow, quick = office.hire(), office.hire()
    genuine = Deliveries._enter
    rivals = iter([quick])

    def enter(self: Deliveries, triggers: Any, after: int, up_to: int) -> bool:
        for rival in rivals:
            genuine(rival._deliveries, triggers, after, up_to)
        return genuine(self, triggers, after, up_to)

    monkeypatch.setattr(Deliveries, "_enter", enter)
    assert positions(slow) == expected


def test_one_that_is_always_released_does_not_keep_the_others_waiting(
    allocations: Allocations, office: Office
) -> None:
    """Red when `_FREE` is ordered by the position alone, or new triggers are not looked for."""
    poison, *others = reject(allocations, "v2", "v3", "v4")
    worker = office.hire(follow=True)
    seen: list[int] = []
    while len(seen) < 6:
        trigger = next(worker)
        seen.append(trigger.position)
        if trigger.position == poison:
            worker.release(trigger)
            if seen.count(poison) == 2:
                others += reject(allocations, "v5")
        else:
            worker.acknowledge(trigger)
    assert seen == [poison, *others[:2], poison, others[2], poison]


def test_a_released_trigger_goes_to_any_worker_and_is_another_delivery(
    allocations: Allocations, office: Office
) -> None:
    """Red when `release` keeps the trigger for the worker, or counts no attempt."""
    (position,) = reject(allocations, "v2")
    one, other = office.hire(), office.hire()
    one.release(next(one))
    assert [(each.position, each.attempt) for each in other] == [(position, 2)]


def test_a_worker_that_is_closed_gives_back_what_it_holds(
    allocations: Allocations, office: Office
) -> None:
    """Red when `close` does not leave, or gives back what is acknowledged."""
    done, *rest = reject(allocations, "v2", "v3", "v4")
    one, other = office.hire(), office.hire()
    held = list(one)
    one.acknowledge(held[0])
    one.close()
    assert deliveries(allocations) == [(done, 1, 1, 1), *((p, 1, 0, 0) for p in rest)]
    assert [(each.position, each.attempt) for each in other] == [(p, 2) for p in rest]


def meet_before_taking(monkeypatch: pytest.MonkeyPatch) -> tuple[Barrier, Counter[str]]:
    """The first takes of as many workers wait for each other; how many came too late."""
    barrier = Barrier(WORKERS, timeout=30)
    places = iter(range(WORKERS))
    lost: Counter[str] = Counter()
    genuine = Deliveries._take

    def take_together(self: Deliveries, delivery: Any) -> bool:
        if next(places, None) is not None:
            barrier.wait()
        taken = genuine(self, delivery)
        lost.update([] if taken else [self.worker])
        return taken

    monkeypatch.setattr(Deliveries, "_take", take_together)
    return barrier, lost


def take(worker: Triggers, number: int) -> list[int]:
    """Take so many."""
    taken: list[Trigger] = [next(worker) for _ in range(number)]
    return positions(taken)
