"""The same behaviour and the same results in every mode."""

import sys
import types
from collections.abc import Callable

import pytest

from alloc_es import (
    Allocation,
    AllocationCommitted,
    ChallengerAlreadyLive,
    DecisionEvent,
    GenerationConflict,
    InvalidSetting,
    InvalidSplit,
    NoSuchChallenger,
    RunSpawned,
    SpawnRequest,
    UnknownWorkflow,
    Workflow,
    WorkflowKey,
)
from alloc_es.harness import (
    Decide,
    Done,
    Launcher,
    Mode,
    Participant,
    ParticipantFailed,
    Pass,
    Read,
    Refused,
    Request,
    Spawn,
    Unknown,
    UnreadableRequest,
)
from alloc_es.pass_results import PassReport
from alloc_es.proposals import Hold, Promote, Register, Reshare
from tests.harness.conftest import MODES
from tests.harness.policies import by_name, hold, leave, unsendable
from tests.harness.scripted import SECONDS
from tests.support.overlap import in_threads

Contested = Callable[..., Workflow]

each_mode = pytest.mark.parametrize("mode", MODES)


def scheduler(crew: Launcher, mode: Mode) -> Participant:
    return crew.participant(f"{mode} scheduler")


def ask(participant: Participant, request: Request, request_id: str | None = None) -> object:
    """What comes of a request whose participant is given all the time it needs."""
    return participant.call(request, request_id=request_id, probe_after=SECONDS)


@each_mode
def test_a_decision_is_recorded_under_its_name_and_request_id(
    crew: Launcher, contested: Contested, mode: Mode
) -> None:
    """Red when a mode records another actor or command id, or says no times."""
    workflow = contested()
    proposal = Reshare({"v2": 2_000}, reason="it does well")
    done = ask(scheduler(crew, mode), Decide(workflow.key, proposal, 2), f"r {workflow.key}")
    assert isinstance(done, Done)
    event = workflow.newest().event
    assert isinstance(event, AllocationCommitted)
    assert (done.answer.event, done.answer.generation) == (event, 3)
    assert (event.actor, event.command_id) == (f"{mode} scheduler", f"r {workflow.key}")
    assert (event.reason, event.shares) == ("it does well", {"v2": 2_000})
    assert done.began is not None
    assert done.ended is not None
    assert done.began < done.ended


@each_mode
def test_the_same_request_again_is_answered_from_memory(
    crew: Launcher, contested: Contested, mode: Mode
) -> None:
    """Red when a participant carries a request out twice, or forgets what it answered."""
    workflow = contested("share")
    request = Pass((workflow.key,), by_name)
    first = ask(scheduler(crew, mode), request, f"r {workflow.key}")
    assert isinstance(first, Done)
    assert ask(scheduler(crew, mode), request, f"r {workflow.key}") == first
    assert workflow.allocation().generation == 3


@each_mode
@pytest.mark.parametrize(
    ("proposal", "expected", "error"),
    [
        (Reshare({"v2": 3}), 1, GenerationConflict),
        (Register("v3"), None, ChallengerAlreadyLive),
        (Promote("v9"), None, NoSuchChallenger),
        (Reshare({}), None, InvalidSplit),
        ("promote", None, InvalidSetting),
        (Hold(), "now", None),
        (Promote("v2"), "now", InvalidSetting),
    ],
)
def test_what_the_rules_refuse_is_refused_with_its_facts(
    crew: Launcher,
    contested: Contested,
    mode: Mode,
    proposal: object,
    expected: object,
    error: type[Exception] | None,
) -> None:
    """Red when a refusal loses its type on its way, or a wrong type ends the participant."""
    workflow = contested()
    outcome = ask(scheduler(crew, mode), Decide(workflow.key, proposal, expected))  # type: ignore[arg-type]
    if error is None:
        assert isinstance(outcome, Done)
        assert outcome.answer is None
    else:
        assert isinstance(outcome, Refused)
        assert type(outcome.error) is error
    if isinstance(outcome, Refused) and isinstance(outcome.error, GenerationConflict):
        assert outcome.error.winner == workflow.newest().event
    assert workflow.allocation().generation == 2


