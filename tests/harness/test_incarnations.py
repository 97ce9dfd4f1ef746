"""An old incarnation that wakes up can't commit in its successor's name."""

import os
from collections.abc import Iterator
from typing import Any

import pytest

from alloc_es import IncarnationSuperseded, SpawnRequest, connect
from alloc_es.harness import (
    Decide,
    Done,
    Launcher,
    Mode,
    NotCarriedOut,
    Read,
    Refused,
    Resolved,
    Spawn,
    Unknown,
)
from alloc_es.proposals import Reshare
from tests.harness.openers import Gate, Switch
from tests.harness.scripted import KEY, SECONDS

LATE, NEW = Decide(KEY, Reshare({"v2": 1_111})), Decide(KEY, Reshare({"v2": 2_222}))
SAID = (
    "s1 is at incarnation 2 now: incarnation 1 may record no decision and no run; "
    "stop this process, incarnation 2 goes on in its place"
)


@pytest.fixture
def url(durable_url: str) -> str:
    """A store with a workflow that has a challenger."""
    with connect(durable_url) as allocations:
        workflow = allocations.workflow(*KEY)
        workflow.start("v1")
        workflow.register_challenger("v2")
    return durable_url


@pytest.fixture
def gate() -> Iterator[Gate]:
    """A gate that is closed, in front of every decision of this process's participants."""
    Switch.appending = Gate()
    yield Switch.appending
    Switch.appending.open.set()


def require_superseded(outcome: object) -> None:
    """It was refused, with both incarnations named."""
    assert isinstance(outcome, Refused)
    error = outcome.error
    assert isinstance(error, IncarnationSuperseded)
    assert (error.name, error.incarnation, error.successor) == ("s1", 1, 2)
    assert str(error) == SAID


def shares_set(launcher: Launcher) -> list[int]:
    """The shares of v2 that were set, in order."""
    events: list[Any] = [each.event for each in launcher.allocations.decisions()]
    return [event.shares["v2"] for event in events if getattr(event, "shares", None)]


def test_an_old_process_that_was_stopped_in_the_middle_of_a_commit_is_refused(url: str) -> None:
    """Red when the store takes a decision of a process that has a successor."""
    with Launcher(url, threads=1) as old, Launcher(url, threads=1) as new:
        first = old.start("s1", "scheduler", ["acme"])
        first.set_trap("before append", "stop")
        pending = first.send(LATE, request_id="late")
        assert first.pid is not None
        os.waitid(os.P_PID, first.pid, os.WSTOPPED | os.WNOWAIT)
        unknown = first.settle(pending, probe_after=0, probe_within=0, probes=2)
        assert isinstance(unknown, Unknown)
        assert first.health(0).state == "silent"
        second = new.start("s1", "scheduler", ["acme"], mode="thread")
        assert isinstance(second.call(NEW, probe_after=SECONDS), Done)
        first.resume()
        require_superseded(first.settle(pending, probe_after=SECONDS))
        require_superseded(first.call(LATE, probe_after=SECONDS))
        assert isinstance(first.call(Read(KEY), probe_after=SECONDS), Done)
        assert isinstance(second.call(NEW, probe_after=SECONDS), Done)
        assert shares_set(new) == [2_222]
        assert first.ended is None


@pytest.mark.parametrize("mode", ["in_process", "thread"])
def test_an_old_one_that_is_slow_is_refused_in_the_launcher_s_process_too(
    url: str, mode: Mode, gate: Gate
) -> None:
    """Red when a task or thread that was not ended in time commits beside its successor."""
    with Launcher(url, threads=1, opener="tests.harness.openers:gated") as launcher:
        first = launcher.start("s1", "scheduler", ["acme"], mode=mode)
        pending = first.send(LATE, request_id="late")
        assert gate.reached.wait(SECONDS)
        second = launcher.restart("s1", "too slow", within=0)
        assert (first.ended, second.incarnation.number) == ("too slow", 2)
        never = first.settle(pending)
        assert isinstance(never, Resolved)
        assert isinstance(never.outcome, Refused)
        assert isinstance(never.outcome.error, NotCarriedOut)
        gate.open.set()
        assert first.stop("too slow", within=SECONDS)
        assert isinstance(second.call(NEW, probe_after=SECONDS), Done)
        assert shares_set(launcher) == [2_222]


@pytest.mark.parametrize("mode", ["in_process", "thread"])
def test_an_old_one_of_another_launcher_is_refused_at_its_next_command(
    url: str, mode: Mode
) -> None:
    """Red when participants of one process share a connection that no store tells apart."""
    with Launcher(url, threads=2) as old, Launcher(url, threads=1) as new:
        first = old.start("s1", "scheduler", ["acme"], mode=mode)
        spawner = old.start("p1", "spawner", ["acme"], mode=mode)
        new.start("s1", "scheduler", ["acme"], mode="thread")
        new.allocations.new_incarnation("p1")
        require_superseded(first.call(LATE, probe_after=SECONDS))
        runs = spawner.call(Spawn((SpawnRequest(*KEY, "run-1"),)), probe_after=SECONDS)
        assert isinstance(runs, Done)
        assert [type(each) for each in runs.answer] == [IncarnationSuperseded]
        assert list(new.allocations.runs()) == []
