"""Whether an event is what a command did, which tells a repeated command from a reused id."""

from collections import Counter

from hypothesis import given as for_all
from hypothesis import settings

from alloc_es.allocation import Allocation
from alloc_es.commands import Command
from alloc_es.decider import evolve, is_outcome_of
from alloc_es.events import AllocationCommitted
from tests.core.given import commit, given, promote, register, reject, roll_back, start, when
from tests.core.histories import History, Step, histories, kind


def test_an_event_is_the_outcome_of_its_command_and_of_no_other_kind_of_command() -> None:
    """Red when `is_outcome_of` answers by the version alone, or without `decision`."""
    outcomes: Counter[str] = Counter()

    @settings(max_examples=400)
    @for_all(histories())
    def holds(history: History) -> None:
        for step in history:
            if step.event is None:
                continue
            assert is_outcome_of(step.event, step.command)
            for command in lookalikes(step):
                if kind(command) != kind(step.command):
                    assert not is_outcome_of(step.event, command)
            outcomes[kind(step.command)] += 1

    holds()
    assert len(outcomes) == 7
    assert min(outcomes.values()) > 20


def lookalikes(step: Step) -> list[Command]:
    """A command of each kind that names what the event names."""
    assert step.event is not None
    event = step.event
    version = event.version or event.allocation.current
    out = event.dropped[0] if isinstance(event, AllocationCommitted) and event.dropped else version
    split = {name: event.allocation.split[name] for name in event.allocation.challengers}
    return [
        start(version),
        register(version, split.get(version, 0)),
        commit(split),
        promote(version),
        reject(out),
        reject(out, version),
        roll_back(None, None, event.allocation.challengers),
    ]


def test_an_event_is_no_outcome_of_the_same_kind_of_command_about_something_else() -> None:
    """Red when `is_outcome_of` compares kinds only."""
    others: tuple[Command, ...] = (
        start("v8"),
        register("v8"),
        commit({"v2": 8}),
        promote("v8"),
        reject("v8"),
        reject("v2", "v8"),
        reject("v8", "v3"),
        roll_back(8, "v1"),
    )
    history = (start(), register("v2"), commit({"v2": 9}), reject("v2", "v3"), reject("v3"))
    endings = (register("v2"), promote("v2"), roll_back())
    state: Allocation | None = None
    for command in (*history, *endings):
        (event,) = when(state, command)
        state = evolve(state, event)
        assert is_outcome_of(event, command)
        assert not any(is_outcome_of(event, other) for other in others)


def test_a_registration_with_another_share_is_another_command() -> None:
    """Red when `is_outcome_of` compares a registration's version only."""
    (event,) = when(given(start()), register("v2", 500))
    assert is_outcome_of(event, register("v2", 500, salt="another"))
    assert not is_outcome_of(event, register("v2", 501))


def test_a_rollback_that_dropped_others_is_another_command() -> None:
    """Red when `is_outcome_of` does not compare what a rollback dropped."""
    state = given(start(), register("v2"), promote("v2"), register("v3"))
    (event,) = when(state, roll_back(drop=("v3",)))
    assert is_outcome_of(event, roll_back(drop=("v3",)))
    assert not is_outcome_of(event, roll_back())


def test_a_split_that_named_other_shares_is_another_command() -> None:
    """Red when `is_outcome_of` compares the split that came out, and not what was asked."""
    state = given(start(), register("v2"), register("v3"), max_challengers=2)
    (event,) = when(state, commit({"v2": 100, "v3": 500}))
    assert is_outcome_of(event, commit({"v3": 500, "v2": 100}))
    assert not is_outcome_of(event, commit({"v2": 100}))
    assert not is_outcome_of(event, commit({"v3": 500}))
