"""Running schedulers, spawners and observers: as tasks, threads or processes of one launcher."""

from alloc_es.harness.cores import physical_cores
from alloc_es.harness.errors import (
    AlreadyStarted,
    CannotKill,
    HarnessError,
    NotAuthorised,
    NotCarriedOut,
    ParticipantEnded,
    ParticipantFailed,
    ParticipantNotStarted,
    RequestIdReused,
    ThreadBudgetSpent,
    UnknownParticipant,
    UnreadableRequest,
)
from alloc_es.harness.launcher import Launcher
from alloc_es.harness.outcomes import Done, Health, Outcome, Refused, Resolved, Unknown
from alloc_es.harness.participant import Participant
from alloc_es.harness.pending import Pending
from alloc_es.harness.roles import Decide, Identity, Pass, Read, Request, Role, Spawn
from alloc_es.harness.runners import Mode

__all__ = [
    "AlreadyStarted",
    "CannotKill",
    "Decide",
    "Done",
    "HarnessError",
    "Health",
    "Identity",
    "Launcher",
    "Mode",
    "NotAuthorised",
    "NotCarriedOut",
    "Outcome",
    "Participant",
    "ParticipantEnded",
    "ParticipantFailed",
    "ParticipantNotStarted",
    "Pass",
    "Pending",
    "Read",
    "Refused",
    "Request",
    "RequestIdReused",
    "Resolved",
    "Role",
    "Spawn",
    "ThreadBudgetSpent",
    "Unknown",
    "UnknownParticipant",
    "UnreadableRequest",
    "physical_cores",
]
