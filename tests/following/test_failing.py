"""What stops a projection stops no other, and is said."""

from collections.abc import Sequence
from threading import current_thread
from typing import Any

import pytest

import alloc_es
from alloc_es import Allocations, Projection, ProjectionStopped, Rows
from alloc_es.applying import Applier
from alloc_es.building import Books
from alloc_es.clock import Patience, utc_now
from alloc_es.following import surely
from alloc_es.rebuilding import Rebuilding
from alloc_es.store import Recorded
from alloc_es.store.recorder import LogRecorder
from alloc_es.worker import Worker
from tests.following.filling import KEY
from tests.following.tracing import NAME, PATIENCE, TRACE, Told, expected, in_batches_of, traced
from tests.support.raw import until
from tests.support.recorders import RECORDERS


class Picky:
    """A projection that can't handle one run until it is told to."""

    def __init__(self) -> None:
        self.mended = False
        self.tries = 0
        self.projection = Projection(
            "picky",
            1,
            "Stops at the run bad.",
            ("runs",),
            tuple(_renamed(table) for table in TRACE.tables),
            self._apply,
        )

    def _apply(self, events: Sequence[Recorded[Any]], rows: Rows) -> None:
        if not self.mended and any(entry.event.run_id == "bad" for entry in events):
            self.tries += 1
            raise ValueError("bad run")
        rows.put("picky_ends", [(*entry.event.key, entry.position) for entry in events[-1:]])


def _renamed(table: Any) -> Any:
    return type(table)(
        table.name.replace(NAME, "picky"), table.meaning, table.columns, table.key, table.indexes
    )


def test_a_bad_event_stops_its_projection_and_no_other(store_url: str, told: Told) -> None:
    """It is told once, tried again when something has changed only, and told when it goes on.

    Red if `look` tries again where nothing has changed.
    """
    picky = Picky()
    with alloc_es.connect(store_url) as allocations:
        projections = allocations.projections(TRACE, picky.projection)
        workflow = allocations.workflow(*KEY)
        workflow.start("v1")
        projections.catch_up()
        with projections.follow(NAME, "picky", poll=0.01, tell=told) as follower:
            for run_id in ("good", "bad", "behind"):
                workflow.spawn_run(run_id)
            with pytest.raises(ProjectionStopped) as stopped:
                projections.wait_for("picky", timeout=PATIENCE)
            projections.wait_for(NAME, timeout=PATIENCE)
            told.await_about("stopped in front of")
            until(lambda: _looked(allocations, follower.states["picky"]), "it is stopped")
            tries = picky.tries
            for number in range(5):
                workflow.spawn_run(f"more-{number}")
                projections.wait_for(NAME, timeout=PATIENCE)
            assert (picky.tries, follower.states) == (
                tries,
                {NAME: "following", "picky": "stopped"},
            )

            picky.mended = True
            projections.catch_up("picky")
            workflow.spawn_run("again")
            told.await_about("picky: goes on")
            for name in (NAME, "picky"):
                projections.wait_for(name, timeout=PATIENCE)
        assert traced(allocations) == expected(allocations)
    assert (stopped.value.log, "bad run" in stopped.value.error) == ("runs", True)
    assert [sentence for sentence in told.sentences if "picky" in sentence] == [
        str(stopped.value),
        "picky: goes on",
    ]


def test_a_bad_event_stops_a_first_build_and_who_waits_is_told(store_url: str, told: Told) -> None:
    """Red if `wait_for` looks at live builds only."""
    picky = Picky()
    with alloc_es.connect(store_url) as allocations:
        projections = allocations.projections(TRACE, picky.projection)
        workflow = allocations.workflow(*KEY)
        workflow.start("v1")
        workflow.spawn_run("bad")
        with projections.follow(NAME, "picky", poll=0.01, tell=told) as follower:
            with pytest.raises(ProjectionStopped, match="bad run"):
                projections.wait_for("picky", timeout=PATIENCE)
            until(lambda: _looked(allocations, follower.states["picky"]), "it is stopped")
            for number in range(5):
                workflow.spawn_run(f"more-{number}")
                projections.wait_for(NAME, timeout=PATIENCE)
            assert picky.tries == 1
            assert follower.states["picky"] == "stopped"
    assert len(told.about("picky")) == 1


def _looked(allocations: Allocations, state: str) -> bool:
    allocations.position()
    return state == "stopped"


