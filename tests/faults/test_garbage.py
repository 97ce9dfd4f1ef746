"""Anything at all in the place of any argument: a refusal of ours, and a store left as it was."""

import asyncio
import inspect
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import alloc_es
from alloc_es import (
    AllocationError,
    Allocations,
    InvalidIdentifier,
    RunSpawned,
    Share,
    SpawnRequest,
    UnknownWorkflow,
    Workflow,
)
from tests.faults.commands import KEY, history

HUGE = (10**30, -(10**30), 10**5_000, 2**31, 2**62 + 1, 2**63 - 1, 2**63, 2**64)
TEXTS = ("\ud800", "\0", "a\0b", " ", "", "x" * 201, "x" * 10_000, "e\u0301", "\u202e", "v\u200b1")

GARBAGE = st.one_of(
    st.none(),
    st.booleans(),
    st.sampled_from(HUGE),
    st.integers(max_value=-1),
    st.sampled_from(TEXTS),
    st.text(max_size=8),
    st.text(st.characters(categories=["Cs", "Cc", "Cf"]), min_size=1, max_size=3),
    st.floats(),
    st.binary(max_size=8),
    st.lists(st.integers() | st.text(max_size=3), max_size=3),
    st.dictionaries(st.text(max_size=3) | st.integers(), st.floats() | st.integers(), max_size=3),
    st.just(object()),
    st.just(...),
)

NAMES = st.sampled_from(["a", "other", "customer-17"])

SOUND: dict[str, dict[str, Any]] = {
    "start": {"current": "v1"},
    "register_challenger": {"version": "v3", "share_bps": 100},
    "commit_allocation": {"shares": {"v2": 100}},
    "promote_challenger": {"version": "v2"},
    "reject_challenger": {"version": "v2", "replacement": "v3"},
    "roll_back": {"to_generation": 1, "drop": ["v2"]},
    "spawn_run": {"run_id": "run-1", "unit": "customer-17", "actor": "somebody", "timeout": 5},
    "aspawn_run": {"run_id": "run-1", "unit": "customer-17", "actor": "somebody", "timeout": 5},
    "find_run": {"run_id": "run-1"},
    "peek": {"unit": "customer-17"},
}
"""Every method of a workflow that takes arguments, with some that can be."""

SETTINGS = ("url", "actor", "max_challengers", "timeout", "cached_workflows")

STALE = {
    "expected_generation": 1,
    "command_id": "command-1",
    "reason": "because",
    "actor": "somebody",
}
"""What every command takes. The generation is an old one, so no command is ever carried out."""


def arguments(method: str) -> dict[str, Any]:
    """The arguments of a method, all in order."""
    takes = inspect.signature(getattr(Workflow, method)).parameters
    offered = {**STALE, **SOUND[method]}
    return {name: offered[name] for name in takes if name != "self"}


PLACES = [(method, name) for method in SOUND for name in arguments(method)]


def outcome(act: Callable[[], object]) -> str:
    """The name of the error of ours that an act ends in, or "done"; any other one passes."""
    try:
        act()
    except AllocationError as error:
        return type(error).__name__ if str(error) else "an error without words"
    return "done"


def done(answer: object) -> object:
    """What a call has answered, awaited if it has to be."""
    return asyncio.run(answer) if inspect.iscoroutine(answer) else answer


def contents(allocations: Allocations) -> tuple[list[Any], list[Any]]:
    return history(allocations), [recorded.event for recorded in allocations.runs()]


