"""The state of one workflow: its current version, its challengers and the split between them."""

from typing import Literal, Self

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, model_validator

from alloc_es.identity import TenantId, Version, WorkflowId, WorkflowKey
from alloc_es.split import ALL_BUCKETS, Slots, join, size

ArmName = Literal["control", "challenger"]

HASH_VERSION = 1
"""The hash that new episodes are pinned to."""

NOT_ALL_BUCKETS = "its slots are not all buckets, each once"
"""What is wrong with an allocation by which not every unit has an arm, or one has two."""

_HASH_VERSIONS = frozenset({HASH_VERSION})


class Frozen(BaseModel):
    """A value: never changed after it was made, and nothing in it that it does not know."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Arm(Frozen):
    """One side of the split: the version it runs and the buckets it owns."""

    name: ArmName
    version: Version
    slots: Slots
    since_generation: int
    since: AwareDatetime

    @property
    def share_bps(self) -> int:
        """The arm's share of the traffic in basis points, 0..10,000."""
        return size(self.slots)


class Allocation(Frozen):
    """Who serves a workflow, as of one generation.

    `arms` holds the control first, then the challengers in the order they were
    registered; together their slots are all 10,000 buckets. `episode` counts the times a
    challenger was registered while none was live; `salt` and `hash_version` are the ones
    that units are hashed with during that episode.
    """

    tenant_id: TenantId
    workflow_id: WorkflowId
    generation: int
    episode: int
    salt: str
    hash_version: int
    arms: tuple[Arm, ...] = Field(min_length=1)
    previous_current: Version | None

    @model_validator(mode="after")
    def _check_that_it_routes(self) -> Self:
        """Every unit must have an arm, also by what other hands have written."""
        if self.hash_version not in _HASH_VERSIONS:
            raise ValueError(f"hash version {self.hash_version} is not known here")
        slots = [arm.slots for arm in self.arms]
        if join(*slots) != ALL_BUCKETS or any(a >= b for group in slots for a, b in group):
            raise ValueError(NOT_ALL_BUCKETS)
        return self

    @property
    def key(self) -> WorkflowKey:
        """The tenant and workflow that this is the allocation of."""
        return WorkflowKey(self.tenant_id, self.workflow_id)

    @property
    def control(self) -> Arm:
        """The arm of the current version."""
        return self.arms[0]

    @property
    def current(self) -> Version:
        """The version that the control arm runs."""
        return self.arms[0].version

    @property
    def challenger_arms(self) -> tuple[Arm, ...]:
        """The arms of the live challengers, oldest first."""
        return self.arms[1:]

    @property
    def challengers(self) -> tuple[Version, ...]:
        """The live challengers' versions, oldest first; empty when none is live."""
        return tuple(arm.version for arm in self.challenger_arms)

    @property
    def challenger(self) -> Version | None:
        """The live challenger (the oldest, in tournament mode), or None."""
        return self.challengers[0] if self.challengers else None

    @property
    def split(self) -> dict[Version, int]:
        """Each arm's version and share in basis points, control first; the sum is 10,000."""
        return {arm.version: arm.share_bps for arm in self.arms}

    def live(self, version: str) -> Arm | None:
        """The arm of the live challenger `version`, or None."""
        return next((arm for arm in self.challenger_arms if arm.version == version), None)
