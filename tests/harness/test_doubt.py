"""What the store did not answer is never told as refused, and asking again settles it."""

from collections.abc import Iterator

import pytest

from alloc_es import (
    Allocations,
    OutcomeUnknown,
    RunSpawned,
    SpawnRequest,
    StoreUnavailable,
    connect,
)
from alloc_es.harness import (
    Decide,
    Done,
    Launcher,
    NotCarriedOut,
    Pass,
    Refused,
    Resolved,
    Spawn,
    Unknown,
)
from alloc_es.harness.looking import settled_in_log
from alloc_es.proposals import Hold, Promote, Reshare
from alloc_es.scheduler_errors import PassStopped
from tests.harness.openers import Switch
from tests.harness.policies import by_name
from tests.harness.scripted import KEY, SECONDS

RESHARE = Decide(KEY, Reshare({"v2": 1_234}))
RUNS = Spawn(tuple(SpawnRequest(*KEY, f"run-{number}") for number in range(3)))


@pytest.fixture
def launcher(sqlite_url: str) -> Iterator[Launcher]:
    """Its participants' store loses replies when it is told to, and is away then."""
    opener = "tests.harness.openers:losing"
    with Launcher(sqlite_url, threads=4, opener=opener) as made:
        workflow = made.allocations.workflow(*KEY)
        workflow.start("v1")
        workflow.register_challenger("v2")
        yield made
        heal()


@pytest.fixture(autouse=True)
def healed() -> Iterator[None]:
    """No switch is left on for others."""
    yield
    heal()


def heal() -> None:
    Switch.lost, Switch.away = "", False


def decisions_of(allocations: Allocations, request_id: str) -> int:
    """How often a request was recorded."""
    return sum(each.event.command_id == request_id for each in allocations.decisions())


def test_a_decision_that_was_recorded_is_found_in_the_log(launcher: Launcher) -> None:
    """Red when an unknown outcome is handed on before the log was looked at."""
    scheduler = launcher.start("s1", "scheduler", ["acme"], mode="thread")
    Switch.lost = "recorded"
    outcome = scheduler.call(RESHARE, request_id="r-1", probe_after=SECONDS)
    assert isinstance(outcome, Resolved)
    assert (outcome.by, outcome.probes) == ("log", 0)
    assert isinstance(outcome.outcome, Done)
    found = launcher.allocations.workflow(*KEY).newest().event
    assert (outcome.outcome.answer.event, outcome.outcome.answer.replayed) == (found, True)
    assert decisions_of(launcher.allocations, "r-1") == 1


def test_a_decision_in_doubt_stays_so_until_the_store_answers(launcher: Launcher) -> None:
    """Red when the second call's own failure is taken for an answer to the first."""
    scheduler = launcher.start("s1", "scheduler", ["acme"], mode="thread")
    Switch.lost = "a request"
    first = scheduler.call(RESHARE, request_id="r-1", probe_after=SECONDS)
    assert isinstance(first, Unknown)
    assert isinstance(first.error, OutcomeUnknown)
    second = scheduler.call(RESHARE, request_id="r-1", probe_after=SECONDS)
    assert isinstance(second, Unknown)
    assert isinstance(second.error, StoreUnavailable)
    other = scheduler.call(RESHARE, request_id="r-2", probe_after=SECONDS)
    assert isinstance(other, Refused)
    assert isinstance(other.error, StoreUnavailable)
    heal()
    third = scheduler.call(RESHARE, request_id="r-1", probe_after=SECONDS)
    assert isinstance(third, Done)
    assert third.answer.event.command_id == "r-1"
    assert decisions_of(launcher.allocations, "r-1") == 1


def test_runs_in_doubt_are_settled_by_asking_again(launcher: Launcher) -> None:
    """Red when a kept answer is given again though some of its runs are in doubt."""
    spawner = launcher.start("p1", "spawner", ["acme"], mode="thread")
    Switch.lost = "a request"
    first = spawner.call(RUNS, request_id="r-1", probe_after=SECONDS)
    assert isinstance(first, Unknown)
    assert isinstance(first.error, OutcomeUnknown)
    second = spawner.call(RUNS, request_id="r-1", probe_after=SECONDS)
    assert isinstance(second, Unknown)
    heal()
    third = spawner.call(RUNS, request_id="r-1", probe_after=SECONDS)
    assert isinstance(third, Done)
    recorded = [each.event for each in launcher.allocations.runs()]
    assert [run.run_id for run in recorded] == [run.run_id for run in RUNS.runs]
    assert third.answer == recorded


