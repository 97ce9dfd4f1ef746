"""What a policy may answer when it is asked what to do with a workflow."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias, assert_never

from alloc_es.allocation import Allocation
from alloc_es.arguments import parse_shares, parse_version
from alloc_es.commands import (
    Command,
    CommitAllocation,
    PromoteChallenger,
    RegisterChallenger,
    RejectChallenger,
)
from alloc_es.errors import InvalidSetting
from alloc_es.identity import parse_reason
from alloc_es.split import DEFAULT_CHALLENGER_SHARE_BPS, parse_share_bps
from alloc_es.wording import shown


@dataclass(frozen=True, slots=True)
class Hold:
    """Leave the workflow as it is. Nothing is recorded, nor is the reason."""

    reason: str = ""


@dataclass(frozen=True, slots=True)
class Register:
    """Let a version compete for `share_bps` basis points: `Workflow.register_challenger`."""

    version: str
    share_bps: int = DEFAULT_CHALLENGER_SHARE_BPS
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Promote:
    """Make a live challenger the current version: `Workflow.promote_challenger`."""

    version: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Reject:
    """Take a live challenger out, or replace it: `Workflow.reject_challenger`."""

    version: str
    replacement: str | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Reshare:
    """Set the shares, in basis points, of live challengers: `Workflow.commit_allocation`."""

    shares: Mapping[str, int]
    reason: str = ""


Proposal: TypeAlias = Hold | Register | Promote | Reject | Reshare

Policy: TypeAlias = Callable[[Allocation], Proposal | Awaitable[Proposal]]


def parse_proposal(answer: object) -> Proposal:
    """Return what a policy answered if it is a proposal; raises `InvalidSetting`."""
    if not isinstance(answer, Proposal):
        problem = (
            f"it answered {shown(answer)}, which is no Proposal; to leave all as it is: Hold()"
        )
        raise InvalidSetting("policy", problem)
    parse_reason(answer.reason)
    return answer


def command_of(proposal: Proposal, new_salt: Callable[[], str]) -> Command | None:
    """The command that a proposal asks for, None for a hold.

    Raises `InvalidIdentifier` and `InvalidSplit` for what can't be.
    """
    match proposal:
        case Hold():
            return None
        case Register():
            return RegisterChallenger(
                version=parse_version(proposal.version),
                share_bps=parse_share_bps(proposal.share_bps),
                salt=new_salt(),
            )
        case Promote():
            return PromoteChallenger(version=parse_version(proposal.version))
        case Reject(replacement=None):
            return RejectChallenger(version=parse_version(proposal.version), replacement=None)
        case Reject():
            return RejectChallenger(
                version=parse_version(proposal.version),
                replacement=parse_version(proposal.replacement),
            )
        case Reshare():
            return CommitAllocation(shares=parse_shares(proposal.shares))
        case _:
            assert_never(proposal)
