"""What a worker held that is not heard of any more comes again; who is heard of keeps it."""

import pytest

from alloc_es import Allocations, TriggerLost
from alloc_es.delivering import Deliveries, Delivery
from tests.triggers.workers import HOUR, Office, Time, deliveries, reject

# Where what is waited for never comes, it is told soon.
pytestmark = pytest.mark.timeout(30)


def test_what_a_dead_worker_held_comes_again_when_its_lease_is_over(
    allocations: Allocations, office: Office, time: Time
) -> None:
    """Also to one that does not follow: it would be a dead end for workers that live shortly.

    Red when `look` frees nothing, or `undecided` is not waited for.
    """
    expected = reject(allocations, "v2", "v3")
    dead, other = office.hire(), office.hire()
    assert len(list(dead)) == 2
    time.pace = HOUR / 5
    assert [(each.position, each.attempt) for each in other] == [(p, 2) for p in expected]
    assert time.now >= HOUR


def test_a_follower_gets_what_a_dead_worker_held(
    allocations: Allocations, office: Office, time: Time, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Red when only a worker that does not follow looks at the others."""
    monkeypatch.setattr("alloc_es.triggers.POLL", 0.01)
    (expected,) = reject(allocations, "v2")
    dead, other = office.hire(), office.hire(follow=True)
    next(dead)
    time.pace = HOUR
    again = next(other)
    assert (again.position, again.attempt) == (expected, 2)


def test_what_is_given_back_while_a_worker_looks_is_not_missed(
    allocations: Allocations, office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was held when the worker looked for a free one, and not any more when it would end.

    Red when it is asked what others hold after it was asked what is free.
    """
    (position,) = reject(allocations, "v2")
    holder, other = office.hire(), office.hire()
    held = [next(holder)]
    genuine = Deliveries._free

    def free(self: Deliveries) -> list[Delivery]:
        found = genuine(self)
        while held and self is other._deliveries:
            holder.release(held.pop())
        return found

    monkeypatch.setattr(Deliveries, "_free", free)
    assert [(each.position, each.attempt) for each in other] == [(position, 2)]


def test_a_slow_worker_that_beats_loses_nothing(
    allocations: Allocations, office: Office, time: Time
) -> None:
    """Each look finds another hour gone, and another beat made.

    Red when `_noted` keeps the time at which a worker was first seen.
    """
    (expected,) = reject(allocations, "v2")
    slow, other = office.hire(), office.hire()
    held = next(slow)
    for _ in range(8):
        other._deliveries.look(time.monotonic)
        slow._deliveries.beat()
        time.now += HOUR
    assert list(other) == []
    slow.acknowledge(held)
    assert deliveries(allocations) == [(expected, 1, 1, 1)]


def test_a_worker_that_holds_something_beats_by_itself(
    allocations: Allocations, office: Office
) -> None:
    """Red when `_beat` does not beat, or beats once."""
    reject(allocations, "v2")
    worker = office.hire(lease=0.02)
    next(worker)
    first = beat_of(allocations)
    # The test's own time limit ends this if it never moves.
    while beat_of(allocations) < first + 3:
        pass


def test_a_worker_that_lost_its_trigger_is_told_so_and_settles_nothing(
    allocations: Allocations, office: Office, time: Time
) -> None:
    """Red when `_ACKNOWLEDGE` does not look at who holds the trigger."""
    (position,) = reject(allocations, "v2")
    paused, other = office.hire(), office.hire()
    lost = next(paused)
    time.pace = HOUR
    again = next(other)
    with pytest.raises(TriggerLost) as caught:
        paused.acknowledge(lost)
    assert (caught.value.consumer, caught.value.position) == ("loop", position)
    assert deliveries(allocations) == [(position, 2, 1, 0)]
    paused.release(lost)
    other.acknowledge(again)
    assert deliveries(allocations) == [(position, 2, 1, 1)]


def test_a_delivery_that_was_lost_is_not_settled_by_a_later_one_to_the_same_worker(
    allocations: Allocations, office: Office, time: Time
) -> None:
    """Another thread of the worker handles the trigger now.

    Red when `_ACKNOWLEDGE` does not look at the attempt.
    """
    (position,) = reject(allocations, "v2")
    paused, other = office.hire(), office.hire()
    lost = next(paused)
    time.pace = HOUR
    other.release(next(other))
    again = next(paused)
    with pytest.raises(TriggerLost):
        paused.acknowledge(lost)
    assert deliveries(allocations) == [(position, 3, 1, 0)]
    paused.acknowledge(again)
    assert deliveries(allocations) == [(position, 3, 1, 1)]


@pytest.mark.parametrize(
    "moments",
    [(0, HOUR - 1, HOUR, HOUR), (0, 0, HOUR - 1, 2 * HOUR)],
    ids=["the first answer", "the second answer"],
)
def test_an_answer_that_was_long_on_its_way_makes_nobody_dead(
    allocations: Allocations, office: Office, moments: tuple[float, ...]
) -> None:
    """The beat was made a moment before it was read, and stood still until it was asked for.

    Red when `look` takes the time of the question for that of the answer, or the other way.
    """
    (position,) = reject(allocations, "v2")
    slow, other = office.hire(), office.hire()
    next(slow)
    asked_and_answered = iter(moments)
    for _ in range(2):
        other._deliveries.look(lambda: next(asked_and_answered))
    assert deliveries(allocations) == [(position, 1, 1, 0)]
    other._deliveries.look(lambda: 3 * HOUR)
    assert deliveries(allocations) == [(position, 1, 0, 0)]


def test_one_that_was_taken_for_dead_and_came_back_is_not_found_where_it_was(
    allocations: Allocations, office: Office
) -> None:
    """Red when `_beat` counts from the beginning again."""
    (position,) = reject(allocations, "v2")
    paused, quick, slow = office.hire(), office.hire(), office.hire()
    next(paused)
    for observer in (quick, slow):
        observer._deliveries.look(lambda: 0.0)
    quick._deliveries.look(lambda: HOUR)
    again = next(paused)
    slow._deliveries.look(lambda: HOUR)
    paused.acknowledge(again)
    assert deliveries(allocations) == [(position, 2, 1, 1)]


def beat_of(allocations: Allocations) -> int:
    with allocations._store.desk.reading() as session:
        ((beat,),) = session.rows("SELECT beat FROM trigger_workers")
    return int(beat)
