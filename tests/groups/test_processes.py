"""Two processes that ask for the same runs at once get one allotment for each run."""

import pytest

from alloc_es import Allocations, RunSpawned, SpawnRequest, connect
from tests.groups import twins
from tests.groups.conftest import KEYS, start_all
from tests.groups.gate import Gate
from tests.support.children import run_together
from tests.support.overlap import in_threads
from tests.support.recorders import meet_before_recording

_LISTS = 12
_LENGTH = 50


def test_two_processes_that_ask_in_opposite_orders_get_the_same_runs(
    durable: Allocations, durable_url: str
) -> None:
    """Red when a known run is answered with the caller's own allotment."""
    lists = [
        [SpawnRequest(*KEYS[n % 3], f"run-{number}-{n}") for n in range(_LENGTH)]
        for number in range(_LISTS)
    ]
    backwards = [list(reversed(each)) for each in reversed(lists)]

    (known, there), (known_too, back) = run_together(
        twins.ask, [(durable_url, "there", lists), (durable_url, "back", backwards)]
    )

    assert (known > 0, known_too > 0) == (True, True)
    assert known + known_too == _LISTS * _LENGTH
    assert there == list(reversed(back))
    log = [each.event.model_dump(mode="json") for each in durable.runs()]
    by_place = {(run["tenant_id"], run["run_id"]): run for run in there}
    assert len(log) == len(by_place) == _LISTS * _LENGTH
    assert {(run["tenant_id"], run["run_id"]): run for run in log} == by_place
    assert {run["unit"] for run in log} == {"there", "back"}


def test_two_connections_that_record_the_same_list_at_the_same_instant_get_the_same_runs(
    durable_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both have routed all runs, and neither has recorded any.

    Red when the loser of a race returns what it routed itself.
    """
    asked = [SpawnRequest(*KEYS[n % 3], f"run-{n}") for n in range(300)]
    with connect(durable_url, timeout=60) as one, connect(durable_url, timeout=60) as other:
        start_all(one)
        barrier = meet_before_recording(monkeypatch, parties=2)
        gates = Gate(one), Gate(other)
        answers = in_threads(
            lambda: one.spawn_runs([r._replace(unit="one") for r in asked]),
            lambda: other.spawn_runs([r._replace(unit="other") for r in reversed(asked)]),
        )
        assert not barrier.broken
        assert sorted(len(gate.sizes) for gate in gates) == [1, 1]
        counts = one.spawn_counts(), other.spawn_counts()
        log = {each.event.originator_id: each.event for each in one.runs()}
    assert sorted(each.known for each in counts) == [0, 300]
    ours, theirs = answers
    assert isinstance(ours, list)
    assert isinstance(theirs, list)
    assert ours != list(reversed(theirs))
    for run, twin in zip(ours, reversed(theirs), strict=True):
        assert isinstance(run, RunSpawned)
        assert isinstance(twin, RunSpawned)
        assert run.replayed is not twin.replayed
        recorded = log[run.originator_id]
        assert {run.replayed: run, twin.replayed: twin} == {
            False: recorded,
            True: recorded.model_copy(update={"replayed": True}),
        }
