"""The exit codes, each for what a caller does next."""

from collections.abc import Mapping

from alloc_es.errors import AllocationError
from alloc_es.scheduler_errors import PassStopped

EXIT_CODES: Mapping[str, int] = {
    "Refusal": 1,
    "InvalidIdentifier": 2,
    "InvalidSetting": 2,
    "GenerationConflict": 3,
    "IncarnationSuperseded": 3,
    "StoreUnavailable": 4,
    "OutcomeUnknown": 5,
    "ParticipantNotStarted": 4,
    "ParticipantEnded": 4,
    "RestartFailed": 4,
    "AuditorLost": 4,
    "HarnessError": 1,
    "ProjectionNotBuilt": 1,
    "ProjectionOutdated": 1,
    "TriggerLost": 3,
    "ArchivedMeanwhile": 3,
    "ArchiveMismatch": 6,
    "ExportDamaged": 6,
    "ProjectionBehind": 4,
    "ProjectionStopped": 6,
}
"""Name of an error → exit code, for what the library raises; the others are below.

By name, since most commands need nothing of the packages that have these errors.
"""

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
    names = (kind.__name__ for kind in type(cause).__mro__)
    return next(EXIT_CODES[name] for name in names if name in EXIT_CODES)
