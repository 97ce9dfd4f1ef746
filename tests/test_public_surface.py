"""The public names and signatures: the contract that application code is written to."""

import dataclasses
import inspect
import re

import alloc_es
from alloc_es import archiving, errors, harness, scheduling

NAMES = [
    "Allocation",
    "AllocationCommitted",
    "AllocationError",
    "Allocations",
    "AlreadyCurrent",
    "ArchiveMismatch",
    "ArchivedMeanwhile",
    "Arm",
    "ChallengerAlreadyLive",
    "ChallengerRegistered",
    "ChallengerRejectedWithoutReplacement",
    "ChallengersStillLive",
    "Column",
    "CommandIdReused",
    "Committed",
    "DecisionEvent",
    "DecisionInsidePolicy",
    "Difference",
    "Explanation",
    "Follower",
    "GenerationConflict",
    "Incarnation",
    "IncarnationSuperseded",
    "InvalidIdentifier",
    "InvalidSetting",
    "InvalidSplit",
    "NoEarlierVersion",
    "NoSuchChallenger",
    "NotYetFollowed",
    "NothingThen",
    "OutcomeUnknown",
    "PassStopped",
    "Patience",
    "Projection",
    "ProjectionBehind",
    "ProjectionNotBuilt",
    "ProjectionOutdated",
    "ProjectionStatus",
    "ProjectionStopped",
    "Projections",
    "Recorded",
    "Refusal",
    "Routing",
    "Rows",
    "RunArchived",
    "RunIdTaken",
    "RunSpawned",
    "RunsArchived",
    "SchemaTooNew",
    "Share",
    "SpawnCounts",
    "SpawnRequest",
    "StoreNotInitialised",
    "StoreUnavailable",
    "Table",
    "Trigger",
    "TriggerLost",
    "Triggers",
    "UnknownRun",
    "UnknownWorkflow",
    "UnreadableEvent",
    "Verified",
    "Workflow",
    "WorkflowAlreadyStarted",
    "WorkflowKey",
    "bucket_of",
    "connect",
]

CONNECT = (
    "(url: str = 'sqlite:///alloc.db', *, actor: str | None = None,"
    " incarnation: Incarnation | None = None, max_challengers: int = 1,"
    " timeout: float = 10.0, cached_workflows: int = 10000, migrate: bool = True,"
    " archives: Iterable[str | Path] = (),"
    " clock: Callable[[], datetime] = utc_now,"
    " new_id: Callable[[], str] = new_id, patience: Patience | None = None) -> Allocations"
)

DECIDING = (
    "*, {}expected_generation: int | None = None, command_id: str | None = None,"
    " reason: str = '', actor: str | None = None) -> Committed"
)

SPAWNING = (
    "(self, run_id: str, *, unit: str | None = None, actor: str | None = None,"
    " timeout: float | None = None) -> RunSpawned"
)

WORKFLOW = {
    "start": "(self, current: str, " + DECIDING.format(""),
    "register_challenger": "(self, version: str, share_bps: int = 500, " + DECIDING.format(""),
    "commit_allocation": "(self, shares: Mapping[~V, int], " + DECIDING.format(""),
    "promote_challenger": "(self, version: str, " + DECIDING.format(""),
    "reject_challenger": "(self, version: str, "
    + DECIDING.format("replacement: str | None = None, "),
    "roll_back": "(self, "
    + DECIDING.format("to_generation: int | None = None, drop: Iterable[str] = (), "),
    "allocation": "(self) -> Allocation",
    "newest": "(self) -> Recorded[AllocationCommitted | ChallengerRegistered"
    " | ChallengerRejectedWithoutReplacement]",
    "history": "(self) -> list[Recorded[AllocationCommitted | ChallengerRegistered"
    " | ChallengerRejectedWithoutReplacement]]",
    "at": "(self, *, generation: int | None = None, position: int | None = None,"
    " time: datetime | None = None) -> Recorded[AllocationCommitted | ChallengerRegistered"
    " | ChallengerRejectedWithoutReplacement]",
    "spawn_run": SPAWNING,
    "aspawn_run": SPAWNING,
    "find_decision": "(self, command_id: str) -> Optional[Recorded[AllocationCommitted"
    " | ChallengerRegistered | ChallengerRejectedWithoutReplacement]]",
    "find_run": "(self, run_id: str) -> RunSpawned | None",
    "peek": "(self, unit: str) -> Routing",
    "send": "(self, command: Start | RegisterChallenger | CommitAllocation | PromoteChallenger"
    " | RejectChallenger | RollBack, expected_generation: int | None = None,"
    " command_id: str | None = None, reason: str = '', actor: str | None = None) -> Committed",
    "preview": "(self, command: Start | RegisterChallenger | CommitAllocation | PromoteChallenger"
    " | RejectChallenger | RollBack, state: Allocation, *, reason: str = '',"
    " actor: str | None = None) -> AllocationCommitted | ChallengerRegistered"
    " | ChallengerRejectedWithoutReplacement | None",
}