@settings(max_examples=400, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(place=st.sampled_from(PLACES), garbage=GARBAGE)
def spoil(
    allocations: Allocations, seen: Counter[str], place: tuple[str, str], garbage: Any
) -> None:
    method, argument = place
    assume((argument, garbage) != ("expected_generation", None))
    before = contents(allocations)
    act = getattr(allocations.workflow(*KEY), method)
    given_to_it = {**arguments(method), argument: garbage}

    ended = outcome(lambda: done(act(**given_to_it)))

    seen[ended] += 1
    after = contents(allocations)
    if ended == "done" and argument == "run_id":
        # Any text may name a run.
        assert (after[0], after[1][:-1]) == before or after == before
    else:
        assert after == before


def test_garbage_for_any_argument_is_refused_in_our_words_and_changes_nothing(
    store_url: str,
) -> None:
    """Red when an argument reaches a store unread: its driver's error comes out."""
    seen: Counter[str] = Counter()
    with alloc_es.connect(store_url, actor="somebody") as allocations:
        workflow = allocations.workflow(*KEY)
        workflow.start("v1")
        workflow.register_challenger("v2")
        workflow.spawn_run("run-1", unit="customer-17")
        spoil(allocations, seen)

    refused = {"InvalidIdentifier", "InvalidSplit", "InvalidSetting", "GenerationConflict"}
    assert refused <= set(seen), seen
    assert sum(seen[name] for name in refused) > sum(seen.values()) / 2, seen


@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(field=st.sampled_from(SpawnRequest._fields), garbage=GARBAGE | NAMES)
def spoil_request(allocations: Allocations, seen: Counter[str], field: str, garbage: Any) -> None:
    known = SpawnRequest(*KEY, "run-1")

    spoilt, beside = allocations.spawn_runs([known._replace(**{field: garbage}), known])

    seen[type(spoilt).__name__] += 1
    assert isinstance(spoilt, RunSpawned | InvalidIdentifier | UnknownWorkflow)
    assert isinstance(beside, RunSpawned)
    assert beside.run_id == "run-1"


def test_garbage_in_one_request_of_many_spoils_no_other(store_url: str) -> None:
    """Red when a request is looked up before it is looked at: what has no hash comes out."""
    seen: Counter[str] = Counter()
    with alloc_es.connect(store_url) as allocations:
        allocations.workflow(*KEY).start("v1")
        spoil_request(allocations, seen)
    assert {"RunSpawned", "InvalidIdentifier", "UnknownWorkflow"} <= set(seen), seen


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(garbage=GARBAGE)
def question(allocations: Allocations, garbage: Any) -> None:
    before = contents(allocations)
    for act in (
        lambda: allocations.workflow(garbage, "triage"),
        lambda: allocations.workflow("acme", garbage),
        lambda: allocations.list(garbage),
        lambda: list(allocations.decisions(after=garbage)),
        lambda: list(allocations.runs(after=garbage)),
        lambda: Share.parse(garbage),
        lambda: allocations.spawn_runs(garbage),
        lambda: allocations.spawn_runs([garbage]),
        lambda: allocations.spawn_runs([], timeout=garbage),
    ):
        outcome(act)
    assert contents(allocations) == before


def test_garbage_in_a_question_is_answered_in_our_words(store_url: str) -> None:
    """Red when `decisions` and `runs` hand a position on unread."""
    with alloc_es.connect(store_url) as allocations:
        allocations.workflow(*KEY).start("v1")
        question(allocations)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(name=st.sampled_from(SETTINGS), garbage=GARBAGE)
def connect_with(path: Path, name: str, garbage: Any) -> None:
    url = f"sqlite:///{path}"

    def act() -> None:
        alloc_es.connect(**{"url": url, name: garbage}).close()

    outcome(act)


def test_garbage_in_the_settings_is_refused_in_our_words(sqlite_url: str) -> None:
    """Red when `connect` compares, or splits, what it was given before it looks what it is."""
    connect_with(Path(sqlite_url.removeprefix("sqlite:///")))


@pytest.mark.parametrize("timeout", [0, 0.0004, 86_401, 10**30, float("nan"), True, "10", None])
def test_a_timeout_that_no_store_could_keep_is_refused(timeout: Any, store_url: str) -> None:
    """PostgreSQL takes 0 ms for no limit at all, and overflows after 24 days.

    Red when `connect` takes every positive number.
    """
    with pytest.raises(alloc_es.InvalidSetting) as caught:
        alloc_es.connect(store_url, timeout=timeout)
    assert caught.value.setting == "timeout"


@pytest.mark.parametrize("timeout", [0, 0.0004, 86_401, 10**30, float("nan"), True, "10"])
def test_a_timeout_of_a_run_is_refused_alike(timeout: Any, store_url: str) -> None:
    """Red when `spawn_run`, `aspawn_run` or `spawn_runs` waits for whatever it was given."""
    with alloc_es.connect(store_url) as allocations:
        workflow = allocations.workflow(*KEY)
        workflow.start("v1")
        asked = alloc_es.SpawnRequest(*KEY, "run-1")
        calls: tuple[Callable[[], object], ...] = (
            lambda: workflow.spawn_run("run-1", timeout=timeout),
            lambda: asyncio.run(workflow.aspawn_run("run-1", timeout=timeout)),
            lambda: allocations.spawn_runs([asked], timeout=timeout),
        )
        for call in calls:
            with pytest.raises(alloc_es.InvalidSetting) as caught:
                call()
            assert caught.value.setting == "timeout"
        assert list(allocations.runs()) == []


@pytest.mark.parametrize("after", [-1, 2**62 + 1, 10**30, 1.0, float("nan"), "1", None, True])
def test_a_position_that_can_not_be_is_refused_alike_on_every_store(
    after: Any, store_url: str
) -> None:
    """Red when `decisions` and `runs` hand a position on unread."""
    with alloc_es.connect(store_url) as allocations:
        for question_of in (allocations.decisions, allocations.runs):
            with pytest.raises(alloc_es.InvalidSetting) as caught:
                question_of(after=after)
            assert caught.value.setting == "after"
