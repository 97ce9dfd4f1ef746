"""What is decided, and in what order, does not depend on how many are asked at once."""

import re

import pytest

from alloc_es import Allocation, Allocations
from alloc_es.scheduling import Hold, Proposal, Register, decide_pass
from tests.scheduling.passes import Conductor, log, plain, repeatable, started, told

NAMES = [str(number) for number in range(11)]
SIZES = (2, 3, 8)
REPETITIONS = {"memory:": 20}


def a_pass(url: str, size: int, seed: int) -> tuple[str, str, Conductor]:
    """The results and the log of a pass over workflows of a tenant of its own."""
    tenant = f"tenant-{seed}-{size}"
    conductor = Conductor(NAMES, size, seed, plain)
    with repeatable(url) as allocations:
        keys = started(allocations, NAMES, tenant)
        before = allocations.position()
        report = decide_pass(allocations, keys, conductor, concurrency=size)
        events = log(allocations, before)
    assert len({event.command_id for event in events}) == len(events) > 3
    assert len({event.allocation.salt for event in events}) == len(events)
    assert report.waves == -(-len(NAMES) // size)
    return told_alike(report.results, tenant), told_alike(events, tenant), conductor


def told_alike(what: object, tenant: str) -> str:
    """Everything about events but what differs from tenant to tenant."""
    return re.sub("previous_digest='[0-9a-f]*'", "", repr(what)).replace(tenant, "tenant")


def test_results_and_log_are_the_same_at_any_concurrency(store_url: str) -> None:
    """Red when decisions are committed as policies finish, or answers are paired so."""
    *alone, conductor = a_pass(store_url, 1, 0)
    assert (conductor.finished, conductor.most) == (NAMES, 1)
    for seed in range(REPETITIONS.get(store_url, 2)):
        for size in SIZES:
            *found, conductor = a_pass(store_url, size, seed)
            assert conductor.most == size
            assert conductor.finished != NAMES
            assert found == alone


def curious(allocations: Allocations, state: Allocation) -> Proposal:
    """Tries v2 where nobody else does."""
    tried = [each for each in allocations.list(state.tenant_id) if each.challenger]
    return Hold("others try it") if tried else Register("v2")


@pytest.mark.parametrize(("size", "tried"), [(1, ["0"]), (2, ["0", "1"]), (4, ["0", "1", "2"])])
def test_what_is_learnt_of_others_crosses_waves_and_never_one_wave(
    store_url: str, size: int, tried: list[str]
) -> None:
    """Red when a decision is committed before all of its wave were asked."""
    with repeatable(store_url) as allocations:
        keys = started(allocations, NAMES[:3])
        before = allocations.position()

        def policy(state: Allocation) -> Proposal:
            return curious(allocations, state)

        decide_pass(allocations, keys, policy, concurrency=size)
        assert told(allocations, before) == [(name, "registered v2") for name in tried]


def test_a_report_has_a_result_for_each_key_in_the_order_given(store_url: str) -> None:
    """Red when the keys are sorted, or a result is told before one in front of it."""
    names = ["7", "5", "3", "4", "0"]
    heard: list[object] = []
    with repeatable(store_url) as allocations:
        keys = started(allocations, sorted(names))
        keys.sort(key=lambda key: names.index(key[1]))
        report = decide_pass(
            allocations,
            keys,
            plain,
            concurrency=2,
            reached=lambda state: state.workflow_id == "5",
            on_result=heard.append,
        )
    assert [result.key for result in report.results] == keys
    assert tuple(heard) == report.results
    assert [result.outcome for result in report.results] == [
        "failed",
        "skipped",
        "decided",
        "decided",
        "held",
    ]


def test_a_result_says_what_was_seen_proposed_and_decided(store_url: str) -> None:
    """Red when a result loses a fact on the way."""
    with repeatable(store_url) as allocations:
        keys = started(allocations, ["3", "0"])
        decided, held = decide_pass(allocations, keys, plain).results
        (event,) = log(allocations, 2)
    assert decided.proposal == Register("v3", 300, "as 3")
    assert (decided.seen, decided.generation, decided.asked, decided.lost_to) == (1, 2, 1, ())
    assert decided.event == event
    assert (event.actor, event.reason, event.allocation.split) == (
        "scheduler",
        "as 3",
        {"v1": 9700, "v3": 300},
    )
    assert (held.proposal, held.seen, held.generation, held.event) == (
        Hold("nothing to try"),
        1,
        1,
        None,
    )
