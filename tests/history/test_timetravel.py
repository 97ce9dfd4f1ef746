"""What held at a generation, at a position and at a time."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given as for_all
from hypothesis import strategies as st

import alloc_es
from alloc_es import InvalidSetting, NothingThen, UnknownWorkflow
from alloc_es.commands import Command
from alloc_es.timetravel import at, at_generation, at_position, at_time
from tests.core.given import KEY, START, commit, promote, register, start
from tests.core.given import at as minute
from tests.history.given import History, history, timed

DECISIONS = history(start(), register("v2"), commit({"v2": 900}), promote("v2"))


def stepped(*minutes: int) -> History:
    """Decisions by clocks that said so many minutes behind the start."""
    shares = (commit({"v2": 600 + n}) for n in range(len(minutes)))
    commands: list[Command] = [start(), register("v2"), *shares]
    made = history(*commands[: len(minutes)])
    return timed(made, [START + timedelta(minutes=each) for each in minutes])


@pytest.mark.parametrize("generation", [1, 2, 3, 4])
def test_a_generation_is_what_its_decision_left(generation: int) -> None:
    """Red when the decision in front of it, or behind it, is returned."""
    assert at_generation(DECISIONS, generation) == DECISIONS[generation - 1]


@pytest.mark.parametrize("generation", [0, 5])
def test_a_generation_that_is_not_there_is_refused_with_those_that_are(generation: int) -> None:
    """Red when the nearest one is returned, or the refusal keeps no facts."""
    with pytest.raises(NothingThen) as raised:
        at_generation(DECISIONS, generation)
    refusal = raised.value
    assert (refusal.key, refusal.generation, refusal.position, refusal.time) == (
        KEY,
        generation,
        None,
        None,
    )
    assert (refusal.first_generation, refusal.last_generation) == (1, 4)
    assert str(refusal) == (
        f"acme/triage has no generation {generation}: there is 1 to 4; choose one of these"
    )


def test_at_a_position_the_newest_decision_at_it_or_in_front_of_it_held() -> None:
    """Red when a decision holds from the position behind its own on."""
    found = [at_position(DECISIONS, position).generation for position in (10, 19, 20, 39, 40, 999)]
    assert found == [1, 1, 2, 3, 4, 4]
    with pytest.raises(NothingThen) as raised:
        at_position(DECISIONS, 9)
    assert (raised.value.position, raised.value.first_position) == (9, 10)
    assert "its first lies at 10" in str(raised.value)


def test_at_a_time_the_newest_decision_up_to_it_held() -> None:
    """Red when a decision does not hold yet at its own time."""
    times = (minute(1), minute(2) - timedelta.resolution, minute(2), minute(4), minute(999))
    assert [at_time(DECISIONS, time).generation for time in times] == [1, 1, 2, 4, 4]
    with pytest.raises(NothingThen) as raised:
        at_time(DECISIONS, minute(0))
    assert (raised.value.time, raised.value.first_time) == (minute(0), minute(1))
    assert "its first is of 2026-03-01T12:01:00+00:00" in str(raised.value)


def test_a_clock_that_stepped_back_changes_no_order() -> None:
    """Red when a decision counts from what its own clock said, whatever was before it."""
    decisions = stepped(0, 10, -60, 5, 20)

    def generation(minutes: int) -> int:
        return at_time(decisions, START + timedelta(minutes=minutes)).generation

    assert [generation(minutes) for minutes in (0, 5, 9, 10, 19, 20)] == [1, 1, 1, 4, 4, 5]
    with pytest.raises(NothingThen):
        generation(-30)


@for_all(st.lists(st.integers(-20, 20), min_size=1, max_size=8), st.integers(-25, 25))
def test_a_later_time_never_gives_an_earlier_allocation(minutes: list[int], asked: int) -> None:
    """Red when the times are searched as they were recorded, which need not rise."""
    decisions, found = stepped(*minutes), 0
    for minute_asked in (asked, asked + 1, asked + 7):
        counts_from = [max(minutes[: place + 1]) for place in range(len(minutes))]
        owed = sum(each <= minute_asked for each in counts_from)
        time = START + timedelta(minutes=minute_asked)
        if owed:
            assert at_time(decisions, time).generation == owed >= found
        else:
            with pytest.raises(NothingThen):
                at_time(decisions, time)
        found = owed


def test_exactly_one_moment_is_asked_for_and_a_time_has_a_zone() -> None:
    """Red when the first of two is taken, or a naive time is read as one of this machine."""
    with pytest.raises(InvalidSetting, match="give one of generation, position and time"):
        at(DECISIONS)
    with pytest.raises(InvalidSetting, match="give one of generation, position and time"):
        at(DECISIONS, generation=1, position=10)
    with pytest.raises(InvalidSetting, match=r"time: .* is no datetime with its time zone"):
        at(DECISIONS, time=datetime(2026, 3, 1))  # noqa: DTZ001 - that is what is refused
    with pytest.raises(InvalidSetting, match="give an integer from 0 up"):
        at(DECISIONS, generation=-1)
    with pytest.raises(InvalidSetting, match="give an integer from 0 up"):
        at(DECISIONS, position=True)


def test_a_workflow_answers_for_its_own_decisions(store_url: str) -> None:
    """Red when `Workflow.at` drops what was asked, or looks into another workflow's stream."""
    times = iter(START + timedelta(minutes=n) for n in range(9))
    with alloc_es.connect(store_url, clock=lambda: next(times)) as allocations:
        allocations.workflow("acme", "other").start("w1")
        workflow = allocations.workflow(*KEY)
        with pytest.raises(UnknownWorkflow):
            workflow.at(generation=1)
        made = [workflow.start("v1"), workflow.register_challenger("v2")]
        first, second = workflow.history()
        assert [each.event for each in (first, second)] == [each.event for each in made]
        assert workflow.at(generation=1) == first
        assert workflow.at(position=second.position - 1) == first
        assert workflow.at(position=second.position) == second
        assert workflow.at(time=second.time.astimezone(UTC)) == second
