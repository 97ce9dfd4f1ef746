"""Of the incarnations of a name only the newest decides and spawns; the others are told."""

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from alloc_es import (
    Allocations,
    Incarnation,
    IncarnationSuperseded,
    InvalidIdentifier,
    InvalidSetting,
    Patience,
    SpawnRequest,
    StoreNotInitialised,
    Workflow,
    connect,
)
from alloc_es.commands import CommitAllocation, PromoteChallenger
from alloc_es.errors import AnswerLost
from alloc_es.identity import Version
from alloc_es.store import participants, schema
from tests.store.old_self import KEY, NAME, facts
from tests.support.overlap import in_threads
from tests.support.raw import DECISIONS, REFUSED, RUNS, raw

AT_ONCE = 8

Attempt = Callable[[Workflow], object]
"""Something that a scheduler does with a workflow at generation 3."""


@pytest.fixture
def launcher(durable_url: str) -> Iterator[Allocations]:
    """A connection of nobody in particular, to a store that outlives a process."""
    with connect(durable_url, actor="launcher") as opened:
        yield opened


@pytest.fixture
def old(launcher: Allocations, durable_url: str) -> Iterator[Allocations]:
    """The first incarnation; it has decided twice and spawned, and nothing makes it wait."""
    with connect(
        durable_url, incarnation=launcher.new_incarnation(NAME), patience=impatient()
    ) as opened:
        workflow = opened.workflow(*KEY)
        workflow.start("v1")
        workflow.register_challenger("v2", command_id="command-2")
        workflow.spawn_run("known")
        launcher.workflow(*KEY).commit_allocation({"v2": 1000})
        yield opened


def impatient() -> Patience:
    """Never tries again, so that whoever does is found out."""

    def never(seconds: float) -> None:
        raise AssertionError(f"somebody waits for {seconds} s to try again")

    return Patience(30, sleep=never)


def rows(url: str) -> tuple[list[Any], list[Any]]:
    with raw(url) as database:
        return database.rows(DECISIONS), database.rows(RUNS)


def test_the_incarnations_of_a_name_are_counted_up_apart_from_other_names(store_url: str) -> None:
    """Red when a name begins with the number of another one, or twice with the same."""
    with connect(store_url) as allocations:
        assert allocations.newest_incarnation(NAME) is None
        numbers = [allocations.new_incarnation(NAME).number for _ in range(3)]
        assert numbers == [1, 2, 3]
        assert allocations.new_incarnation("scheduler-b") == Incarnation("scheduler-b", 1)
        assert allocations.newest_incarnation(NAME) == Incarnation(NAME, 3)


def test_incarnations_that_begin_at_once_get_numbers_of_their_own(launcher: Allocations) -> None:
    """Red when the number is read, and written by another statement than counts it up."""
    begun = in_threads(*[lambda: launcher.new_incarnation(NAME)] * AT_ONCE)
    assert sorted(each.number for each in begun if isinstance(each, Incarnation)) == [
        *range(1, AT_ONCE + 1)
    ]


