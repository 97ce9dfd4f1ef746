"""A command id stands for one command and one outcome, whatever happens to the answer."""

from collections.abc import Callable
from typing import Any

import pytest
from eventsourcing.persistence import IntegrityError

from alloc_es import (
    Allocations,
    ChallengerAlreadyLive,
    CommandIdReused,
    Committed,
    GenerationConflict,
    Workflow,
    committing,
    connect,
)
from alloc_es.errors import AnswerLost
from alloc_es.store import EventLog
from tests.support.overlap import in_threads, meet_before_append
from tests.support.recorders import RECORDERS


def test_the_same_id_again_returns_the_first_outcome_and_appends_nothing(
    workflow: Workflow,
) -> None:
    """Red when `_commit` no longer asks for an earlier outcome before it decides."""
    first = workflow.register_challenger("v2", command_id="c-1")
    workflow.commit_allocation({"v2": 900})
    again = workflow.register_challenger("v2", command_id="c-1")
    assert (again.event, again.generation, again.replayed) == (first.event, 2, True)
    assert (again.allocation, again.attempts) == (first.allocation, 0)
    assert len(workflow.history()) == 3


@pytest.mark.parametrize("expected", [1, 2, 3, 9])
def test_the_same_id_returns_the_first_outcome_whatever_generation_is_expected(
    workflow: Workflow, expected: int
) -> None:
    """Red when a stale expectation is refused before the command id is looked up."""
    first = workflow.register_challenger("v2", command_id="c-1", expected_generation=1)
    workflow.commit_allocation({"v2": 900})
    again = workflow.register_challenger("v2", command_id="c-1", expected_generation=expected)
    assert (again.event, again.replayed) == (first.event, True)
    assert len(workflow.history()) == 3


def test_the_same_id_for_another_command_is_refused_naming_what_it_made(
    workflow: Workflow,
) -> None:
    """Red when `_replayed` returns whatever the id made without comparing the command."""
    made = workflow.register_challenger("v2", command_id="c-1").event
    with pytest.raises(CommandIdReused) as refused:
        workflow.promote_challenger("v2", command_id="c-1")
    assert (refused.value.event, refused.value.command_id) == (made, "c-1")
    with pytest.raises(CommandIdReused):
        workflow.register_challenger("v2", share_bps=501, command_id="c-1")
    assert len(workflow.history()) == 2


def test_the_same_id_is_free_on_another_workflow(allocations: Allocations) -> None:
    """Red when PostgreSQL's index on command ids leaves out the stream."""
    for key in [("acme", "triage"), ("acme", "other"), ("beta", "triage")]:
        assert not allocations.workflow(*key).start("v1", command_id="c-1").replayed
    assert allocations.position() >= 3
    assert len(list(allocations.decisions())) == 3


def test_an_id_whose_wish_held_already_can_still_act_later(workflow: Workflow) -> None:
    """Red when a split that is the old one makes an event."""
    workflow.register_challenger("v2", share_bps=500)
    nothing = workflow.commit_allocation({"v2": 500}, command_id="c-1")
    assert (nothing.event, nothing.generation, nothing.replayed) == (None, 2, False)
    workflow.commit_allocation({"v2": 700})
    assert workflow.commit_allocation({"v2": 500}, command_id="c-1").generation == 4


@pytest.mark.parametrize("expected", [None, 1])
def test_two_connections_that_race_with_one_id_make_one_event(
    durable_url: str, monkeypatch: pytest.MonkeyPatch, expected: int | None
) -> None:
    """Red when the loser of a race does not ask whether its own id won."""
    outcomes = race_to_register(durable_url, monkeypatch, ("c-1", "c-1"), expected)
    assert all(isinstance(each, Committed) for each in outcomes), outcomes
    assert sorted(each.replayed for each in outcomes) == [False, True]
    assert {each.generation for each in outcomes} == {2}
    assert outcomes[0].event == outcomes[1].event