ALLOCATIONS = [
    "close",
    "decisions",
    "explain_run",
    "list",
    "new_incarnation",
    "newest_incarnation",
    "position",
    "projections",
    "runs",
    "spawn_counts",
    "spawn_runs",
    "store",
    "triggers",
    "workflow",
]

SCHEDULING = [
    "Failure",
    "Goal",
    "Hold",
    "PassReport",
    "PassResult",
    "Promote",
    "Proposal",
    "Register",
    "Reject",
    "Reshare",
    "adecide_pass",
    "decide_pass",
]

PASSING = (
    "(allocations: Allocations, keys: Iterable[WorkflowKey | tuple[str, str]],"
    " policy: Callable[[Allocation], Hold | Register | Promote | Reject | Reshare"
    " | Awaitable[Hold | Register | Promote | Reject | Reshare]], *, concurrency: int = 1,"
    " reached: Callable[[Allocation], bool] | None = None, goal: Goal | None = None,"
    " actor: str | None = None, max_asks: int = 5, dry_run: bool = False,"
    " on_result: Callable[[PassResult], object] | None = None) -> PassReport"
)

PASSES: dict[type, list[str]] = {
    scheduling.Hold: ["reason"],
    scheduling.Register: ["version", "share_bps", "reason"],
    scheduling.Promote: ["version", "reason"],
    scheduling.Reject: ["version", "replacement", "reason"],
    scheduling.Reshare: ["shares", "reason"],
    scheduling.Goal: ["count", "counts", "hard", "every"],
    scheduling.Failure: ["key", "error_type", "message", "error"],
    scheduling.PassReport: ["results", "waves", "goal_reached"],
    scheduling.PassResult: [
        "key",
        "outcome",
        "proposal",
        "seen",
        "event",
        "generation",
        "asked",
        "lost_to",
        "failure",
    ],
}

SPAWN_RUNS = (
    "(self, requests: Iterable[SpawnRequest], *, timeout: float | None = None)"
    " -> 'list[RunSpawned | AllocationError]'"
)


HARNESS = [
    *("AlreadyStarted", "CannotKill", "Decide", "Done", "HarnessError", "Health", "Identity"),
    *("Launcher", "Mode", "NotAuthorised", "NotCarriedOut", "Outcome", "Participant"),
    *("ParticipantEnded", "ParticipantFailed", "ParticipantNotStarted", "Pass", "Pending"),
    *("Read", "Refused", "Request", "RequestIdReused", "Resolved", "Role", "Spawn"),
    *("ThreadBudgetSpent", "Unknown"),
    *("UnknownParticipant", "UnreadableRequest", "physical_cores"),
]

PARTICIPANT = {
    "send": "(self, request: Decide | Pass | Spawn | Read, *, request_id: str | None = None)"
    " -> Pending",
    "settle": "(self, pending: Pending, *, probe_after: float = 10.0, probe_within: float = 2.0,"
    " probes: int = 5) -> Done | Refused | Resolved | Unknown",
    "call": "(self, request: Decide | Pass | Spawn | Read, *, request_id: str | None = None,"
    " probe_after: float = 10.0, probe_within: float = 2.0, probes: int = 5)"
    " -> Done | Refused | Resolved | Unknown",
    "health": "(self, within: float = 2.0) -> Health",
    "stop": "(self, reason: str, *, within: float = 10.0) -> bool",
    "kill": "(self, reason: str) -> None",
    "pause": "(self) -> None",
    "resume": "(self) -> None",
}

LAUNCHER = {
    "start": "(self, name: str, role: str, tenants: Iterable[str], *,"
    " mode: Literal['in_process', 'thread', 'process'] = 'process', threads: int = 1)"
    " -> Participant",
    "participant": "(self, name: str) -> Participant",
    "call": "(self, name: str, request: Decide | Pass | Spawn | Read, *,"
    " request_id: str | None = None) -> Done | Refused | Resolved | Unknown",
    "restart": "(self, name: str, reason: str, *, within: float = 10.0) -> Participant",
    "stop": "(self, name: str, reason: str, *, within: float = 10.0) -> bool",
    "close": "(self, *, within: float = 10.0) -> None",
}


def signature(function: object) -> str:
    """A signature as its author wrote it: without modules, addresses and quoted names."""
    assert callable(function)
    text = re.sub(r"<function (\w+) at 0x\w+>", r"\1", str(inspect.signature(function)))
    return re.sub(r"(?<!/)\b(?:[a-z_]+\.)+(?=[A-Za-z])", "", text).replace(
        "'Allocations'", "Allocations"
    )


