"""The four events, whose field names are the stored format, and an event's place in its log."""

from dataclasses import dataclass
from datetime import datetime
from typing import Generic, Literal, Self, TypeVar, assert_never

from pydantic import AwareDatetime, Field

from alloc_es.allocation import Allocation, ArmName, Frozen
from alloc_es.identity import (
    Actor,
    CommandId,
    RunId,
    TenantId,
    Unit,
    Version,
    WorkflowId,
    WorkflowKey,
    run_stream,
)
from alloc_es.split import Slot

Decision = Literal["start", "split", "promotion", "replacement", "rollback"]


class _Decided(Frozen):
    """What the three events of the decision log share: who decided what, and the result.

    `allocation` is the whole allocation that the decision left behind, so the newest
    event of a stream is its state, and a log replays to the same buckets whatever a later
    release does. `max_challengers` is the limit that held. `previous_digest` chains the
    stream: it is the SHA-256, in hexadecimal, of the stored bytes of the decision before this
    one, or of the stream's name for the first; None on what releases before 0.5 wrote.
    """

    command_id: CommandId
    actor: Actor
    reason: str
    recorded_at: AwareDatetime
    max_challengers: int
    allocation: Allocation
    previous_digest: str | None = None

    @property
    def key(self) -> WorkflowKey:
        """The tenant and workflow that was decided on."""
        return self.allocation.key

    def chained_to(self, previous: "Recorded[DecisionEvent] | None") -> Self:
        """The same with the digest of the decision before it, which is None for the first."""
        digest = previous.digest if previous else self.key.digest
        return self.model_copy(update={"previous_digest": digest})

    @property
    def generation(self) -> int:
        """The generation that the event made; 1 for the first."""
        return self.allocation.generation

    @property
    def originator_id(self) -> str:
        """The name of the event's stream."""
        return self.key.stream

    @property
    def originator_version(self) -> int:
        """The event's place in its stream, which is the generation."""
        return self.generation


class AllocationCommitted(_Decided):
    """The allocation was set; `decision` says by what.

    `version` is the one that the decision put in: the new current (start, promotion,
    rollback) or the new challenger (replacement); None for a new split. `dropped` are the
    challengers that it took out. `shares` are those that a new split asked for, in basis
    points, and `to_generation` is what a rollback asked for, if it did.
    """

    decision: Decision
    version: Version | None = None
    dropped: tuple[Version, ...] = ()
    shares: dict[Version, int] | None = None
    to_generation: int | None = None

    @property
    def summary(self) -> str:
        """What the decision did, in a few words for a message or a table."""
        match self.decision:
            case "start":
                return f"started with {self.version}"
            case "split":
                shares = self.shares or {}
                return "gave " + ", ".join(f"{v} {bps / 100:g}%" for v, bps in shares.items())
            case "promotion":
                return f"promoted {self.version}"
            case "replacement":
                return f"replaced {self.dropped[0]} by {self.version}"
            case "rollback":
                return f"rolled back to {self.version}"
            case _:
                assert_never(self.decision)


class ChallengerRegistered(_Decided):
    """A challenger took a slot."""

    version: Version

    @property
    def summary(self) -> str:
        """What the decision did, in a few words for a message or a table."""
        return f"registered {self.version}"


class ChallengerRejectedWithoutReplacement(_Decided):
    """A challenger left and nothing took its slot: the trigger to generate another."""

    version: Version

    @property
    def summary(self) -> str:
        """What the decision did, in a few words for a message or a table."""
        return f"rejected {self.version} without a replacement"


DecisionEvent = AllocationCommitted | ChallengerRegistered | ChallengerRejectedWithoutReplacement


class RunSpawned(Frozen):
    """A run was allotted a version; the only event of the run's own stream.

    `bucket` is `alloc_es.routing.bucket_of` of `hash_version`, `salt` and `unit`; `slot`
    is the range `[first, end)` of buckets, owned by `version` at `generation`, that it
    fell into. `decision_position` is the position in the decision log at which the
    generation was verified to be the newest, None where it was not verified.
    `decision_digest` is the SHA-256, in hexadecimal, of the stored bytes of the decision that
    made the generation; None on what releases before 0.5 wrote.
    """

    tenant_id: TenantId
    workflow_id: WorkflowId
    run_id: RunId
    unit: Unit
    version: Version
    arm: ArmName
    generation: int
    bucket: int
    slot: Slot
    episode: int
    salt: str
    hash_version: int
    actor: Actor
    recorded_at: AwareDatetime
    decision_position: int | None = None
    decision_digest: str | None = None
    replayed: bool = Field(default=False, exclude=True, repr=False)
    """True on an answer that an earlier call had recorded; never stored."""

    def stamped(self, own: dict[str, object]) -> "RunSpawned":
        """A run that differs from this one in some fields, which are trusted to fit.

        `model_copy` in a third of its time: it shares what no frozen model ever changes.
        """
        run = RunSpawned.__new__(RunSpawned)
        object.__setattr__(run, "__dict__", self.__dict__ | own)
        object.__setattr__(run, "__pydantic_fields_set__", self.__pydantic_fields_set__)
        object.__setattr__(run, "__pydantic_extra__", None)
        object.__setattr__(run, "__pydantic_private__", None)
        return run

    @property
    def key(self) -> WorkflowKey:
        """The tenant and workflow that the run is of."""
        return WorkflowKey(self.tenant_id, self.workflow_id)

    @property
    def originator_id(self) -> str:
        """The name of the run's stream."""
        return run_stream(self.tenant_id, self.run_id)

    @property
    def originator_version(self) -> int:
        """Always 1: a run's stream holds one event."""
        return 1


Event = DecisionEvent | RunSpawned

E = TypeVar("E", bound=Event, covariant=True)


@dataclass(frozen=True, slots=True)
class Recorded(Generic[E]):
    """An event and its position in its log. Positions rise in commit order, with gaps.

    `digest` is the SHA-256 of the event's stored bytes, in hexadecimal.
    """

    position: int
    event: E
    digest: str

    @property
    def generation(self) -> int:
        """The generation that a decision made, or that a run was allotted at."""
        return self.event.generation

    @property
    def time(self) -> datetime:
        """When the event was recorded, by the writer's clock; it orders nothing."""
        return self.event.recorded_at

    @property
    def actor(self) -> str:
        """Who sent the command."""
        return self.event.actor

    @property
    def reason(self) -> str:
        """Why, in the sender's words; empty where none was given, and for runs."""
        return getattr(self.event, "reason", "")
