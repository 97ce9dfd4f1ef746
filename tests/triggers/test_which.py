"""Which triggers a consumer gets, in which order, and what they say."""

from datetime import UTC, datetime

import pytest

from alloc_es import Allocations, InvalidIdentifier, InvalidSetting, Trigger, WorkflowKey, connect
from tests.triggers.workers import Office, acknowledge_all, deliveries, positions, reject

NOON = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


def test_a_trigger_says_what_was_rejected_why_and_what_is_left(store_url: str) -> None:
    """Red when `read_trigger` takes the challengers from before the rejection."""
    with connect(store_url, max_challengers=3, clock=lambda: NOON) as allocations:
        workflow = allocations.workflow("acme", "triage")
        workflow.start("v1")
        for version in ("v2", "v3", "v4"):
            workflow.register_challenger(version, share_bps=100)
        workflow.reject_challenger("v3", reason="worse on the eval set", actor="judge")
        with allocations.triggers("loop", follow=False) as worker:
            assert worker.consumer == "loop"
            (trigger,) = worker
    assert trigger == Trigger(
        key=WorkflowKey.parse("acme", "triage"),
        version="v3",
        reason="worse on the eval set",
        actor="judge",
        generation=5,
        position=5,
        remaining=("v2", "v4"),
        time=NOON,
        attempt=1,
    )
    assert (trigger.tenant_id, trigger.workflow_id) == ("acme", "triage")


def test_only_a_rejection_without_a_replacement_is_a_trigger(
    allocations: Allocations, office: Office
) -> None:
    """Red when `scan` enters every decision."""
    workflow = allocations.workflow("acme", "triage")
    workflow.start("v1")
    workflow.register_challenger("v2")
    workflow.reject_challenger("v2", replacement="v3")
    workflow.promote_challenger("v3")
    workflow.register_challenger("v4")
    workflow.roll_back(drop=["v4"])
    assert list(office.hire()) == []
    (position,) = reject(allocations, "v5")
    assert positions(office.hire()) == [position]


def test_triggers_come_in_the_order_of_the_log(allocations: Allocations, office: Office) -> None:
    """Red when `_FREE` is not ordered by the position."""
    expected = reject(allocations, "v2", "v3", workflow="b")
    expected += reject(allocations, "v2", workflow="a")
    expected += reject(allocations, "v4", workflow="b")
    assert positions(office.hire()) == expected


def test_a_log_of_many_pages_is_read_to_its_end(
    allocations: Allocations, office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Red when `scan` returns after its first page."""
    expected = reject(allocations, "v2", "v3", "v4", "v5")
    pages = allocations._store.decisions.batch
    monkeypatch.setattr(
        allocations._store.decisions, "batch", lambda after, **more: pages(after, limit=2, **more)
    )
    assert positions(office.hire()) == expected


def test_a_new_consumer_begins_at_the_beginning_or_now(
    allocations: Allocations, office: Office
) -> None:
    """Red when `begin` is not looked at, or counts for consumers that are known."""
    before = reject(allocations, "v2")
    everything, news = office.hire("all"), office.hire("news", begin="now")
    after = reject(allocations, "v3", "v4")
    assert positions(everything) == before + after
    assert positions(news) == after


def test_the_choice_of_a_consumers_first_worker_holds_for_later_ones(
    allocations: Allocations, office: Office
) -> None:
    """Red when `begin` overwrites where a known consumer began."""
    before = reject(allocations, "v2")
    office.hire("news", begin="now").close()
    office.hire("all").close()
    after = reject(allocations, "v3")
    assert positions(office.hire("news", begin="beginning")) == after
    assert positions(office.hire("all", begin="now")) == before + after


def test_consumers_are_independent(allocations: Allocations, office: Office) -> None:
    """Red when a delivery is acknowledged for all consumers."""
    expected = reject(allocations, "v2", "v3")
    one, other = office.hire("one"), office.hire("other")
    held = next(one)
    assert acknowledge_all(other) == expected
    one.release(held)
    assert acknowledge_all(one) == expected[::-1]


def test_an_old_trigger_that_comes_again_moves_no_cursor_back(
    allocations: Allocations, office: Office
) -> None:
    """Red when a released trigger sets `scanned_to` to its position."""
    old, *_ = expected = reject(allocations, "v2", "v3")
    worker = office.hire()
    first = next(worker)
    worker.acknowledge(next(worker))
    worker.release(first)
    again = next(worker)
    assert (again.position, again.attempt) == (old, 2)
    expected += reject(allocations, "v4")
    worker.acknowledge(again)
    assert acknowledge_all(worker) == expected[-1:]
    assert deliveries(allocations) == [
        (expected[0], 2, 1, 1),
        (expected[1], 1, 1, 1),
        (expected[2], 1, 1, 1),
    ]


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"consumer": ""}, InvalidIdentifier),
        ({"consumer": "loop", "begin": "yesterday"}, InvalidSetting),
        ({"consumer": "loop", "lease": 0}, InvalidSetting),
        ({"consumer": "loop", "lease": "10"}, InvalidSetting),
    ],
)
def test_what_can_t_be_a_consumer_is_refused(
    arguments: dict[str, str], error: type[Exception]
) -> None:
    """Red when an argument of `Allocations.triggers` is not checked."""
    with connect("memory:") as allocations, pytest.raises(error):
        allocations.triggers(**arguments)  # type: ignore[arg-type]
