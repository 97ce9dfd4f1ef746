"""Child processes that do something together and report what came of it."""

import multiprocessing
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from multiprocessing.context import BaseContext
from multiprocessing.process import BaseProcess
from typing import Any

_PATIENCE_SECONDS = 60.0

FORKED: BaseContext = multiprocessing.get_context("forkserver")
"""Processes forked from one that has imported everything and done nothing.

So nothing is inherited from this one, and none of them takes the time to import it.
"""
FORKED.set_forkserver_preload(
    ["pytest", "alloc_es.store.postgres", "alloc_es.store.sqlite", "tests.support.recorders"]
)
SPAWNED: BaseContext = multiprocessing.get_context("spawn")
"""Processes that start from nothing, for those who measure them."""


def run_together(
    target: Callable[..., Any], arguments: Sequence[tuple[Any, ...]], context: BaseContext = FORKED
) -> list[Any]:
    """Call `target(barrier, *arguments)` in a process for each and return what they return.

    The barrier has one place for each of them and breaks after a minute. An error in a child
    is raised here.
    """
    barrier = context.Barrier(len(arguments), timeout=_PATIENCE_SECONDS)
    children = [start_child(_report, barrier, target, each, context=context) for each in arguments]
    try:
        answers = [pipe.recv() for _, pipe in children]
    finally:
        for child, _ in children:
            child.join(_PATIENCE_SECONDS)
            child.kill()
    for ok, answer in answers:
        if not ok:
            raise RuntimeError(f"a child failed: {answer}")
    return [answer for _, answer in answers]


def start_child(
    target: Callable[..., None], *arguments: Any, context: Any = FORKED
) -> tuple[BaseProcess, Connection]:
    """Start a process that calls `target(pipe, *arguments)`, and this end of the pipe.

    When the child dies, reading here ends with `EOFError`.
    """
    ours, theirs = context.Pipe()
    child = context.Process(target=target, args=(theirs, *arguments), daemon=True)
    child.start()
    theirs.close()
    return child, ours


def _report(
    pipe: Connection, barrier: Any, target: Callable[..., Any], arguments: tuple[Any, ...]
) -> None:
    try:
        answer = (True, target(barrier, *arguments))
    except Exception as error:  # noqa: BLE001 - raised in the parent, whatever it is
        barrier.abort()
        answer = (False, f"{type(error).__name__}: {error}")
    pipe.send(answer)
