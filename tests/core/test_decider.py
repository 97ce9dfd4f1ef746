"""What each command makes of a state: start, register, commit."""

import pytest

from alloc_es.commands import Command
from alloc_es.errors import (
    AlreadyCurrent,
    ChallengerAlreadyLive,
    InvalidSplit,
    NoSuchChallenger,
    UnknownWorkflow,
    WorkflowAlreadyStarted,
)
from tests.core.given import (
    KEY,
    allocation,
    at,
    challenger,
    commit,
    committed,
    control,
    given,
    promote,
    refused,
    register,
    registered,
    reject,
    roll_back,
    run,
    start,
    when,
)


def test_start_gives_all_buckets_to_the_first_current_version_as_generation_1() -> None:
    result = allocation(1, control("v1", (0, 10_000)), episode=0, salt="salt-0")
    assert when(None, start("v1")) == (committed("start", result, "v1"),)


def test_an_event_carries_who_sent_its_command_and_why() -> None:
    """Red when `_facts` leaves out or swaps a field of the envelope."""
    (event,) = when(None, start())
    assert (event.command_id, event.actor, event.reason) == ("command-1", "ada", "reason 1")
    assert (event.recorded_at, event.max_challengers) == (at(1), 1)
    assert (event.key, event.generation) == (KEY, 1)
    assert (event.originator_id, event.originator_version) == ("allocation/acme/triage", 1)


@pytest.mark.parametrize("current", ["v1", "v9"])
def test_a_second_start_is_refused_with_the_allocation_that_holds(current: str) -> None:
    """Red when `_start` no longer looks at the state."""
    state = given(start(), register("v2"))
    assert refused(WorkflowAlreadyStarted, state, start(current)).allocation == state


@pytest.mark.parametrize(
    "command",
    [
        register("v2"),
        commit({"v2": 1}),
        promote("v2"),
        reject("v2"),
        reject("v2", "v3"),
        roll_back(),
    ],
    ids=lambda command: type(command).__name__,
)
def test_every_command_but_start_is_refused_for_a_workflow_never_started(command: Command) -> None:
    """Red when `decide` no longer checks that there is a state."""
    assert refused(UnknownWorkflow, None, command).key == KEY


def test_a_registered_challenger_takes_its_share_from_the_lowest_buckets_of_the_control() -> None:
    result = allocation(2, control("v1", (500, 10_000)), challenger("v2", (0, 500), since=2))
    assert when(given(start()), register("v2")) == (registered(result, "v2"),)
    assert result.split == {"v1": 9_500, "v2": 500}


def test_a_challenger_may_be_registered_with_no_share_yet() -> None:
    result = allocation(2, control("v1"), challenger("v2", since=2))
    assert when(given(start()), register("v2", 0)) == (registered(result, "v2"),)


def test_a_second_challenger_is_refused_naming_the_incumbent() -> None:
    """Red when `_register` compares with `>` instead of `>=`."""
    state = given(start(), register("v2"), commit({"v2": 700}))
    error = refused(ChallengerAlreadyLive, state, register("v3"))
    assert (error.key, error.asked, error.incumbent) == (KEY, "v3", "v2")
    assert (error.since_generation, error.since) == (2, at(2))
    assert error.incumbents == (challenger("v2", (0, 700), since=2),)
    assert "v2 (since generation 2, 2026-03-01 12:02 UTC)" in str(error)


def test_a_live_challenger_is_not_registered_again() -> None:
    state = given(start(), register("v2"))
    error = refused(ChallengerAlreadyLive, state, register("v2"))
    assert (error.asked, error.incumbent, error.since_generation) == ("v2", "v2", 2)


def test_a_live_challenger_is_not_registered_again_though_a_slot_is_free() -> None:
    """Red when `_register` only counts the live challengers."""
    state = given(start(), register("v2"), register("v3"), max_challengers=3)
    error = refused(ChallengerAlreadyLive, state, register("v3"), max_challengers=3)
    assert (error.incumbent, error.since_generation, len(error.incumbents)) == ("v3", 3, 1)


def test_a_tournament_takes_as_many_challengers_as_it_allows() -> None:
    state = given(start(), register("v2"), max_challengers=2)
    result = allocation(
        3,
        control("v1", (800, 10_000)),
        challenger("v2", (0, 500), since=2),
        challenger("v3", (500, 800), since=3),
    )
    events = when(state, register("v3", 300, salt="unused"), max_challengers=2)
    assert events == (registered(result, "v3", max_challengers=2),)


def test_a_full_tournament_refuses_one_more_and_names_all_who_are_live() -> None:
    """Red when the refusal is made with the first incumbent only."""
    state = given(start(), register("v2"), register("v3"), max_challengers=2)
    error = refused(ChallengerAlreadyLive, state, register("v4"), max_challengers=2)
    assert [arm.version for arm in error.incumbents] == ["v2", "v3"]
    assert (error.incumbent, error.since_generation) == ("v2", 2)
    assert "v2 (since generation 2" in str(error)
    assert "v3 (since generation 3" in str(error)


def test_a_lowered_limit_refuses_new_challengers_and_keeps_the_live_ones() -> None:
    state = given(start(), register("v2"), register("v3"), max_challengers=2)
    error = refused(ChallengerAlreadyLive, state, register("v4"), max_challengers=1)
    assert [arm.version for arm in error.incumbents] == ["v2", "v3"]
    assert when(state, commit({"v2": 1}), max_challengers=1) != ()


