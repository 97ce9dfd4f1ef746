"""Of several runners of one projection one works, the others stand by and take over."""

from functools import partial
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from threading import Barrier, Event, get_ident
from typing import Any

import pytest

import alloc_es
from alloc_es import Allocations
from alloc_es.applying import Applier, Overtaken
from alloc_es.building import Books, Build
from alloc_es.clock import Patience, utc_now
from alloc_es.projections import Projections
from alloc_es.rebuilding import Rebuilding
from alloc_es.worker import Worker
from tests.following.child import follow
from tests.following.filling import KEY
from tests.following.tracing import (
    NAME,
    PATIENCE,
    TRACE,
    Told,
    expected,
    in_batches_of,
    traced,
    tracing,
)
from tests.support.children import start_child
from tests.support.overlap import in_threads

Child = tuple[BaseProcess, Connection]


def test_of_two_processes_one_stands_by_and_takes_over_when_the_other_is_killed(
    durable_url: str,
) -> None:
    """Red if `advance` moves a checkpoint from wherever it is, so that both apply."""
    with alloc_es.connect(durable_url) as allocations:
        workflow = allocations.workflow(*KEY)
        workflow.start("v1")
        children = [start_child(follow, durable_url, 0.2) for _ in range(2)]
        try:
            for _, pipe in children:
                assert _hear(pipe) == "follows"
            number = 0
            while not (ready := wait([pipe for _, pipe in children], timeout=0)):
                workflow.spawn_run(f"run-{number}")
                number += 1
            second = next(child for child in children if child[1] in ready)
            first = next(child for child in children if child is not second)
            assert "stands by" in _hear(second[1])
            first[0].kill()
            first[0].join()
            while not second[1].poll():
                workflow.spawn_run(f"run-{number}")
                number += 1
            assert "takes over" in _hear(second[1])
            workflow.spawn_run("last")
            allocations.projections(TRACE).wait_for(NAME, timeout=PATIENCE)
        finally:
            for process, _ in children:
                process.kill()
                process.join()
        assert len(traced(allocations)) == number + 1
        assert traced(allocations) == expected(allocations)


def _hear(pipe: Connection) -> str:
    assert pipe.poll(PATIENCE)
    return str(pipe.recv())


@pytest.fixture
def lonely() -> Allocations:
    """A store with a workflow and a run."""
    allocations = alloc_es.connect("memory:")
    workflow = allocations.workflow(*KEY)
    workflow.start("v1")
    workflow.spawn_run("run-0")
    allocations.projections(TRACE).catch_up(NAME)
    return allocations


def _worker(allocations: Allocations, name: str, told: Told) -> Worker:
    books = Books(name, utc_now)
    return Worker(Rebuilding(allocations._store, TRACE, books, Patience(1)), told)


@pytest.fixture
def overtaken(lonely: Allocations, told: Told) -> tuple[Worker, Worker]:
    """Two workers that knew the same place; the first has moved on, the second stands by."""
    first, second = (_worker(lonely, name, told) for name in ("first", "second"))
    assert not first.look()
    assert not second.look()
    lonely.workflow(*KEY).spawn_run("run-1")
    assert first.turn()
    lonely.workflow(*KEY).spawn_run("run-2")
    assert not second.turn()
    return first, second


def test_one_that_was_overtaken_stands_by_and_says_by_whom(
    overtaken: tuple[Worker, Worker], told: Told
) -> None:
    """Red if `_give_way` never stands by."""
    _, second = overtaken
    assert (second.stands_by, second.state) == (True, "standing by")
    assert told.sentences == [f"{NAME}: stands by, first brings it on"]


def test_one_that_stands_by_takes_over_what_lay_there_from_one_look_to_the_next(
    overtaken: tuple[Worker, Worker], lonely: Allocations, told: Told
) -> None:
    """An event that came since the look before is the other one's; so is what moves.

    Red if it takes over at its first look, or for an event that it has not seen twice.
    """
    first, second = overtaken
    assert not second.look()
    assert first.turn()
    assert not second.look()
    lonely.workflow(*KEY).spawn_run("run-3")
    assert not second.look()
    assert (second.state, len(traced(lonely))) == ("standing by", 3)
    assert second.look()
    assert (second.stands_by, second.state) == (False, "following")
    assert told.sentences[1:] == [f"{NAME}: takes over, first stands still"]
    assert traced(lonely) == expected(lonely)