@each_mode
@pytest.mark.parametrize("callers", [1, 4])
def test_runs_get_an_outcome_each_in_their_order(
    crew: Launcher, contested: Contested, mode: Mode, callers: int
) -> None:
    """Red when one run that fails fails its neighbours, or their order is lost."""
    workflow = contested()
    tenant, name = workflow.key
    runs = [SpawnRequest(tenant, name, f"{name} {callers} {n}", unit=str(n)) for n in range(8)]
    unknown = SpawnRequest(tenant, "no such workflow", "run-1")
    asked = (*runs[:4], unknown, *runs[4:])
    done = ask(crew.participant(f"{mode} spawner"), Spawn(asked, callers=callers))
    assert isinstance(done, Done)
    recorded = [outcome for outcome in done.answer if isinstance(outcome, RunSpawned)]
    assert [run.run_id for run in recorded] == [run.run_id for run in runs]
    assert {run.actor for run in recorded} == {f"{mode} spawner"}
    assert isinstance(done.answer[4], UnknownWorkflow)
    assert [workflow.find_run(run.run_id) is not None for run in runs] == [True] * 8


@each_mode
def test_a_read_is_what_the_log_holds(crew: Launcher, contested: Contested, mode: Mode) -> None:
    """Red when the answer of a read is not the newest decision, with its position."""
    workflow = contested()
    done = ask(crew.participant(f"{mode} spawner"), Read(workflow.key))
    assert isinstance(done, Done)
    assert done.answer == workflow.newest()
    refused = ask(scheduler(crew, mode), Read(WorkflowKey.parse("acme", "never started")))
    assert isinstance(refused, Refused)
    assert type(refused.error) is UnknownWorkflow


def test_a_decide_pass_makes_the_same_log_in_every_mode(
    crew: Launcher, contested: Contested
) -> None:
    """Red when the order, the content or the failures of a pass depend on where it runs."""
    logs, reports = [], []
    for mode in MODES:
        kinds = ("share", "fail", "promote", "register", "any")
        workflows = [contested(kind) for kind in kinds]
        before = crew.allocations.position()
        keys = tuple(workflow.key for workflow in workflows)
        done = ask(scheduler(crew, mode), Pass(keys, by_name, concurrency=3))
        assert isinstance(done, Done)
        assert isinstance(done.answer, PassReport)
        events = [each.event for each in crew.allocations.decisions(after=before)]
        assert {event.actor for event in events} == {f"{mode} scheduler"}
        assert [event.key for event in events] == [keys[0], keys[2]]
        logs.append([without_chance(event) for event in events])
        reports.append(done.answer)
    assert logs[0] == logs[1] == logs[2]
    outcomes = [[result.outcome for result in report.results] for report in reports]
    assert outcomes == [["decided", "failed", "decided", "failed", "held"]] * 3
    failures = [[r.failure and r.failure.error_type for r in each.results] for each in reports]
    assert failures == [[None, "LookupError", None, "ChallengerAlreadyLive", None]] * 3
    assert [report.waves for report in reports] == [2, 2, 2]


def without_chance(event: DecisionEvent) -> object:
    """An event without what differs between any two: who, when, where, drawn ids, digests."""
    own = {"actor", "command_id", "recorded_at", "allocation", "previous_digest"}
    what = event.model_dump(exclude=own)
    return type(event).__name__, what, shape(event.allocation)


def shape(allocation: Allocation) -> object:
    return allocation.generation, allocation.current, allocation.split, allocation.episode


@each_mode
def test_an_answer_that_cannot_be_sent_is_told_and_what_was_decided_stays(
    crew: Launcher, contested: Contested, mode: Mode
) -> None:
    """Red when an answer that no pipe takes is waited for, or passes for a refusal."""
    workflow = contested()
    outcome = ask(scheduler(crew, mode), Pass((workflow.key,), unsendable))
    assert isinstance(outcome, Unknown)
    assert isinstance(outcome.error, ParticipantFailed)
    assert "its answer can't be sent" in outcome.problem
    assert dict(workflow.allocation().split) == {"v1": 5_679, "v2": 4_321}
    assert isinstance(ask(scheduler(crew, mode), Read(workflow.key)), Done)


