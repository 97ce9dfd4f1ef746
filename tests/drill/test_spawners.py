"""Seeing to it that a spawner's runs are spawned."""

from collections.abc import Callable, Iterator
from threading import Event
from typing import Any, cast

import pytest

import alloc_es
from alloc_es import AllocationError, RunSpawned, StoreUnavailable
from alloc_es.drill.account import Account
from alloc_es.drill.crew import Crew
from alloc_es.drill.spawners import Batch, SpawnerThread
from alloc_es.harness import Done, Pending, Refused, Spawn
from alloc_es.identity import WorkflowKey

KEYS = [WorkflowKey.parse("drill-1", f"workflow-{number}") for number in (1, 2)]
AWAY = StoreUnavailable("away")

Answers = list[RunSpawned | AllocationError]
Answer = Callable[[Spawn], Done | Refused | None]


class Asked:
    """Stands in for a crew: answers each request as the test says, and keeps it."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self.requests: list[tuple[str, Spawn]] = []

    def ask(self, name: str, request: Spawn, request_id: str) -> tuple[None, Pending]:
        assert name == "spawner-1"
        self.requests.append((request_id, request))
        return None, Pending(request_id, request)

    def settle(self, name: str, member: None, pending: Pending) -> Done | Refused | None:
        assert (name, member) == ("spawner-1", None)
        return self._answer(cast(Spawn, pending.request))


@pytest.fixture
def store() -> Iterator[alloc_es.Allocations]:
    with alloc_es.connect("memory:", actor="drill") as allocations:
        for key in KEYS:
            allocations.workflow(*key).start("v1")
        yield allocations


def spawner(account: Account, answer: Answer) -> tuple[SpawnerThread, Asked]:
    crew = Asked(answer)
    return SpawnerThread(cast(Crew, crew), account, "spawner-1", KEYS), crew


def test_what_is_not_answered_is_asked_for_again(store: alloc_es.Allocations) -> None:
    """Red when a run whose spawning failed is dropped, or one that is answered asked for again."""

    def answer(request: Spawn) -> Done | Refused | None:
        if len(crew.requests) == 1:
            return None
        if len(crew.requests) == 2:
            return Refused(AWAY)
        answers: list[Any] = store.spawn_runs(request.runs)
        return Done([answers[0], *[AWAY for _ in answers[1:]]])

    account = Account()
    thread, crew = spawner(account, answer)
    thread.give(Batch("0", 3))
    thread.finish()
    assert [len(request.runs) for _, request in crew.requests] == [3, 3, 3, 2, 1]
    assert len({request_id for request_id, _ in crew.requests}) == 5
    names = [f"run-0-spawner-1-{place}" for place in range(3)]
    assert [told.run.run_id for told in account.runs] == names
    assert account.asked_runs == set(names)
    assert account.unresolved == []


def test_what_is_never_answered_is_left_unresolved() -> None:
    """Red when a spawner gives up in silence, or never does."""
    account = Account()
    thread, crew = spawner(account, lambda _: None)
    thread.give(Batch("0", 2))
    thread.finish()
    assert len(crew.requests) == 60
    assert account.unresolved == [
        "run run-0-spawner-1-0 of drill-1/workflow-1",
        "run run-0-spawner-1-1 of drill-1/workflow-2",
    ]


def test_a_run_is_told_with_what_was_acknowledged_before_it_was_asked_for(
    store: alloc_es.Allocations,
) -> None:
    """Red when a decision that comes later counts as one that the run has to know of."""
    account = Account()

    def answer(request: Spawn) -> Done:
        account._acknowledged[KEYS[0]] = 9
        return Done(store.spawn_runs(request.runs))

    account._acknowledged[KEYS[0]] = 5
    thread, _ = spawner(account, answer)
    thread.give(Batch("0", 2))
    thread.give(Batch("1", 1))
    thread.finish()
    assert [told.behind for told in account.runs] == [5, 0, 9]


def test_a_crowd_is_counted_when_it_came(store: alloc_es.Allocations) -> None:
    """Red when every batch is a crowd, or none is."""
    account = Account()
    thread, crew = spawner(account, lambda request: Done(store.spawn_runs(request.runs)))
    thread.give(Batch("0", 2))
    thread.give(Batch("0-crowd-0", 4, callers=4))
    thread.finish()
    assert [request.callers for _, request in crew.requests] == [1, 4]
    assert account.faults["crowd"] == 1


def test_what_ends_a_spawner_ends_the_drill() -> None:
    """Red when its error is lost, or whoever hands it runs waits for ever."""

    def answer(_: Spawn) -> Done:
        raise AWAY

    thread, _ = spawner(Account(), answer)
    thread.give(Batch("0", 1))
    thread.await_end()
    with pytest.raises(StoreUnavailable):
        thread.give(Batch("1", 1))
    with pytest.raises(StoreUnavailable):
        thread.finish()


def test_one_that_is_abandoned_ends_with_what_is_under_way() -> None:
    """Red when it goes on asking, with the next batch too, or waits for one for ever."""
    asked, let_go = Event(), Event()

    def answer(_: Spawn) -> Done:
        asked.set()
        assert let_go.wait(60)
        return Done([])

    thread, crew = spawner(Account(), answer)
    thread.give(Batch("0", 1))
    assert asked.wait(60)
    thread.give(Batch("1", 1))
    thread.abandon()
    let_go.set()
    thread.await_end()
    assert len(crew.requests) == 1
