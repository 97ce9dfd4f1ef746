"""Child processes that do something together and report what came of it."""

import multiprocessing
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any

_PATIENCE_SECONDS = 60.0


def run_together(target: Callable[..., Any], arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
    """Call `target(barrier, *arguments)` in a process for each and return what they return.

    The processes are spawned, so nothing is inherited from this one. The barrier has one
    place for each of them and breaks after a minute. An error in a child is raised here.
    """
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(len(arguments), timeout=_PATIENCE_SECONDS)
    children = [start_child(_report, barrier, target, each) for each in arguments]
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


def start_child(target: Callable[..., None], *arguments: Any) -> tuple[BaseProcess, Connection]:
    """Spawn a process that calls `target(pipe, *arguments)`, and this end of the pipe.

    When the child dies, reading here ends with `EOFError`.
    """
    context = multiprocessing.get_context("spawn")
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
