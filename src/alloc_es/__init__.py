"""alloc-es: who serves each workflow, decided by compare-and-swap and provable from a log."""

from alloc_es.allocation import Allocation, Arm
from alloc_es.app import Allocations
from alloc_es.archive_errors import (
    ArchivedMeanwhile,
    ArchiveMismatch,
    NotYetFollowed,
    RunArchived,
    RunsArchived,
)
from alloc_es.clock import Patience
from alloc_es.committing import Committed
from alloc_es.connecting import connect
from alloc_es.errors import (
    AllocationError,
    AlreadyCurrent,
    ChallengerAlreadyLive,
    ChallengersStillLive,
    CommandIdReused,
    GenerationConflict,
    InvalidIdentifier,
    InvalidSetting,
    InvalidSplit,
    NoEarlierVersion,
    NoSuchChallenger,
    OutcomeUnknown,
    Refusal,
    RunIdTaken,
    SchemaTooNew,
    StoreNotInitialised,
    StoreUnavailable,
    UnknownWorkflow,
    UnreadableEvent,
    WorkflowAlreadyStarted,
)
from alloc_es.events import (
    AllocationCommitted,
    ChallengerRegistered,
    ChallengerRejectedWithoutReplacement,
    DecisionEvent,
    RunSpawned,
)
from alloc_es.explaining import Explanation
from alloc_es.following import Follower
from alloc_es.history_errors import NothingThen, UnknownRun
from alloc_es.identity import WorkflowKey
from alloc_es.incarnation import Incarnation
from alloc_es.projection import Projection, Rows
from alloc_es.projections import Projections
from alloc_es.reader_errors import (
    ProjectionBehind,
    ProjectionNotBuilt,
    ProjectionOutdated,
    ProjectionStopped,
    TriggerLost,
)
from alloc_es.routing import Routing, bucket_of
from alloc_es.scheduler_errors import DecisionInsidePolicy, IncarnationSuperseded, PassStopped
from alloc_es.spawning import SpawnCounts, SpawnRequest
from alloc_es.split import Share
from alloc_es.standing import ProjectionStatus
from alloc_es.store import Recorded
from alloc_es.tables import Column, Table
from alloc_es.triggers import Trigger, Triggers
from alloc_es.verifying import Difference, Verified
from alloc_es.workflow import Workflow

__all__ = [
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