def test_a_follower_that_meets_a_bug_says_so_and_the_others_go_on(
    store_url: str, told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Red if `_follow` lets the error end its thread in silence."""
    genuine = Applier.step

    def step(self: Applier, *arguments: Any, **more: Any) -> Any:
        if self._projection.name == "picky":
            raise RuntimeError("a bug")
        return genuine(self, *arguments, **more)

    monkeypatch.setattr(Applier, "step", step)
    with alloc_es.connect(store_url) as allocations:
        projections = allocations.projections(TRACE, Picky().projection)
        workflow = allocations.workflow(*KEY)
        workflow.start("v1")
        with projections.follow(NAME, "picky", tell=told) as follower:
            told.await_about("picky: ended by RuntimeError: a bug")
            workflow.spawn_run("run-1")
            projections.wait_for(NAME, timeout=PATIENCE)
            ends = {NAME: "following", "picky": "failed"}
            until(
                lambda: allocations.position() and follower.states == ends, "the other one follows"
            )


def test_one_that_can_no_longer_hear_says_so_and_looks_on(store_url: str, told: Told) -> None:
    """Red if `_hear` lets an error end its thread in silence."""
    with alloc_es.connect(store_url) as allocations:
        projections = allocations.projections(TRACE)

        def watch() -> Any:
            raise OSError("no ears")

        object.__setattr__(allocations._store, "watch", watch)
        workflow = allocations.workflow(*KEY)
        workflow.start("v1")
        with projections.follow(NAME, poll=0.01, tell=told):
            told.await_about("heard of no more, but looked for every 0.01 s: OSError: no ears")
            workflow.spawn_run("run-1")
            projections.wait_for(NAME, timeout=PATIENCE)


def test_what_cannot_be_told_goes_to_the_log(caplog: pytest.LogCaptureFixture) -> None:
    """Red if an error of `tell` reaches the follower, which would end."""

    def tell(_sentence: str) -> None:
        raise BrokenPipeError

    surely(tell)("the store is back")

    assert "could not be told: the store is back" in caplog.text


def test_a_rival_that_moved_the_rows_is_not_taken_for_a_bad_event(store_url: str) -> None:
    """What a projection reads is of another checkpoint, and it finds that wrong.

    Red if `_stopped` takes it for the event's fault, which `catch_up` would raise.
    """
    once: list[str] = []
    with alloc_es.connect(store_url) as allocations:
        projections = allocations.projections(TRACE)

        def apply(events: Sequence[Recorded[Any]], rows: Rows) -> None:
            if not once:
                once.append("overtaken")
                projections.catch_up(NAME)
                raise ValueError("these rows are not as they should be")
            TRACE.apply(events, rows)

        workflow = allocations.workflow(*KEY)
        workflow.start("v1")
        projections.catch_up(NAME)
        workflow.spawn_run("run-1")
        strict = Projection(NAME, 1, TRACE.meaning, TRACE.logs, TRACE.tables, apply)
        allocations.projections(strict).catch_up(NAME)

        assert once == ["overtaken"]
        assert traced(allocations) == expected(allocations)


def test_an_error_of_a_read_ahead_is_the_next_steps(
    durable_url: str, told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And leaves no thread that reads. Red if the step is not told of it."""
    in_batches_of(2, monkeypatch)
    for recorder in RECORDERS:
        monkeypatch.setattr(recorder, "select_batch", _failing_ahead(recorder.select_batch))
    with alloc_es.connect(durable_url) as allocations:
        workflow = allocations.workflow(*KEY)
        workflow.start("v1")
        for number in range(5):
            workflow.spawn_run(f"run-{number}")
        rebuilding = Rebuilding(allocations._store, TRACE, Books("me", utc_now), Patience(1))
        worker = Worker(rebuilding, told)
        assert worker.turn()
        with pytest.raises(alloc_es.StoreUnavailable, match="read ahead"):
            worker.turn()
        assert rebuilding.applier._reader is None
        monkeypatch.undo()
        while worker.turn():
            pass
        assert traced(allocations) == expected(allocations)


def _failing_ahead(genuine: Any) -> Any:
    def select_batch(self: LogRecorder, after: int, up_to: int, limit: int) -> Any:
        if "reads ahead" in current_thread().name:
            raise alloc_es.StoreUnavailable("read ahead")
        return genuine(self, after, up_to, limit)

    return select_batch
