"""What a launcher and a participant say to each other, pickled, over a pipe of two ends."""

import pickle
from dataclasses import dataclass
from io import BytesIO
from types import FunctionType
from typing import Any, Literal, NamedTuple

from alloc_es.harness.errors import ParticipantFailed
from alloc_es.harness.outcomes import Done, Refused
from alloc_es.harness.roles import Identity, Request
from alloc_es.harness.traps import Fall, Point
from alloc_es.incarnation import Incarnation


@dataclass(frozen=True, slots=True)
class Opening:
    """What a participant starts with.

    `opener` is the name, `module:function`, of what opens its store: `open_store`, or
    what a drill is to find broken.
    """

    identity: Identity
    incarnation: Incarnation
    url: str
    opener: str
    timeout: float
    max_challengers: int
    threads: int


class Ask(NamedTuple):
    """Carry a request out; known by its id when it comes again."""

    request_id: str
    request: bytes


class Probe(NamedTuple):
    """What became of a request?"""

    request_id: str


class CheckUp(NamedTuple):
    """How are you?"""

    number: int


class SetTrap(NamedTuple):
    """Fall over at a point."""

    point: Point
    fall: Fall


class StepClock(NamedTuple):
    """Let the clock be wrong by so many seconds."""

    seconds: float


class FillDisk(NamedTuple):
    """Let no file of the process grow or be written, as on a full disk, or let them again."""

    full: bool


class Stop(NamedTuple):
    """Finish what is under way, and end."""


Message = Ask | Probe | CheckUp | SetTrap | StepClock | FillDisk | Stop


class Up(NamedTuple):
    """It is ready."""


class NotUp(NamedTuple):
    """It could not open its store: why."""

    problem: str


class Answer(NamedTuple):
    """What became of a request; `in_doubt` says that it may be recorded all the same."""

    request_id: str
    outcome: bytes
    in_doubt: bool


class Standing(NamedTuple):
    """A request that has no answer yet: under way, or never heard of."""

    request_id: str
    state: Literal["working", "unheard"]


class Vitals(NamedTuple):
    """How a participant is; see `Health`."""

    number: int
    peak_rss: int | None
    rerouted: int


Reply = Up | NotUp | Answer | Standing | Vitals


class _Packer(pickle.Pickler):
    """Refuses what a process of its own could not read, so that every mode refuses it."""

    def reducer_override(self, value: object) -> Any:
        """Called for each function and class, which travel by their names."""
        if isinstance(value, FunctionType | type) and value.__module__ == "__main__":
            raise pickle.PicklingError(f"{value.__qualname__} is of __main__")
        return NotImplemented


def packed_request(request: Request) -> bytes:
    """A request as it is sent; raises whatever what it is made of does."""
    buffer = BytesIO()
    _Packer(buffer).dump(request)
    return buffer.getvalue()


def packed(name: str, request_id: str, outcome: Done | Refused, *, in_doubt: bool) -> Answer:
    """An outcome as it is sent; of one that can't be, only that is said."""
    try:
        return Answer(request_id, pickle.dumps(outcome), in_doubt)
    except BaseException as error:  # noqa: BLE001 - whatever the answer is made of
        failed = ParticipantFailed(name, type(error).__name__, f"its answer can't be sent: {error}")
        refused = Refused(failed, outcome.began, outcome.ended)
        return Answer(request_id, pickle.dumps(refused), in_doubt=True)


def unpacked(name: str, answer: Answer) -> tuple[Done | Refused, bool]:
    """The outcome that was sent, and whether it is in doubt."""
    try:
        return pickle.loads(answer.outcome), answer.in_doubt
    except BaseException as error:  # noqa: BLE001 - whatever the answer is made of
        problem = f"its answer can't be read: {error}"
        return Refused(ParticipantFailed(name, type(error).__name__, problem)), True
