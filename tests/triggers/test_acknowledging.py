"""A trigger is acknowledged once, and what is not is not lost, whatever gets lost on the way."""

from collections.abc import Callable
from typing import Any

import pytest

from alloc_es import Allocations, TriggerLost, Triggers
from alloc_es.delivering import Deliveries
from alloc_es.drill.link import Loss
from alloc_es.drill.proxy import Proxy
from tests.triggers.workers import HOUR, Office, deliveries, positions, reject

# Where what is waited for never comes, it is told soon.
pytestmark = pytest.mark.timeout(30)

every_loss = pytest.mark.parametrize("loss", ["reply", "request"])


def test_what_is_acknowledged_does_not_come_again(allocations: Allocations, office: Office) -> None:
    """Red when `_FREE` gives out what is acknowledged."""
    first, second = reject(allocations, "v2", "v3")
    worker = office.hire()
    worker.acknowledge(next(worker))
    worker.close()
    assert positions(office.hire()) == [second]
    assert deliveries(allocations)[0] == (first, 1, 1, 1)


def test_acknowledging_again_says_yes_again(allocations: Allocations, office: Office) -> None:
    """Red when `acknowledge` does not look whether it was done before."""
    (position,) = reject(allocations, "v2")
    worker = office.hire()
    trigger = next(worker)
    for _ in range(3):
        worker.acknowledge(trigger)
    worker.release(trigger)
    assert list(office.hire()) == []
    assert deliveries(allocations) == [(position, 1, 1, 1)]


@pytest.mark.parametrize("give_back", [Triggers.release, lambda worker, _: worker.close()])
def test_what_was_given_back_can_t_be_acknowledged(
    allocations: Allocations, office: Office, give_back: Callable[[Triggers, Any], None]
) -> None:
    """Red when `_ACKNOWLEDGE` does not look at who holds the trigger."""
    (position,) = reject(allocations, "v2")
    worker = office.hire()
    trigger = next(worker)
    give_back(worker, trigger)
    with pytest.raises(TriggerLost, match="acknowledged before, given back, or taken away"):
        worker.acknowledge(trigger)
    assert deliveries(allocations) == [(position, 1, 0, 0)]


def test_another_worker_can_t_acknowledge_it(allocations: Allocations, office: Office) -> None:
    """Red when `_ACKNOWLEDGE` does not look at who holds the trigger."""
    (position,) = reject(allocations, "v2")
    one, other = office.hire(), office.hire()
    trigger = next(one)
    with pytest.raises(TriggerLost):
        other.acknowledge(trigger)
    one.acknowledge(trigger)
    with pytest.raises(TriggerLost):
        other.acknowledge(trigger)
    assert deliveries(allocations) == [(position, 1, 1, 1)]


def test_a_ctrl_c_when_it_was_just_taken_loses_nothing(
    allocations: Allocations, office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Red when nobody looks for what was taken and not told."""
    expected = reject(allocations, "v2", "v3")
    worker = office.hire()
    genuine = Deliveries._take
    strikes = iter([KeyboardInterrupt])

    def take(self: Deliveries, delivery: Any) -> bool:
        taken = genuine(self, delivery)
        for strike in strikes:
            raise strike
        return taken

    monkeypatch.setattr(Deliveries, "_take", take)
    with pytest.raises(KeyboardInterrupt):
        next(worker)
    assert [(each.position, each.attempt) for each in worker] == [(p, 1) for p in expected]


@every_loss
def test_a_lost_commit_of_a_consumers_beginning_is_made_up_for(
    loss: Loss, proxy: Proxy, client: Allocations, witness: Allocations
) -> None:
    """Red when `Triggers` enters its consumer without insisting."""
    (position,) = reject(witness, "v2")
    proxy.lose(loss, of="COMMIT")
    with client.triggers("loop", follow=False, lease=HOUR) as worker:
        assert proxy.lost.total() == 1
        assert positions(worker) == [position]


@every_loss
def test_a_lost_commit_of_a_scan_loses_and_doubles_nothing(
    loss: Loss, proxy: Proxy, client: Allocations, witness: Allocations
) -> None:
    """Red when `_enter` moves the cursor and enters the triggers in two transactions."""
    expected = reject(witness, "v2", "v3")
    with client.triggers("loop", follow=False, lease=HOUR) as worker:
        proxy.lose(loss, of="COMMIT")
        assert positions(worker) == expected
    assert proxy.lost.total() == 1


@every_loss
def test_a_lost_commit_of_a_take_is_told_once_and_is_the_same_delivery(
    loss: Loss, proxy: Proxy, client: Allocations, witness: Allocations
) -> None:
    """Red when nobody looks for what was taken and not told."""
    expected = reject(witness, "v2", "v3")
    with client.triggers("loop", follow=False, lease=HOUR) as worker:
        worker._deliveries.scan()
        proxy.lose(loss, of="COMMIT")
        taken = list(worker)
    assert proxy.lost.total() == 1
    assert sorted((each.position, each.attempt) for each in taken) == [(p, 1) for p in expected]


@every_loss
def test_a_lost_commit_of_an_acknowledgement_is_made_up_for(
    loss: Loss, proxy: Proxy, client: Allocations, witness: Allocations
) -> None:
    """Red when `acknowledge` does not look whether it was done before, or does not insist."""
    (position,) = reject(witness, "v2")
    with client.triggers("loop", follow=False, lease=HOUR) as worker:
        trigger = next(worker)
        proxy.lose(loss, of="COMMIT")
        worker.acknowledge(trigger)
        assert proxy.lost.total() == 1
    assert deliveries(witness) == [(position, 1, 1, 1)]


@every_loss
def test_a_lost_commit_of_a_release_is_made_up_for(
    loss: Loss, proxy: Proxy, client: Allocations, witness: Allocations
) -> None:
    """Red when `release` does not insist."""
    (position,) = reject(witness, "v2")
    with client.triggers("loop", follow=False, lease=HOUR) as worker:
        trigger = next(worker)
        proxy.lose(loss, of="COMMIT")
        worker.release(trigger)
        assert proxy.lost.total() == 1
        assert deliveries(witness) == [(position, 1, 0, 0)]


def test_a_worker_that_closes_while_connections_break_gives_back_at_once(
    proxy: Proxy, client: Allocations, witness: Allocations
) -> None:
    """Red when `close` leaves without insisting: others would wait for the lease."""
    (position,) = reject(witness, "v2")
    with client.triggers("loop", follow=False, lease=HOUR) as worker:
        next(worker)
        proxy.lose("request", of="DELETE FROM trigger_workers")
    assert proxy.lost.total() == 1
    assert deliveries(witness) == [(position, 1, 0, 0)]
