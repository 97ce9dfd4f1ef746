"""A process that follows and reports what it is told, and one that decides."""

from multiprocessing.connection import Connection

import alloc_es
from tests.following.tracing import BUILT, NAME, PATIENCE, TRACE


def follow(pipe: Connection, url: str, poll: float) -> None:
    """Follow the trace until the other end of the pipe is closed, or says something."""

    def tell(sentence: str) -> None:
        if BUILT not in sentence:
            pipe.send(sentence)

    with (
        alloc_es.connect(url) as allocations,
        allocations.projections(TRACE).follow(NAME, poll=poll, tell=tell),
    ):
        pipe.send("follows")
        pipe.recv()


def decide(pipe: Connection, url: str, workflow_id: str, commits: int) -> None:
    """Decide so many times on one workflow, and say so each time."""
    with alloc_es.connect(url, timeout=PATIENCE) as allocations:
        workflow = allocations.workflow("acme", workflow_id)
        workflow.start("v1")
        workflow.register_challenger("v2")
        for number in range(commits):
            workflow.commit_allocation({"v2": 1 + number})
            pipe.send(number)