def test_the_current_version_is_no_challenger_to_itself() -> None:
    """Red when `_register` no longer calls `_refuse_current`."""
    error = refused(AlreadyCurrent, given(start()), register("v1"))
    assert (error.key, error.version, error.since_generation, error.live) == (KEY, "v1", 1, ())


def test_a_promoted_version_is_no_challenger_to_itself_though_another_is_live() -> None:
    state = given(start(), register("v2"), promote("v2"), register("v3"))
    error = refused(AlreadyCurrent, state, register("v2"))
    assert (error.version, error.since_generation, error.live) == ("v2", 3, ("v3",))


def test_a_rejected_version_may_return_as_a_new_tenure() -> None:
    state = given(start(), register("v2"), reject("v2"))
    result = allocation(
        4,
        control("v1", (250, 10_000)),
        challenger("v2", (0, 250), since=4),
        episode=2,
        salt="salt-2",
    )
    assert when(state, register("v2", 250, "salt-2")) == (registered(result, "v2"),)


def test_a_former_current_version_may_come_back_as_a_challenger() -> None:
    state = given(start(), register("v2"), promote("v2"))
    (event,) = when(state, register("v1"))
    assert event.allocation.split == {"v2": 9_500, "v1": 500}


@pytest.mark.parametrize("share", [10_000, 10_001])
def test_a_challenger_can_not_take_the_last_bucket_of_the_control(share: int) -> None:
    """Red when `_resized` compares with `>` instead of `>=`."""
    error = refused(InvalidSplit, given(start()), register("v2", share))
    assert f"would get {share} of 10000" in error.problem
    assert "leave the current version v1 at least 1" in error.advice
    (event,) = when(given(start()), register("v2", 9_999))
    assert event.allocation.split == {"v1": 1, "v2": 9_999}


def test_a_new_share_is_committed_and_the_control_gets_the_rest() -> None:
    state = given(start(), register("v2"))
    result = allocation(3, control("v1", (1_000, 10_000)), challenger("v2", (0, 1_000), since=2))
    assert when(state, commit({"v2": 1_000})) == (committed("split", result, shares={"v2": 1_000}),)


@pytest.mark.parametrize("shares", [{"v2": 500}, {}], ids=["the same share", "no share"])
def test_the_same_shares_again_change_nothing(shares: dict[str, int]) -> None:
    """Red when `_commit` no longer compares the arms."""
    assert when(given(start(), register("v2")), commit(shares)) == ()


def test_a_share_of_0_keeps_the_slot_and_routes_nothing_to_it() -> None:
    state = given(start(), register("v2"))
    result = allocation(3, control("v1", (0, 10_000)), challenger("v2", since=2))
    assert when(state, commit({"v2": 0})) == (committed("split", result, shares={"v2": 0}),)
    assert result.split == {"v1": 10_000, "v2": 0}


def test_a_challenger_with_a_share_of_0_still_holds_its_slot() -> None:
    state = given(start(), register("v2"), commit({"v2": 0}))
    assert refused(ChallengerAlreadyLive, state, register("v3")).incumbent == "v2"


def test_a_challenger_not_named_keeps_its_share() -> None:
    result = allocation(
        4,
        control("v1", (0, 500), (1_200, 10_000)),
        challenger("v2", since=2),
        challenger("v3", (500, 1_200), since=3),
    )
    state = given(start(), register("v2"), register("v3", 700), max_challengers=2)
    events = when(state, commit({"v2": 0}), max_challengers=2)
    assert events == (committed("split", result, shares={"v2": 0}, max_challengers=2),)


@pytest.mark.parametrize("share", [9_500, 0])
def test_the_current_version_is_not_named_in_a_split(share: int) -> None:
    """Red when `_commit` no longer looks for the current version."""
    state = given(start(), register("v2"))
    error = refused(InvalidSplit, state, commit({"v2": 500, "v1": share}))
    assert "v1 is the current version" in error.problem
    assert "gets the rest" in error.advice


def test_a_version_that_is_not_live_gets_no_share() -> None:
    """Red when `_commit` no longer looks the versions up."""
    state = given(start(), register("v2"))
    error = refused(NoSuchChallenger, state, commit({"v2": 600, "v9": 100}))
    assert (error.key, error.version) == (KEY, "v9")
    assert (error.live, error.current) == (("v2",), "v1")


def test_shares_that_leave_the_control_nothing_are_refused() -> None:
    state = given(start(), register("v2"), register("v3"), max_challengers=2)
    for shares in ({"v2": 5_000, "v3": 5_000}, {"v2": 9_500}):
        error = refused(InvalidSplit, state, commit(shares), max_challengers=2)
        assert "10000 of 10000" in error.problem
        assert "v1" in error.advice
    (event,) = when(state, commit({"v2": 5_000, "v3": 4_999}), max_challengers=2)
    assert event.allocation.split == {"v1": 1, "v2": 5_000, "v3": 4_999}


def test_two_challengers_may_swap_shares_in_one_commit() -> None:
    state = given(start(), register("v2", 6_000), register("v3", 3_999), max_challengers=2)
    (event,) = when(state, commit({"v2": 3_999, "v3": 6_000}), max_challengers=2)
    assert event.allocation.split == {"v1": 1, "v2": 3_999, "v3": 6_000}


def test_the_generation_counts_the_events() -> None:
    events, state = run(start(), register("v2"), commit({"v2": 1}), promote("v2"), roll_back())
    assert [event.generation for event in events] == [1, 2, 3, 4, 5]
    assert state.generation == 5
