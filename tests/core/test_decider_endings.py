"""What each command makes of a state: promote, reject, roll back."""

import pytest

from alloc_es.commands import Command
from alloc_es.errors import (
    AlreadyCurrent,
    ChallengerAlreadyLive,
    ChallengersStillLive,
    NoEarlierVersion,
    NoSuchChallenger,
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
    reject,
    rejected,
    roll_back,
    start,
    when,
)


def test_a_promoted_challenger_becomes_current_with_all_buckets() -> None:
    state = given(start(), register("v2"))
    result = allocation(3, control("v2", since=3), previous="v1")
    assert when(state, promote("v2")) == (committed("promotion", result, "v2"),)


def test_a_promotion_frees_the_slot() -> None:
    state = given(start(), register("v2"), promote("v2"))
    (event,) = when(state, register("v3"))
    assert event.allocation.challengers == ("v3",)


def test_a_promotion_in_a_tournament_leaves_the_others_their_slots_and_tenures() -> None:
    """Red when `_promote` drops the other challengers."""
    state = given(start(), register("v2"), register("v3"), max_challengers=2)
    result = allocation(
        4,
        control("v2", (0, 500), (1_000, 10_000), since=4),
        challenger("v3", (500, 1_000), since=3),
        previous="v1",
    )
    expected = committed("promotion", result, "v2", max_challengers=2)
    assert when(state, promote("v2"), max_challengers=2) == (expected,)


@pytest.mark.parametrize("command", [promote("v2"), reject("v2"), reject("v2", "v3")])
def test_a_challenger_that_left_is_not_promoted_or_rejected_again(command: Command) -> None:
    """Red when `_live` makes an arm up instead of refusing."""
    state = given(start(), register("v2"), reject("v2"), register("v4"))
    error = refused(NoSuchChallenger, state, command)
    assert (error.key, error.version) == (KEY, "v2")
    assert (error.live, error.current) == (("v4",), "v1")
    assert "it is not live at generation 4; live challengers: v4 (since generation 4" in str(error)


@pytest.mark.parametrize("command", [promote("v1"), reject("v1"), reject("v1", "v3")])
def test_the_current_version_is_not_promoted_or_rejected(command: Command) -> None:
    state = given(start(), register("v2"))
    error = refused(NoSuchChallenger, state, command)
    assert (error.version, error.current, error.live) == ("v1", "v1", ("v2",))
    assert "it is the current version" in str(error)


def test_a_second_promotion_of_the_same_version_is_refused() -> None:
    state = given(start(), register("v2"), promote("v2"))
    error = refused(NoSuchChallenger, state, promote("v2"))
    assert (error.version, error.current, error.live) == ("v2", "v2", ())
    assert str(error).endswith("live challengers: none")


def test_a_replacement_takes_over_the_same_slot_in_one_event_and_triggers_nothing() -> None:
    """Red when `_replace` gives the successor buckets of its own choice."""
    state = given(start(), register("v2"), register("v3"), register("v4"), max_challengers=3)
    result = allocation(
        5,
        control("v1", (1_500, 10_000)),
        challenger("v2", (0, 500), since=2),
        challenger("v5", (500, 1_000), since=5),
        challenger("v4", (1_000, 1_500), since=4),
    )
    expected = committed("replacement", result, "v5", dropped=("v3",), max_challengers=3)
    assert when(state, reject("v3", "v5"), max_challengers=3) == (expected,)


def test_a_replacement_of_the_only_challenger_stays_in_its_episode() -> None:
    state = given(start(), register("v2", 700))
    result = allocation(3, control("v1", (700, 10_000)), challenger("v3", (0, 700), since=3))
    expected = committed("replacement", result, "v3", dropped=("v2",))
    assert when(state, reject("v2", "v3")) == (expected,)


def test_a_replacement_already_made_is_not_made_again() -> None:
    state = given(start(), register("v2"), reject("v2", "v3"))
    error = refused(NoSuchChallenger, state, reject("v2", "v3"))
    assert (error.version, error.live) == ("v2", ("v3",))


def test_the_current_version_replaces_no_challenger() -> None:
    """Red when `_replace` no longer calls `_refuse_current`."""
    error = refused(AlreadyCurrent, given(start(), register("v2")), reject("v2", "v1"))
    assert (error.version, error.since_generation, error.live) == ("v1", 1, ("v2",))


@pytest.mark.parametrize("replacement", ["v2", "v3"])
def test_a_live_challenger_replaces_no_other_and_not_itself(replacement: str) -> None:
    """Red when `_replace` no longer looks for the replacement among the live."""
    state = given(start(), register("v2"), register("v3"), max_challengers=2)
    error = refused(ChallengerAlreadyLive, state, reject("v2", replacement), max_challengers=2)
    assert (error.asked, error.incumbent) == (replacement, replacement)


def test_a_rejection_without_a_replacement_is_the_trigger() -> None:
    """Red when `decide` sends a rejection without a replacement elsewhere."""
    state = given(start(), register("v2"))
    result = allocation(3, control("v1"))
    assert when(state, reject("v2")) == (rejected(result, "v2"),)