def test_a_lost_answer_burns_a_number_and_the_newest_is_returned(
    launcher: Allocations, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Red when a count whose answer was lost is not made again."""
    genuine = participants.begin
    losses = iter(["the answer was lost"])

    def begin(*arguments: Any) -> Incarnation:
        begun = genuine(*arguments)
        for loss in losses:
            raise AnswerLost(loss)
        return begun

    monkeypatch.setattr(participants, "begin", begin)
    assert launcher.new_incarnation(NAME) == Incarnation(NAME, 2)
    assert launcher.newest_incarnation(NAME) == Incarnation(NAME, 2)


def test_the_newest_incarnation_decides_and_spawns_in_its_name(
    old: Allocations, launcher: Allocations
) -> None:
    """Red when the newest incarnation is refused, and when its name is not the actor.

    More than five decisions, after which the driver prepares a statement.
    """
    workflow = old.workflow(*KEY)
    assert workflow.spawn_run("overtaken").generation == 3
    for share in range(1, 9):
        assert workflow.commit_allocation({"v2": share}).generation == 3 + share
    assert workflow.spawn_run("run-1", actor="router").actor == "router"
    assert {each.actor for each in old.decisions()} == {NAME, "launcher"}
    assert [each.actor for each in old.runs()] == [NAME, NAME, "router"]
    assert old.spawn_counts().rerouted == 1
    launcher.new_incarnation("scheduler-b")
    assert workflow.reject_challenger("v2").generation == 12


@pytest.mark.parametrize(
    "attempt",
    [
        lambda workflow: workflow.promote_challenger("v2"),
        lambda workflow: workflow.promote_challenger("v2", expected_generation=2),
        lambda workflow: workflow.register_challenger("v2", command_id="command-2"),
        lambda workflow: workflow.commit_allocation({"v2": 1000}),
        lambda workflow: workflow.register_challenger("v3"),
    ],
    ids=["decision", "conflict", "repetition", "unchanged", "refusal"],
)
def test_the_next_command_of_an_old_incarnation_is_refused_whatever_it_would_come_to(
    attempt: Attempt, old: Allocations, launcher: Allocations, durable_url: str
) -> None:
    """Red when a command does not look first: only a decision is refused then."""
    launcher.new_incarnation(NAME)
    before = rows(durable_url)
    assert_superseded(lambda: attempt(old.workflow(*KEY)))
    assert rows(durable_url) == before


def test_the_store_itself_refuses_the_decision_of_an_old_incarnation(
    old: Allocations, launcher: Allocations, durable_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Red when an append does not look as it records, one event or several."""
    launcher.new_incarnation(NAME)
    before = rows(durable_url)
    monkeypatch.setattr(participants, "look", lambda *_: None)
    workflow = old.workflow(*KEY)
    assert_superseded(lambda: workflow.promote_challenger("v2"))
    state = workflow.allocation()
    first = workflow.preview(CommitAllocation(shares=((Version("v2"), 1),)), state)
    assert first is not None
    second = workflow.preview(PromoteChallenger(version=Version("v2")), first.allocation)
    assert_superseded(lambda: old._store.decisions.save(first, second))
    assert rows(durable_url) == before


@pytest.mark.parametrize("overtaken", [False, True], ids=["newest", "overtaken"])
@pytest.mark.parametrize("run_id", ["known", "new"])
def test_a_spawn_of_an_old_incarnation_is_refused_in_each_way_to_spawn(
    run_id: str, overtaken: bool, old: Allocations, launcher: Allocations, durable_url: str
) -> None:
    """Red when a group does not look as it is recorded, and when it is tried again.

    Runs that are known or not, by the newest route and by one that a decision has overtaken.
    """
    workflow = old.workflow(*KEY)
    if not overtaken:
        workflow.newest()
    launcher.new_incarnation(NAME)
    before = rows(durable_url)
    assert_superseded(lambda: workflow.spawn_run(run_id))
    assert_superseded(lambda: asyncio.run(workflow.aspawn_run(run_id)))
    outcomes = old.spawn_runs([SpawnRequest(*KEY, f"{run_id}{n}") for n in ("", "-1", "-2")])
    assert [facts(each) for each in outcomes] == [(NAME, 1, 2)] * 3
    assert len({id(each) for each in outcomes}) == 3
    assert rows(durable_url) == before
    assert old.spawn_counts().retried == 0


@pytest.mark.usefixtures("old")
def test_an_incarnation_that_the_store_never_gave_out_is_refused(durable_url: str) -> None:
    """Red when a higher number passes, as one does that a backup has forgotten."""
    for held, successor in ((Incarnation(NAME, 2), 1), (Incarnation("nobody", 1), None)):
        with connect(durable_url, incarnation=held) as unheard:
            for attempt in (Workflow.start, Workflow.spawn_run):
                with pytest.raises(IncarnationSuperseded) as refused:
                    attempt(unheard.workflow("acme", "triage"), "v1")
                assert facts(refused.value) == (*held, successor)


@pytest.mark.usefixtures("old")
def test_a_connection_without_an_incarnation_looks_at_nothing(
    durable_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Red when whoever has no incarnation reads the participants, which it may have no right to."""
    monkeypatch.setattr(participants, "look", None)
    with raw(durable_url) as database:
        database.execute("ALTER TABLE participants RENAME TO hidden")
    with connect(durable_url, actor=NAME, patience=impatient()) as unguarded:
        workflow = unguarded.workflow(*KEY)
        stale = unguarded.workflow(*KEY).spawn_run("run-1").generation
        with connect(durable_url) as other:
            other.workflow(*KEY).promote_challenger("v2")
        assert (stale, workflow.spawn_run("run-2").generation) == (3, 4)
        assert workflow.register_challenger("v3").generation == 5
    with raw(durable_url) as database:
        database.execute("ALTER TABLE hidden RENAME TO participants")


def test_an_incarnation_is_read_as_the_caller_gave_it(durable_url: str) -> None:
    """Red when a tuple, a number from 0 down or an empty name passes for an incarnation."""
    for held in ((NAME, 1), Incarnation(NAME, 0), Incarnation(NAME, True)):
        with pytest.raises(InvalidSetting) as refused:
            connect(durable_url, incarnation=held)  # type: ignore[arg-type]
        assert refused.value.setting == "incarnation"
    with connect(durable_url) as allocations, pytest.raises(InvalidIdentifier) as unnamed:
        allocations.new_incarnation("")
    assert unnamed.value.kind == "participant"
    with pytest.raises(InvalidSetting, match="one connection"):
        connect("memory:", incarnation=Incarnation(NAME, 1))


def test_a_number_is_never_lowered_and_a_name_never_forgotten(
    launcher: Allocations, durable_url: str
) -> None:
    """Red when the tables let a number come back."""
    launcher.new_incarnation(NAME)
    launcher.new_incarnation(NAME)
    with raw(durable_url) as database:
        for statement in (
            "UPDATE participants SET incarnation = 1",
            "UPDATE participants SET incarnation = 2",
            "UPDATE participants SET name = 'scheduler-b', incarnation = 3",
            "DELETE FROM participants",
        ):
            with pytest.raises(REFUSED):
                database.execute(statement)
        database.execute("UPDATE participants SET incarnation = 7")
    assert launcher.new_incarnation(NAME) == Incarnation(NAME, 8)


def test_a_store_of_version_3_keeps_everything_and_counts_from_1(
    durable_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Red when version 4 touches a log, or a connection of before is kept from going on."""
    with monkeypatch.context() as release_before:
        release_before.setattr(schema, "SCHEMA_VERSION", 3)
        connected = connect(durable_url)
    workflow = connected.workflow(*KEY)
    workflow.start("v1")
    workflow.spawn_run("run-1")
    before = rows(durable_url)
    with pytest.raises(StoreNotInitialised) as refused:
        connect(durable_url, migrate=False)
    assert (refused.value.found, refused.value.wanted) == (3, schema.SCHEMA_VERSION)
    with connect(durable_url) as allocations, connected:
        assert rows(durable_url) == before
        assert allocations.new_incarnation(NAME) == Incarnation(NAME, 1)
        assert workflow.register_challenger("v2").generation == 2
        assert workflow.spawn_run("run-2").generation == 2


def assert_superseded(attempt: Callable[[], object]) -> None:
    with pytest.raises(IncarnationSuperseded) as refused:
        attempt()
    assert facts(refused.value) == (NAME, 1, 2)
