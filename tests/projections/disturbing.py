"""Makes batches of any size, and breaks off the work on them anywhere."""

from collections.abc import Iterator
from contextlib import contextmanager
from random import Random
from typing import Any
from unittest.mock import patch

from alloc_es.applying import Applier, Changes
from alloc_es.building import Build
from alloc_es.store.session import Session

LIMITS = (1, 4, 30, 1_000)


class Killed(BaseException):
    """The process is no more: nothing may be told, or put right."""


@contextmanager
def batches(random: Random, *, killed: float = 0.0) -> Iterator[list[str]]:
    """Batches of random sizes, each `killed` by a chance in the midst of its rows or behind it.

    Gives the list of where work was broken off.
    """
    step, make, commit = Applier.step, Changes.make, Applier._commit
    kills: list[str] = []

    def any_step(self: Applier, build: Build, **how: Any) -> Build | None:
        return step(self, build, **how, limit=random.choice(LIMITS))

    def half_made(self: Changes, session: Session) -> None:
        if random.random() < killed:
            kills.append("in the midst")
            for change in self._asked[: random.randint(0, len(self._asked))]:
                change(session)
            raise Killed
        make(self, session)

    def committed(self: Applier, *arguments: Any) -> Build:
        build = commit(self, *arguments)
        if random.random() < killed:
            kills.append("behind")
            raise Killed
        return build

    with (
        patch.object(Applier, "step", any_step),
        patch.object(Changes, "make", half_made),
        patch.object(Applier, "_commit", committed),
    ):
        yield kills