def test_the_trigger_fires_once_for_each_rejection_in_a_tournament() -> None:
    state = given(start(), register("v2"), register("v3"), max_challengers=2)
    result = allocation(
        4, control("v1", (0, 500), (1_000, 10_000)), challenger("v3", (500, 1_000), since=3)
    )
    assert when(state, reject("v2"), 2) == (rejected(result, "v2", max_challengers=2),)
    after = given(start(), register("v2"), register("v3"), reject("v2"), max_challengers=2)
    assert refused(NoSuchChallenger, after, reject("v2"), 2).live == ("v3",)
    result = allocation(5, control("v1"))
    assert when(after, reject("v3"), 2) == (rejected(result, "v3", max_challengers=2),)


def test_rolling_back_makes_the_previous_version_current_again() -> None:
    state = given(start(), register("v2"), promote("v2"))
    result = allocation(4, control("v1", since=4), previous="v2")
    assert when(state, roll_back()) == (committed("rollback", result, "v1"),)


def test_rolling_back_twice_returns_to_where_one_was() -> None:
    state = given(start(), register("v2"), promote("v2"), roll_back())
    result = allocation(5, control("v2", since=5), previous="v1")
    assert when(state, roll_back()) == (committed("rollback", result, "v2"),)


def test_rolling_back_to_a_generation_makes_its_version_current_again() -> None:
    """Red when `_roll_back` takes the previous version in any case."""
    state = given(start(), register("v2"), promote("v2"), register("v3"), promote("v3"))
    result = allocation(6, control("v1", since=6), episode=2, previous="v3")
    expected = committed("rollback", result, "v1", to_generation=1)
    assert when(state, roll_back(1, "v1")) == (expected,)


def test_a_live_challenger_must_be_named_to_be_dropped_by_a_rollback() -> None:
    """Red when `_roll_back` drops whoever is live."""
    state = given(start(), register("v2"), promote("v2"), register("v3"), commit({"v3": 50}))
    error = refused(ChallengersStillLive, state, roll_back())
    assert (error.key, error.target, error.undropped) == (KEY, "v1", ("v3",))
    assert "v3 (since generation 4, 2026-03-01 12:04 UTC) is live" in str(error)
    assert "(drop): v3" in str(error)


def test_a_rollback_drops_the_challenger_that_it_names_and_triggers_nothing() -> None:
    state = given(start(), register("v2"), promote("v2"), register("v3", salt="salt-2"))
    result = allocation(5, control("v1", since=5), episode=2, salt="salt-2", previous="v2")
    expected = committed("rollback", result, "v1", dropped=("v3",))
    assert when(state, roll_back(drop=("v3",))) == (expected,)


def test_a_rollback_in_a_tournament_is_refused_naming_the_challengers_not_to_be_dropped() -> None:
    """Red when one dropped challenger stands for all."""
    history = (start(), register("v2"), promote("v2"), register("v3"), register("v4"))
    state = given(*history, register("v5"), max_challengers=3)
    error = refused(ChallengersStillLive, state, roll_back(drop=("v4",)), 3)
    assert error.undropped == ("v3", "v5")
    (event,) = when(state, roll_back(drop=("v5", "v4", "v3")), 3)
    result = allocation(7, control("v1", since=7), episode=2, previous="v2")
    assert event == committed(
        "rollback", result, "v1", dropped=("v3", "v4", "v5"), max_challengers=3
    )


def test_a_rollback_drops_nobody_who_is_not_live() -> None:
    """Red when `_roll_back` no longer looks the dropped versions up."""
    state = given(start(), register("v2"), promote("v2"))
    error = refused(NoSuchChallenger, state, roll_back(drop=("v9",)))
    assert (error.version, error.live, error.current) == ("v9", (), "v2")


@pytest.mark.parametrize("drop", [(), ("v2",)])
def test_making_the_current_version_current_while_another_is_live_is_refused_in_words(
    drop: tuple[str, ...],
) -> None:
    """Red when `_roll_back` answers None, or goes on, for the version that is current."""
    state = given(start(), register("v2"))
    error = refused(AlreadyCurrent, state, roll_back(1, "v1", drop))
    assert (error.key, error.version, error.since_generation) == (KEY, "v1", 1)
    assert error.live == ("v2",)
    assert "v1 already, since generation 1 while v2 (since generation 2" in str(error)
    assert "to take v2 out, reject it" in str(error)


def test_making_the_current_version_current_while_nobody_is_live_is_refused_in_words() -> None:
    state = given(start(), register("v2"), reject("v2"))
    error = refused(AlreadyCurrent, state, roll_back(1, "v1"))
    assert (error.version, error.live) == ("v1", ())
    assert "nothing is to be done" in str(error)


def test_there_is_nothing_to_roll_back_to_before_the_first_change_of_version() -> None:
    """Red when `_roll_back` goes back to the current version instead."""
    state = given(start(), register("v2"), reject("v2"))
    error = refused(NoEarlierVersion, state, roll_back())
    assert (error.key, error.generation, error.to_generation) == (KEY, 3, None)


def test_a_generation_that_never_was_is_nothing_to_roll_back_to() -> None:
    state = given(start(), register("v2"), promote("v2"))
    error = refused(NoEarlierVersion, state, roll_back(7, None))
    assert (error.generation, error.to_generation) == (3, 7)
    assert "no generation 7" in str(error)
    assert "choose one from 1 to 2" in str(error)


def test_the_control_keeps_its_tenure_through_everything_but_a_change_of_version() -> None:
    """Red when `_reject` or `_resized` makes the control's arm anew."""
    state = given(start(), register("v2"), commit({"v2": 9}), reject("v2", "v3"), reject("v3"))
    assert (state.control.since_generation, state.control.since) == (1, at(1))