def test_one_that_fails_to_take_over_stands_by_again_and_says_nothing(
    overtaken: tuple[Worker, Worker], lonely: Allocations, told: Told
) -> None:
    """The other one was slow and not dead. Red if each such try is told."""
    first, second = overtaken
    genuine = second._rebuilding.applier.step

    def step(build: object) -> object:
        first.turn()
        return genuine(build)  # type: ignore[arg-type]

    second._rebuilding.applier.step = step  # type: ignore[assignment, method-assign]
    assert not second.look()
    assert not second.look()
    assert second.stands_by
    assert len(told.sentences) == 1
    assert traced(lonely) == expected(lonely)


def test_one_whose_checkpoint_went_back_in_a_crash_goes_on(lonely: Allocations, told: Told) -> None:
    """Rows and checkpoint were committed without waiting for the disk: nobody overtook it.

    Red if `_give_way` takes every other checkpoint for a rival's.
    """
    worker = _worker(lonely, "only", told)
    workflow = lonely.workflow(*KEY)
    assert not worker.look()
    workflow.spawn_run("run-1")
    assert worker.turn()
    with lonely._store.desk.writing() as session:
        session.run(f"DELETE FROM {NAME}__1 WHERE sequence > 1")
        session.run(f"UPDATE {NAME}_ends__1 SET last = 1")
        session.run("UPDATE projection_builds SET runs_position = 1")
    workflow.spawn_run("run-2")
    while worker.turn():
        pass

    assert not worker.stands_by
    assert told.sentences == []
    assert traced(lonely) == expected(lonely)


class Rivals:
    """Makes two that catch up meet at their first batch, and the winner wait for the loser.

    It goes on when the loser tries its next batch, or has given up.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.losers: set[int] = set()
        self.gone_on = Event()
        self._meeting = Barrier(2, timeout=PATIENCE)
        self._met: set[int] = set()
        self._genuine = Applier._commit
        rivals = self

        def commit(self: Applier, *arguments: Any) -> Build:
            return rivals._commit(self, *arguments)

        monkeypatch.setattr(Applier, "_commit", commit)

    def _commit(self, applier: Applier, *arguments: Any) -> Build:
        me = get_ident()
        if me not in self._met:
            self._met.add(me)
            self._meeting.wait()
        elif me in self.losers:
            self.gone_on.set()
        else:
            assert self.gone_on.wait(PATIENCE)
        try:
            return self._genuine(applier, *arguments)
        except Overtaken:
            self.losers.add(me)
            raise


def test_catching_up_beside_others_goes_to_the_end(
    durable_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two catch up at once and meet; each returns when all is applied, and not before.

    Red if one that was overtaken leaves the rest to the other, and returns.
    """
    with alloc_es.connect(durable_url) as allocations:
        workflow = allocations.workflow(*KEY)
        workflow.start("v1")
        both = [allocations.projections(TRACE) for _ in range(2)]
        both[0].catch_up(NAME)
        for number in range(5):
            workflow.spawn_run(f"run-{number}")
        in_batches_of(2, monkeypatch)
        rivals = Rivals(monkeypatch)

        def catch_up(projections: Projections) -> int:
            projections.catch_up(NAME)
            reached = len(traced(allocations))
            rivals.gone_on.set()
            return reached

        assert in_threads(*(partial(catch_up, each) for each in both)) == [5, 5]
    assert rivals.losers


def test_two_workers_never_mix_two_logs(store_url: str) -> None:
    """One applies decisions that it has prepared while the other applies runs.

    Red if a checkpoint moves where only its own log stands as it was.
    """
    told = Told()
    projection = tracing("runs")
    both = type(projection)(
        "both", 1, "Both logs.", ("decisions", "runs"), projection.tables, projection.apply
    )
    with alloc_es.connect(store_url) as allocations:
        workflow = allocations.workflow(*KEY)
        workflow.start("v1")
        allocations.projections(both).catch_up("both")
        workers = [
            Worker(Rebuilding(allocations._store, both, Books(n, utc_now), Patience(1)), told)
            for n in ("first", "second")
        ]
        for worker in workers:
            assert not worker.look()
        workflow.spawn_run("run-1")
        assert workers[0].turn()
        workflow.register_challenger("v2")
        workers[1].turn()
        assert workers[1].stands_by
        while workers[0].turn():
            pass
        with allocations._store.desk.reading() as session:
            found = session.rows(f"SELECT sequence FROM {NAME} ORDER BY sequence")
    assert [row[0] for row in found] == [1, 2, 3]
