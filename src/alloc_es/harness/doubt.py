"""Whether an outcome leaves open what is recorded."""

from collections.abc import Iterable

from alloc_es.errors import (
    AllocationError,
    OutcomeUnknown,
    StoreUnavailable,
)
from alloc_es.harness.errors import ParticipantFailed
from alloc_es.harness.outcomes import Done, Refused
from alloc_es.scheduler_errors import IncarnationSuperseded, PassStopped

_OPEN = (OutcomeUnknown, ParticipantFailed)
# The others speak of their own call, and not of an earlier one with the same id.
_ALL = (*_OPEN, StoreUnavailable, IncarnationSuperseded)


def is_in_doubt(outcome: Done | Refused, *, doubted_before: bool) -> bool:
    """Whether the store did not say what became of a request.

    `doubted_before` says that it was asked under the same id before and did not say so then.
    """
    return first_doubt(outcome, _ALL if doubted_before else _OPEN) is not None


def first_doubt(
    outcome: Done | Refused, kinds: tuple[type[AllocationError], ...] = _ALL
) -> AllocationError | None:
    """The first error of an outcome that leaves it open, None where there is none."""
    for whole, error in _errors(outcome):
        if isinstance(error, kinds):
            return whole
    return None


def _errors(outcome: Done | Refused) -> Iterable[tuple[AllocationError, AllocationError]]:
    """The errors of an outcome, each with the one that says why."""
    match outcome:
        case Refused(error=PassStopped() as stopped):
            yield stopped, stopped.error
        case Refused(error=error):
            yield error, error
        case Done(answer=list() as answers):
            yield from ((each, each) for each in answers if isinstance(each, AllocationError))
        case Done():
            return