def test_runs_that_were_recorded_are_found_in_the_log(launcher: Launcher) -> None:
    """Red when the run log is not looked at."""
    spawner = launcher.start("p1", "spawner", ["acme"], mode="thread")
    Switch.lost = "recorded"
    outcome = spawner.call(RUNS, probe_after=SECONDS)
    assert isinstance(outcome, Resolved)
    assert isinstance(outcome.outcome, Done)
    assert [run.run_id for run in outcome.outcome.answer] == [run.run_id for run in RUNS.runs]
    assert all(run.replayed for run in outcome.outcome.answer)


def test_a_group_that_was_recorded_in_part_is_unknown_until_it_has_a_successor(
    launcher: Launcher,
) -> None:
    """Red when a part passes for the whole, or a missing run for one that may still come."""
    spawner = launcher.start("p1", "spawner", ["acme"], mode="thread")
    recorded, lost = RUNS.runs[:1], RUNS.runs[1:]
    assert isinstance(spawner.call(Spawn(recorded), probe_after=SECONDS), Done)
    Switch.lost = "a request"
    pending = spawner.send(RUNS, request_id="r-1")
    assert isinstance(spawner.settle(pending, probe_after=SECONDS), Unknown)
    heal()
    successor = launcher.restart("p1", "a test")
    settled = spawner.settle(pending)
    assert isinstance(settled, Resolved)
    assert (settled.by, isinstance(settled.outcome, Done)) == ("log", True)
    first, *others = settled.outcome.answer  # type: ignore[union-attr]
    assert isinstance(first, RunSpawned)
    assert [type(each) for each in others] == [NotCarriedOut] * len(lost)
    assert (others[0].name, others[0].incarnation, others[0].request_id) == ("p1", 1, "r-1")
    again = successor.call(RUNS, request_id="r-1", probe_after=SECONDS)
    assert isinstance(again, Done)
    assert [run.replayed for run in again.answer] == [True, False, False]


def test_a_pass_whose_last_decision_is_in_doubt_is_unknown_with_its_report(
    launcher: Launcher,
) -> None:
    """Red when a pass in doubt is told as refused, or its report is lost."""
    scheduler = launcher.start("s1", "scheduler", ["acme"], mode="thread")
    launcher.allocations.workflow("acme", "share-1").start("v1")
    launcher.allocations.workflow("acme", "share-1").register_challenger("v2")
    Switch.lost = "recorded"
    keys = (type(KEY).parse("acme", "share-1"), KEY)
    outcome = scheduler.call(Pass(keys, by_name), probe_after=SECONDS)
    assert isinstance(outcome, Unknown)
    assert isinstance(outcome.error, PassStopped)
    assert isinstance(outcome.error.error, OutcomeUnknown)
    assert [result.outcome for result in outcome.error.report.results] == ["failed", "not run"]


def test_the_log_says_what_a_superseded_incarnation_did(durable_url: str) -> None:
    """Red when absence counts before there is a successor, or another's decision counts as its."""
    with connect(durable_url) as allocations:
        workflow = allocations.workflow(*KEY)
        workflow.start("v1", command_id="taken")
        workflow.register_challenger("v2")
        old = allocations.new_incarnation("s1")

        def said(request: object, request_id: str = "r-1") -> Done | Refused | None:
            return settled_in_log(allocations, old, request, request_id)  # type: ignore[arg-type]

        reused = said(RESHARE, "taken")
        assert isinstance(reused, Refused)
        assert type(reused.error).__name__ == "CommandIdReused"
        requests = (RESHARE, Decide(KEY, Hold()), RUNS, Pass((KEY,), by_name))
        assert [said(request) for request in requests] == [None] * 4
        allocations.new_incarnation("s1")
        for request in (RESHARE, Decide(KEY, Promote("v2")), Pass((KEY,), by_name)):
            never = said(request)
            assert isinstance(never, Refused)
            assert isinstance(never.error, NotCarriedOut)
        workflow.spawn_run("run-1")
        other = allocations.workflow("acme", "other")
        other.start("v1")
        other.spawn_run("run-2")
        bad = Spawn((*RUNS.runs, SpawnRequest("acme", "triage", " ")))
        runs = said(bad)
        assert isinstance(runs, Done)
        kinds = ["NotCarriedOut", "RunSpawned", "RunIdTaken", "InvalidIdentifier"]
        assert [type(each).__name__ for each in runs.answer] == kinds
    assert said(RESHARE) is None
