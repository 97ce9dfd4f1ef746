"""Processes that are started once and do what they are told, together."""

from collections.abc import Callable, Sequence
from functools import partial
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Any, Self, TypeVar

from tests.support.children import SPAWNED, start_child

T = TypeVar("T")

_PATIENCE_SECONDS = 120.0


class Crew:
    """A number of spawned processes; ended by `close` or the end of a `with` block."""

    def __init__(self, size: int) -> None:
        # A barrier can't be sent to a process that runs already, so there is one for each
        # number of processes from the start.
        self._barriers = {count: SPAWNED.Barrier(count) for count in range(1, size + 1)}
        self._children = [start_child(_work, self._barriers, context=SPAWNED) for _ in range(size)]

    def together(self, jobs: Sequence[Callable[[Callable[[], object]], T]]) -> list[T]:
        """Do each job in a process of its own and return what they return.

        A job gets what it calls when it is prepared: that returns when all of them are.
        An error in one is raised here.
        """
        pipes = [pipe for _, pipe in self._children[: len(jobs)]]
        for pipe, job in zip(pipes, jobs, strict=True):
            pipe.send((len(jobs), job))
        answers = [pipe.recv() for pipe in pipes]
        failures = [answer for ok, answer in answers if not ok]
        if failures:
            raise RuntimeError(f"writers failed: {'; '.join(failures)}")
        return [answer for _, answer in answers]

    def close(self) -> None:
        """End the processes."""
        for child, pipe in self._children:
            pipe.close()
            child.join(_PATIENCE_SECONDS)
            child.kill()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _work(pipe: Connection, barriers: dict[int, Any]) -> None:
    while True:
        try:
            count, job = pipe.recv()
        except (EOFError, KeyboardInterrupt):
            return
        barrier = barriers[count]
        try:
            answer = (True, job(partial(barrier.wait, _PATIENCE_SECONDS)))
        except Exception as error:  # noqa: BLE001 - raised in the parent, whatever it is
            barrier.abort()
            answer = (False, f"{type(error).__name__}: {error}")
        pipe.send(answer)