@each_mode
def test_a_policy_that_ends_the_interpreter_ends_its_pass_only(
    crew: Launcher, contested: Contested, mode: Mode
) -> None:
    """Red when what is no Exception takes the thread with it, and its request is never answered."""
    workflow = contested()
    for _ in range(3):
        outcome = ask(scheduler(crew, mode), Pass((workflow.key,), leave))
        assert isinstance(outcome, Unknown)
        assert isinstance(outcome.error, ParticipantFailed)
        assert outcome.error.kind == "SystemExit"
    assert isinstance(ask(scheduler(crew, mode), Read(workflow.key)), Done)


@each_mode
def test_a_wrong_concurrency_is_refused_by_the_pass(
    crew: Launcher, contested: Contested, mode: Mode
) -> None:
    """Red when what a pass refuses is lost on its way."""
    key = contested().key
    for keys, concurrency in (((key,), 0), ((key, key), 1)):
        outcome = ask(scheduler(crew, mode), Pass(keys, hold, concurrency))
        assert isinstance(outcome, Refused)
        assert type(outcome.error) is InvalidSetting


def test_a_function_that_only_the_launcher_has_is_told_by_the_process(
    crew: Launcher, contested: Contested, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Red when a function of __main__ ends the participant, or is told without what to do."""

    def policy(_: Allocation) -> Hold:
        return Hold()

    policy.__module__, policy.__qualname__ = "only_here", "policy"
    module = types.ModuleType("only_here")
    module.policy = policy  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "only_here", module)
    workflow = contested()
    outcome = ask(scheduler(crew, "process"), Pass((workflow.key,), policy))
    assert isinstance(outcome, Refused)
    assert isinstance(outcome.error, UnreadableRequest)
    assert "No module named 'only_here'" in outcome.error.problem
    assert "not in __main__" in str(outcome.error)
    assert isinstance(ask(scheduler(crew, "thread"), Pass((workflow.key,), policy)), Done)
    assert isinstance(ask(scheduler(crew, "process"), Read(workflow.key)), Done)


@each_mode
def test_what_is_of_main_or_has_no_name_is_refused_before_it_is_sent(
    crew: Launcher, contested: Contested, mode: Mode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Red when a policy of __main__ does in one mode what another refuses."""

    def policy(_: Allocation) -> Hold:
        return Hold()

    key = contested().key
    for unsent in (policy, lambda _: Hold()):
        with pytest.raises(UnreadableRequest, match="can't be asked this"):
            scheduler(crew, mode).send(Pass((key,), unsent))
    policy.__module__, policy.__qualname__ = "__main__", "policy"
    monkeypatch.setattr(sys.modules["__main__"], "policy", policy, raising=False)
    with pytest.raises(UnreadableRequest, match="policy is of __main__; what a request names"):
        scheduler(crew, mode).send(Pass((key,), policy))


def test_a_paused_process_blocks_nobody_and_loses_nothing(
    crew: Launcher, contested: Contested
) -> None:
    """Red when a full pipe holds up whoever asks, or what was sent meanwhile is lost."""
    workflow = contested()
    spawner = crew.participant("process spawner")
    spawner.pause()
    try:
        tenant, name = workflow.key
        huge = tuple(SpawnRequest(tenant, name, f"{name} {n}", "u" * 190) for n in range(2_500))
        (pendings,) = in_threads(
            lambda: [spawner.send(Spawn(huge), request_id=f"{name} {n}") for n in range(2)]
        )
        assert isinstance(pendings, list)
        health = spawner.health(0)
        assert (health.state, health.peak_rss, health.under_way) == ("silent", None, 2)
        outcome = spawner.settle(pendings[0], probe_after=0, probe_within=0, probes=2)
        assert outcome == Unknown("process spawner did not answer in time", 2)
    finally:
        spawner.resume()
    first, second = (spawner.settle(pending, probe_after=SECONDS) for pending in pendings)
    assert isinstance(first, Done)
    assert isinstance(second, Done)
    replayed = [[run.replayed for run in done.answer] for done in (first, second)]
    assert sorted(sum(each) for each in replayed) == [0, 2_500]
    assert spawner.health(SECONDS).state == "up"