def test_two_connections_that_race_with_two_ids_make_one_event_and_one_refusal(
    durable_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Red when an event that holds the place is taken for one's own without comparing."""
    outcomes = race_to_register(durable_url, monkeypatch, ("c-1", "c-2"), None)
    (won,) = [each for each in outcomes if isinstance(each, Committed)]
    (lost,) = [each for each in outcomes if isinstance(each, ChallengerAlreadyLive)]
    assert (won.replayed, lost.incumbent) == (False, "v2")


def test_the_loser_of_a_race_with_an_expectation_is_told_the_winner(
    durable_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Red when a conflict names the event it was decided on as the winner."""
    outcomes = race_to_register(durable_url, monkeypatch, ("c-1", "c-2"), 1)
    (won,) = [each for each in outcomes if isinstance(each, Committed)]
    (lost,) = [each for each in outcomes if isinstance(each, GenerationConflict)]
    assert (lost.expected, lost.actual, lost.winner) == (1, 2, won.event)
    assert (lost.lost_at_commit, lost.attempts, lost.still_legal) == (True, 1, False)
    assert isinstance(lost.refusal, ChallengerAlreadyLive)


def race_to_register(
    url: str, monkeypatch: pytest.MonkeyPatch, command_ids: tuple[str, str], expected: int | None
) -> list[Any]:
    """Two connections decide on generation 1 before either appends; what each came to."""
    with connect(url) as one, connect(url) as other:
        handles = [each.workflow("acme", "triage") for each in (one, other)]
        handles[0].start("v1")
        barrier = meet_before_append(monkeypatch, committing, parties=2)

        def register(index: int) -> Committed:
            return handles[index].register_challenger(
                "v2", command_id=command_ids[index], expected_generation=expected
            )

        outcomes = in_threads(lambda: register(0), lambda: register(1))
        assert not barrier.broken
        assert [each.generation for each in handles[0].history()] == [1, 2]
    return outcomes


@pytest.mark.parametrize("broken", [AnswerLost("the answer was lost"), IntegrityError("taken")])
def test_a_commit_whose_answer_was_lost_is_not_reported_as_a_conflict(
    workflow: Workflow, monkeypatch: pytest.MonkeyPatch, broken: Exception
) -> None:
    """Red when `append` reports a driver's uniqueness error before it reads the place again.

    `AnswerLost` is a connection that broke behind the commit; `IntegrityError` is what the
    library's own retry then runs into: an event of ours, taken for another's.
    """
    lose_next_answer(monkeypatch, "insert_events", broken)
    committed = workflow.register_challenger("v2", expected_generation=1)
    assert (committed.generation, committed.replayed, committed.attempts) == (2, False, 1)
    assert [each.event for each in workflow.history()][1:] == [committed.event]


def test_a_run_whose_answer_was_lost_is_recorded_once(
    workflow: Workflow, allocations: Allocations, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Red when a run whose answer was lost takes what it then finds for another call's."""
    lose_next_answer(monkeypatch, "insert_runs", AnswerLost("the answer was lost"))
    run = workflow.spawn_run("run-1")
    assert not run.replayed
    assert allocations.spawn_counts().retried == 1
    assert [each.event for each in allocations.runs()] == [run]


def lose_next_answer(monkeypatch: pytest.MonkeyPatch, name: str, broken: Exception) -> None:
    """Let the next insert of each kind of store succeed and then fail with this error."""
    for recorder in RECORDERS:
        monkeypatch.setattr(recorder, name, losing_one(getattr(recorder, name), broken))


def losing_one(genuine: Any, broken: Exception) -> Any:
    errors = [broken]

    def insert(self: Any, *arguments: Any, **more: Any) -> Any:
        positions = genuine(self, *arguments, **more)
        if errors:
            raise errors.pop()
        return positions

    return insert


@pytest.mark.parametrize("command", ["reject_challenger", "promote_challenger"])
@pytest.mark.parametrize("expected", [None, 2])
def test_a_twin_that_commits_between_two_reads_is_no_rival(
    durable_url: str, monkeypatch: pytest.MonkeyPatch, command: str, expected: int | None
) -> None:
    """Red when the command id is looked for before the newest state is read."""
    with connect(durable_url) as one, connect(durable_url) as other:
        workflow, twin = one.workflow("acme", "triage"), other.workflow("acme", "triage")
        workflow.start("v1")
        workflow.register_challenger("v2")
        after_the_first_read(monkeypatch, lambda: getattr(twin, command)("v2", command_id="job-7"))
        committed = getattr(workflow, command)(
            "v2", command_id="job-7", expected_generation=expected
        )
        assert (committed.generation, committed.replayed) == (3, True)
        assert len(workflow.history()) == 3


def after_the_first_read(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """Do something between a command's first read of the log and its second."""
    first = iter([True])

    def read_then_act(genuine: Callable[..., Any]) -> Callable[..., Any]:
        def read(*arguments: Any) -> Any:
            acts = next(first, False)
            found = genuine(*arguments)
            if acts:
                act()
            return found

        return read

    for name in ("newest", "command"):
        monkeypatch.setattr(EventLog, name, read_then_act(getattr(EventLog, name)))
