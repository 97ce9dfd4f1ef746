"""What became of a request to a participant."""

from dataclasses import dataclass
from typing import Any, Literal

from alloc_es.errors import AllocationError


@dataclass(frozen=True, slots=True)
class Done:
    """It was carried out: the `answer`.

    `began` and `ended` are nanoseconds of the system's monotonic clock around the work, as
    the participant saw it; None where the answer was found in the log instead.
    """

    answer: Any
    began: int | None = None
    ended: int | None = None


@dataclass(frozen=True, slots=True)
class Refused:
    """It was not, or a decide pass not to its end: the `error` says why.

    See `Done` for the times.
    """

    error: AllocationError
    began: int | None = None
    ended: int | None = None


@dataclass(frozen=True, slots=True)
class Resolved:
    """No answer came in time, and asking about the request then settled it.

    `by` says who knew: the participant, or the log. `probes` counts how often was asked.
    """

    outcome: Done | Refused
    by: Literal["participant", "log"]
    probes: int


@dataclass(frozen=True, slots=True)
class Unknown:
    """It may or may not have been carried out: the `problem`, and how often was asked.

    `working` says that the participant was still at it when it was asked last. `error` is
    what it met, where it said so. Asking again under the same request id settles it.
    """

    problem: str
    probes: int
    working: bool = False
    error: AllocationError | None = None


Outcome = Done | Refused | Resolved | Unknown


@dataclass(frozen=True, slots=True)
class Health:
    """How a participant is, as seen from the launcher; None for what can't be seen from there.

    `state` is "up", "silent" (it runs and did not answer in time) or "ended". `silent_for`
    are the seconds since it was last heard of. `peak_rss` is the most memory, in bytes,
    that its process ever held; a thread or a task has none of its own. `rerouted` counts
    the runs that it routed again behind a decision.
    `under_way` counts the requests that it was sent and has not answered.
    """

    state: Literal["up", "silent", "ended"]
    incarnation: int
    pid: int | None
    exit_code: int | None
    silent_for: float | None
    peak_rss: int | None
    rerouted: int | None
    under_way: int