def public(kind: type) -> list[str]:
    return sorted(name for name in vars(kind) if not name.startswith("_"))


def test_the_public_names_are_these_sorted() -> None:
    """Red when a name is added to, taken from, or moved inside `alloc_es.__all__`."""
    assert alloc_es.__all__ == NAMES == sorted(NAMES)
    assert all(hasattr(alloc_es, name) for name in NAMES)


def test_every_error_is_an_allocation_error_and_exported() -> None:
    """Red when a refusal is not in `__all__`, or hangs on another tree."""
    internal = {"AnswerLost"}
    defined = {
        name
        for name, kind in vars(errors).items()
        if isinstance(kind, type) and issubclass(kind, Exception)
    }
    assert all(issubclass(getattr(errors, name), alloc_es.AllocationError) for name in defined)
    assert defined - internal <= set(NAMES)


def test_connect_takes_these() -> None:
    """Red when a parameter of `connect` is renamed, moved, or gets another default."""
    assert signature(alloc_es.connect) == CONNECT


def test_archiving_takes_these_and_answers_with_these() -> None:
    """Red when an argument of `archive`, or a field of what it answers, is renamed or moved."""
    wish = "up_to: int | None = None, before: datetime | None = None"
    assert signature(archiving.plan_archive) == (
        f"(allocations: Allocations, *, {wish}) -> ArchivePlan | None"
    )
    assert signature(archiving.archive) == (
        f"(allocations: Allocations, target: Path | str, *, {wish},"
        " report: Callable[[int, int], None] = _unreported) -> Archived | None"
    )
    for kind, names in (
        (archiving.ArchivePlan, ["after", "up_to", "runs"]),
        (archiving.Archived, ["name", "runs", "up_to", "digest", "directory"]),
    ):
        assert [field.name for field in dataclasses.fields(kind)] == names


def test_the_harness_has_these_names_and_methods() -> None:
    """Red when a name or a method of the harness is renamed, moved, or takes something else."""
    assert harness.__all__ == HARNESS
    for kind, methods in ((harness.Launcher, LAUNCHER), (harness.Participant, PARTICIPANT)):
        assert {name: signature(getattr(kind, name)) for name in methods} == methods


def test_a_workflow_has_these_methods_with_these_signatures() -> None:
    """Red when a keyword of a command is renamed, or may be given by position."""
    found = {name: signature(getattr(alloc_es.Workflow, name)) for name in WORKFLOW}
    assert found == WORKFLOW
    assert public(alloc_es.Workflow) == sorted(WORKFLOW)


def test_a_pass_takes_these_and_answers_with_these() -> None:
    """Red when an argument of a pass, or a field of its results, is renamed or moved."""
    assert scheduling.__all__ == SCHEDULING == sorted(SCHEDULING)
    for function in (scheduling.decide_pass, scheduling.adecide_pass):
        assert signature(function) == PASSING
    fields = {kind.__name__: [f.name for f in dataclasses.fields(kind)] for kind in PASSES}
    assert fields == {kind.__name__: names for kind, names in PASSES.items()}


def test_allocations_have_these_members() -> None:
    """Red when a member of `Allocations` is renamed or loses its underscore."""
    assert public(alloc_es.Allocations) == ALLOCATIONS
    assert signature(alloc_es.Allocations.spawn_runs) == SPAWN_RUNS


def test_the_answers_have_these_fields() -> None:
    """Red when a field of an answer is renamed."""
    committed = [field.name for field in dataclasses.fields(alloc_es.Committed)]
    assert committed == ["generation", "allocation", "event", "attempts", "replayed"]
    properties = {"current", "challenger", "challengers", "split"}
    fields = {"tenant_id", "workflow_id", "generation"}
    assert properties <= set(vars(alloc_es.Allocation))
    assert fields <= set(alloc_es.Allocation.model_fields)
    routing = set(alloc_es.Routing._fields)
    asked = {"version", "arm", "generation", "bucket", "unit"}
    assert asked <= routing
    assert asked | {"run_id"} <= set(alloc_es.RunSpawned.model_fields)


def test_what_is_asked_and_counted_of_many_runs_has_these_fields_in_this_order() -> None:
    """Red when a field is renamed or moved: both are tuples, and may be made by position."""
    request = ("tenant_id", "workflow_id", "run_id", "unit", "actor")
    assert alloc_es.SpawnRequest._fields == request
    assert alloc_es.SpawnRequest._field_defaults == {"unit": None, "actor": None}
    counts = ("recorded", "known", "groups", "rerouted", "retried")
    assert alloc_es.SpawnCounts._fields == counts
