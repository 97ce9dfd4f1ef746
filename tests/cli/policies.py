"""Policies that tests name on the command line."""

import asyncio
import os
import signal
import sys
import time
from threading import Event
from typing import Any

import alloc_es
from alloc_es import Allocation
from alloc_es.scheduling import Hold, Promote, Proposal, Register, Reshare
from tests.support.overlap import in_threads

NUMBER = 7


class Policies:
    """Policies that are the methods of something."""

    async def careful(self, state: Allocation) -> Proposal:
        """Fails for the workflow `bad`, and holds where something is tried."""
        if state.workflow_id == "bad":
            raise LookupError("no\nevidence")
        return try_v2(state)


methods = Policies()


def try_v2(state: Allocation) -> Proposal:
    """Register v2 where nothing is tried."""
    return Hold("v2 is being tried") if state.challenger else Register("v2", reason="why not")


def same_shares(state: Allocation) -> Proposal:
    return Reshare({version: state.split[version] for version in state.challengers})


def interrupted(state: Allocation) -> Proposal:
    return _signalled(state, signal.SIGINT)


def terminated(state: Allocation) -> Proposal:
    return _signalled(state, signal.SIGTERM)


def _signalled(state: Allocation, number: signal.Signals) -> Proposal:
    """Think for ever about the second workflow, after a signal."""
    if state.workflow_id == "b":
        os.kill(os.getpid(), number)
        Event().wait()
    return try_v2(state)


def leaving(state: Allocation) -> Proposal:
    """End the interpreter, as far as it is asked, at the second workflow."""
    if state.workflow_id == "b":
        sys.exit(0)
    return try_v2(state)


async def leaving_soon(state: Allocation) -> Proposal:
    """The same in the event loop."""
    return leaving(state)


async def stubborn(_: Allocation) -> Any:
    """Answer a cancellation with another Ctrl-C, and go on."""
    while True:
        try:
            os.kill(os.getpid(), signal.SIGINT)
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            pass


async def blocking(_: Allocation) -> Any:
    """Keep the event loop, and hear no cancellation."""
    while True:
        os.kill(os.getpid(), signal.SIGTERM)


def beaten(state: Allocation) -> Proposal:
    """Let another scheduler be faster, once."""
    if state.generation == 1:
        assert in_threads(lambda: _beat(state)) == [None]
    return try_v2(state)


def _beat(state: Allocation) -> None:
    with alloc_es.connect(os.environ["ALLOC_ES_STORE"], actor="rival") as allocations:
        allocations.workflow(*state.key).register_challenger("v9")


def leisurely(state: Allocation) -> Proposal:
    """Think for longer than a display needs to be drawn."""
    time.sleep(0.05)
    return try_v2(state)


def early(state: Allocation) -> Proposal:
    """Promote a challenger as soon as it is there."""
    return Promote(state.challenger, reason="early") if state.challenger else Hold()


async def early_async(state: Allocation) -> Proposal:
    return early(state)


def silent(_: Allocation) -> None:
    """Answer with nothing."""


def meddling(state: Allocation) -> Proposal:
    """Decide by itself."""
    _beat(state)
    return Hold()


def unsure(state: Allocation) -> Proposal:
    """Fail at the first challenger."""
    if state.challenger:
        raise LookupError("no\nevidence")
    return Hold()
