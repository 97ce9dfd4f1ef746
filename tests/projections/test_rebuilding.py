"""A rebuild is seen when it is whole, goes on where it was broken off, and mixes no versions."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from random import Random
from threading import Event, Thread
from typing import Any

import pytest

from alloc_es import Allocations, Column, Patience, ProjectionOutdated, connect
from alloc_es.rebuilding import Rebuilding
from tests.projections.disturbing import Killed, batches
from tests.projections.models import SEEN, note, seen
from tests.projections.reading import builds, columns, folded, model, query, relations
from tests.projections.writing import spawn
from tests.support.overlap import in_threads
from tests.support.raw import Raw, raw

NAME = "decision_history"


@pytest.fixture
def written(allocations: Allocations) -> Allocations:
    return write(allocations)


@pytest.fixture
def kept(durable: Allocations) -> Allocations:
    """The same in a store that others can open too."""
    return write(durable)


@pytest.fixture
def written_there(postgres_url: str) -> Iterator[Allocations]:
    """The same in PostgreSQL."""
    with connect(postgres_url) as allocations:
        yield write(allocations)


def write(allocations: Allocations) -> Allocations:
    workflow = allocations.workflow("acme", "triage")
    workflow.start("v1")
    for version in ("v2", "v3", "v4"):
        workflow.register_challenger(version)
        spawn(allocations, workflow, [f"{version} {number}" for number in range(9)])
        workflow.promote_challenger(version)
    allocations.projections().catch_up()
    return allocations


def is_whole(allocations: Allocations, name: str = NAME) -> bool:
    projection = allocations.projections().known[name]
    return model(allocations, projection) == folded(allocations, projection)


def test_readers_never_see_less_than_the_whole_model(kept: Allocations, durable_url: str) -> None:
    """Red when a model is emptied and filled, or swapped in more than one transaction."""
    seen_by_reader, stop, looked = set[int](), Event(), Event()

    def read() -> None:
        with connect(durable_url) as reader:
            while not stop.is_set():
                (number,) = query(reader, "SELECT count(*) FROM run_ledger")[0]
                seen_by_reader.add(number)
                looked.set()

    def let_it_look(*_: int) -> None:
        looked.clear()
        assert looked.wait(30)
        looks.append(len(looks))

    looks: list[int] = []
    thread = Thread(target=read, daemon=True)
    thread.start()
    try:
        with batches(Random(1)):
            for _ in range(4):
                kept.projections().rebuild("run_ledger", report=let_it_look)
    finally:
        stop.set()
        thread.join(30)
    assert seen_by_reader == {27}
    assert len(looks) >= 8


def test_a_rebuild_that_was_broken_off_goes_on_where_it_was(written: Allocations) -> None:
    """Red when each try begins with the first event: of a long log none would come to its end."""
    told: list[int] = []

    def break_off(done: int, _: int) -> None:
        told.append(done)
        if len(told) in (2, 4):
            raise Killed

    before = model(written, written.projections().known[NAME])
    with batches(Random(4)):
        for _ in range(2):
            with pytest.raises(Killed):
                written.projections().rebuild(NAME, report=break_off)
            assert model(written, written.projections().known[NAME]) == before
            assert builds(written, NAME) == [(1, "live"), (2, "building")]
        written.projections().rebuild(NAME, report=break_off)
    assert told[0] == 0 < told[1] == told[2] < told[3] == told[4]
    assert builds(written, NAME) == [(2, "live")]
    assert is_whole(written)


def test_what_is_appended_during_a_rebuild_is_in_it(written: Allocations) -> None:
    """Red when a rebuild takes the place of a model that is further on than it is."""

    def append(*_: int) -> None:
        if numbers:
            spawn(written, written.workflow("acme", "triage"), [f"late {numbers.pop()}"])
            others.catch_up()

    numbers, others = list(range(6)), written.projections()
    with batches(Random(2)):
        written.projections().rebuild(NAME, report=append)
    assert not numbers
    assert is_whole(written)
    (status,) = (each for each in written.projections().status() if each.name == NAME)
    assert status.behind == {"decisions": 0, "runs": 0}


def test_a_swap_that_fails_leaves_the_old_model_and_can_be_tried_again(
    written: Allocations, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Red when the steps of a swap are transactions of their own."""
    replace_views = Rebuilding._replace

    def half(self: Rebuilding, *arguments: Any) -> None:
        replace_views(self, *arguments)
        raise Killed

    before = relations(written)
    with monkeypatch.context() as patch:
        patch.setattr(Rebuilding, "_replace", half)
        with pytest.raises(Killed):
            written.projections().rebuild(NAME)
    assert is_whole(written)
    assert before <= relations(written)
    assert builds(written, NAME) == [(1, "live"), (2, "building")]
    written.projections().rebuild(NAME)
    assert is_whole(written)
    assert builds(written, NAME) == [(2, "live")]


WIDE = replace(SEEN, columns=(*SEEN.columns, Column("actor", "text", "Who.")))


def wide(events: Any, rows: Any) -> None:
    rows.insert("seen", [(*e.event.key, e.position, e.actor) for e in events])


