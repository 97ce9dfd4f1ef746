"""Policies that a participant in its own process can import."""

import os
import sys
from types import MappingProxyType

from alloc_es import Allocation
from alloc_es.scheduling import Hold, Promote, Proposal, Register, Reshare


def hold(_: Allocation) -> Proposal:
    """Leave it."""
    return Hold()


def by_name(state: Allocation) -> Proposal:
    """Something else for each workflow, told by what stands before its first dash."""
    match state.workflow_id.partition("-")[0]:
        case "register":
            return Register("v3", 700, reason="it is new")
        case "promote":
            return Promote("v2")
        case "share":
            return Reshare({"v2": 4_000})
        case "fail":
            raise LookupError(f"no evidence on {state.workflow_id.partition('-')[0]}")
        case _:
            return Hold()


def unsendable(_: Allocation) -> Proposal:
    """Shares that no pipe takes."""
    return Reshare(MappingProxyType({"v2": 4_321}))


def leave(_: Allocation) -> Proposal:
    """End the interpreter, as far as it is asked."""
    sys.exit(3)


def fork(_: Allocation) -> Proposal:
    """Leave a child behind that holds whatever this process has open, and die."""
    if os.fork() == 0:
        while True:
            os.kill(os.getpid(), 19)
    os._exit(5)
