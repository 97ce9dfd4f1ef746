"""A process that follows and reports what it is told."""

from multiprocessing.connection import Connection

import alloc_es
from tests.following.tracing import NAME, TRACE


def follow(pipe: Connection, url: str, poll: float) -> None:
    """Follow the trace until the other end of the pipe is closed, or says something."""
    with (
        alloc_es.connect(url) as allocations,
        allocations.projections(TRACE).follow(NAME, poll=poll, tell=pipe.send),
    ):
        pipe.send("follows")
        pipe.recv()
