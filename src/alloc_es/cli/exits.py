"""The exit codes, each for what a caller does next."""

from alloc_es.archive_errors import ArchivedMeanwhile, ArchiveMismatch
from alloc_es.audit.errors import AuditorLost
from alloc_es.drill.errors import RestartFailed
from alloc_es.errors import (
    AllocationError,
    GenerationConflict,
    InvalidIdentifier,
    InvalidSetting,
    OutcomeUnknown,
    Refusal,
    StoreUnavailable,
)
from alloc_es.exchange.errors import ExportDamaged
from alloc_es.harness import HarnessError, ParticipantEnded, ParticipantNotStarted
from alloc_es.reader_errors import (
    ProjectionBehind,
    ProjectionNotBuilt,
    ProjectionOutdated,
    ProjectionStopped,
    TriggerLost,
)
from alloc_es.scheduler_errors import IncarnationSuperseded, PassStopped

EXIT_CODES: tuple[tuple[type[AllocationError], int], ...] = (
    (Refusal, 1),
    (InvalidIdentifier, 2),
    (InvalidSetting, 2),
    (GenerationConflict, 3),
    (IncarnationSuperseded, 3),
    (StoreUnavailable, 4),
    (OutcomeUnknown, 5),
    (ParticipantNotStarted, 4),
    (ParticipantEnded, 4),
    (RestartFailed, 4),
    (AuditorLost, 4),
    (HarnessError, 1),
    (ProjectionNotBuilt, 1),
    (ProjectionOutdated, 1),
    (TriggerLost, 3),
    (ArchivedMeanwhile, 3),
    (ArchiveMismatch, 6),
    (ExportDamaged, 6),
    (ProjectionBehind, 4),
    (ProjectionStopped, 6),
)
"""Error → exit code, for what the library raises; the others are below."""

USAGE = 2
CHECK_FAILED = 6
# From sysexits.h: a bug of ours, and input or output that failed.
UNEXPECTED = 70
STREAM_LOST = 74
# What a shell reports of a program that a signal has ended: 128 and the signal's number.
INTERRUPTED = 130
BROKEN_PIPE = 141
TERMINATED = 143


def exit_code(error: AllocationError) -> int:
    """The exit code that an error ends the process with; a pass ends with that of its cause."""
    cause = error.error if isinstance(error, PassStopped) else error
    return next(code for kind, code in EXIT_CODES if isinstance(cause, kind))