def test_a_model_of_another_version_is_not_mixed_with_but_rebuilt(written: Allocations) -> None:
    """Red when newer code writes into older rows, or older views stay beside the newer ones."""
    view = "SELECT tenant_id, count(*) AS number FROM seen GROUP BY tenant_id"
    first = seen(views={"seen_by_tenant": view})
    written.projections(first).catch_up("seen")
    second = seen(wide, version=2, tables=(WIDE,), views={"seen_at_all": view})
    written.workflow("acme", "b").start("v1")
    models = written.projections(second)
    for call in (lambda: models.catch_up(), lambda: models.verify("seen")):
        with pytest.raises(ProjectionOutdated) as raised:
            call()
        assert (raised.value.built, raised.value.known) == (1, 2)
    (status,) = (each for each in models.status() if each.name == "seen")
    assert (status.standing, status.built, status.version) == ("outdated", 1, 2)
    assert columns(written, "seen") == ["tenant_id", "workflow_id", "position"]
    models.rebuild("seen")
    assert columns(written, "seen") == ["tenant_id", "workflow_id", "position", "actor"]
    assert model(written, second) == folded(written, second)
    assert "seen_at_all" in relations(written)
    assert not {"seen_by_tenant", "seen__1"} & relations(written)
    with pytest.raises(ProjectionOutdated, match="upgrade the package"):
        written.projections(first).catch_up("seen")


def test_an_unfinished_build_of_another_version_is_not_gone_on_with(written: Allocations) -> None:
    """Red when a build is gone on with whatever has begun it."""

    def break_off(done: int, _: int) -> None:
        if done:
            raise Killed

    with batches(Random(1)):
        for projection in (seen(), seen(note, version=2)):
            models = written.projections(projection)
            with pytest.raises(Killed):
                models.rebuild("seen", report=break_off)
    second = seen(wide, version=3, tables=(WIDE,))
    written.projections(second).rebuild("seen")
    assert model(written, second) == folded(written, second)
    assert not {"seen__1", "seen__2"} & relations(written)


@contextmanager
def left_open(url: str, relation: str) -> Iterator[Raw]:
    """A transaction that has read a table or view, and is not at its end."""
    with raw(url) as reader:
        reader.execute("BEGIN")
        reader.execute(f"SELECT count(*) FROM {relation}")
        yield reader


def test_who_reads_the_old_tables_does_not_hold_up_the_swap(
    kept: Allocations, durable_url: str
) -> None:
    """Red when the old tables must be gone before the new ones are seen."""
    with left_open(durable_url, "run_ledger__1"):
        kept.projections().rebuild("run_ledger")
        assert is_whole(kept, "run_ledger")
        assert (2, "live") in builds(kept, "run_ledger")
    kept.projections().rebuild("run_ledger")
    assert builds(kept, "run_ledger") == [(3, "live")]
    assert not {"run_ledger__1", "run_ledger__2"} & relations(kept)


def test_a_reader_in_the_midst_of_a_transaction_lets_the_swap_in_when_it_ends(
    written_there: Allocations, postgres_url: str
) -> None:
    """Red when a swap that had to wait for a reader is given up for good."""
    tries: list[float] = []
    with left_open(postgres_url, "run_ledger") as reader:

        def end(seconds: float) -> None:
            tries.append(seconds)
            reader.execute("ROLLBACK")

        with connect(postgres_url, patience=Patience(60.0, sleep=end)) as patient:
            patient.projections().rebuild("run_ledger")
    assert tries
    assert is_whole(written_there, "run_ledger")
    assert (1, "live") not in builds(written_there, "run_ledger")


def test_a_view_of_a_users_own_outlives_a_rebuild(kept: Allocations, durable_url: str) -> None:
    """Red when a rebuild of the same version drops the public views, and so what is built on
    them.
    """
    with raw(durable_url) as database:
        database.execute("CREATE VIEW mine AS SELECT count(*) AS number FROM run_ledger")
    spawn(kept, kept.workflow("acme", "triage"), ["one more"])
    kept.projections().rebuild("run_ledger")
    assert query(kept, "SELECT number FROM mine") == [(28,)]
    assert (1, "live") not in builds(kept, "run_ledger")


def test_two_that_rebuild_the_same_at_once_do_it_once(kept: Allocations, durable_url: str) -> None:
    """Red when the checkpoint is moved from wherever it is, so that batches are applied twice."""
    with connect(durable_url) as other:
        for tenant in (None, "acme"):
            met = together(
                *(
                    lambda report, each=each, tenant=tenant: each.projections().rebuild(
                        NAME, tenant_id=tenant, report=report
                    )
                    for each in (kept, other)
                )
            )
            assert met
            assert is_whole(kept)
    assert [state for _, state in builds(kept, NAME) if state != "old"] == ["live"]


def test_two_that_build_the_first_at_once_do_it_once(
    durable: Allocations, durable_url: str
) -> None:
    """Red when both begin a build of their own, or one fails where the other was faster."""
    workflow = durable.workflow("acme", "triage")
    workflow.start("v1")
    spawn(durable, workflow, [str(number) for number in range(20)])
    with connect(durable_url) as other, batches(Random(5)):
        outcomes = in_threads(
            *(lambda each=each: each.projections().catch_up(NAME) for each in (durable, other))
        )
    assert outcomes == [None, None]
    assert is_whole(durable)
    assert builds(durable, NAME) == [(1, "live")]


def together(*calls: Callable[[Callable[[int, int], None]], None]) -> bool:
    """Make two rebuilds that both have begun before either goes on; whether they had."""
    begun = [Event() for _ in calls]

    def report_of(number: int) -> Callable[[int, int], None]:
        def report(*_: int) -> None:
            begun[number].set()
            assert begun[1 - number].wait(30)

        return report

    with batches(Random(3)):
        outcomes = in_threads(
            *(lambda n=n, call=call: call(report_of(n)) for n, call in enumerate(calls))
        )
    assert outcomes == [None, None]
    return all(each.is_set() for each in begun)
