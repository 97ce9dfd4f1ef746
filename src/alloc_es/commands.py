"""The commands that decide, and the envelope that each comes in."""

from dataclasses import dataclass
from datetime import datetime

from alloc_es.identity import Actor, CommandId, Version


@dataclass(frozen=True, slots=True, kw_only=True)
class Envelope:
    """Who sends a command, why and when, under which id, and the limit that holds."""

    command_id: CommandId
    actor: Actor
    reason: str
    at: datetime
    max_challengers: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """Give a workflow its first current version; `salt` is for its first episode."""

    current: Version
    salt: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisterChallenger:
    """Let `version` compete; `salt` is used if this opens a new episode."""

    version: Version
    share_bps: int
    salt: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitAllocation:
    """Set the shares of live challengers; those not named keep theirs."""

    shares: tuple[tuple[Version, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PromoteChallenger:
    """Make a live challenger the current version."""

    version: Version


@dataclass(frozen=True, slots=True, kw_only=True)
class RejectChallenger:
    """Take a live challenger out, or put `replacement` into its slot."""

    version: Version
    replacement: Version | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RollBack:
    """Make an earlier current version current again, dropping the challengers named.

    `target` is the version that was current at `to_generation`; both are None when the
    previous current is meant.
    """

    to_generation: int | None
    target: Version | None
    drop: tuple[Version, ...]


Command = (
    Start | RegisterChallenger | CommitAllocation | PromoteChallenger | RejectChallenger | RollBack
)
