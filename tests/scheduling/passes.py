"""What the tests of decide passes share: connections that repeat themselves, and policies."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from itertools import count, pairwise
from random import Random
from threading import Barrier, Event, Lock
from typing import Any

import alloc_es
from alloc_es import Allocation, Allocations
from alloc_es.scheduling import Hold, PassReport, Promote, Proposal, Register

PATIENCE_SECONDS = 30.0
TENANT = "acme"

_BEGIN = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


def repeatable(url: str, actor: str | None = "scheduler", **more: Any) -> Allocations:
    """A connection whose ids and times are the same each time that the same is done."""
    ids, seconds = count(1), count(1)
    return alloc_es.connect(
        url,
        actor=actor,
        clock=lambda: _BEGIN + timedelta(seconds=next(seconds)),
        new_id=lambda: f"{actor}-{next(ids)}",
        **more,
    )


def started(allocations: Allocations, names: Iterable[str], tenant: str = TENANT) -> list[Any]:
    """Start workflows of these names with v1; their keys."""
    keys = [(tenant, name) for name in names]
    for key in keys:
        allocations.workflow(*key).start("v1")
    return keys


def outcomes(report: PassReport) -> list[str]:
    return [result.outcome for result in report.results]


def log(allocations: Allocations, after: int = 0) -> list[Any]:
    return [recorded.event for recorded in allocations.decisions(after=after)]


def told(allocations: Allocations, after: int = 0) -> list[tuple[str, str]]:
    """The log in short: which workflow, and what was decided."""
    return [(event.key.workflow_id, event.summary) for event in log(allocations, after)]


def hold(_: Allocation) -> Proposal:
    return Hold()


def challenge(_: Allocation) -> Proposal:
    return Register("v2")


def plain(state: Allocation) -> Proposal:
    """Answers by the workflow's own name: it registers, holds, fails, or proposes the illegal."""
    match int(state.workflow_id) % 5:
        case 0:
            return Hold("nothing to try")
        case 1:
            raise LookupError(f"no evidence on {state.workflow_id}")
        case 2:
            return Promote("v9")
        case number:
            return Register(f"v{number}", share_bps=100 * number, reason=f"as {number}")


class Conductor:
    """A policy that is inside for all workflows of a wave, and then finishes them shuffled.

    `finished` is the order in which it did, and `most` how many were inside at once.
    """

    def __init__(
        self, names: Sequence[str], size: int, seed: int, policy: Callable[[Allocation], Proposal]
    ) -> None:
        self._policy = policy
        self._lock = Lock()
        self._inside = 0
        self._met: dict[str, Barrier] = {}
        self._turn = {name: Event() for name in names}
        self._behind: dict[str, str] = {}
        self.finished: list[str] = []
        self.most = 0
        random = Random(seed)
        for first in range(0, len(names), size):
            self._arrange(list(names[first : first + size]), random)

    def _arrange(self, wave: list[str], random: Random) -> None:
        barrier = Barrier(len(wave), timeout=PATIENCE_SECONDS)
        self._met |= dict.fromkeys(wave, barrier)
        order = wave.copy()
        while len(wave) > 1 and order == wave:
            random.shuffle(order)
        self._turn[order[0]].set()
        self._behind |= dict(pairwise(order))

    def __call__(self, state: Allocation) -> Any:
        """Every other workflow is asked about in a task, the rest in a thread."""
        if int(state.workflow_id) % 2:
            return self._in_task(state)
        return self._conducted(state)

    async def _in_task(self, state: Allocation) -> Proposal:
        return await asyncio.to_thread(self._conducted, state)

    def _conducted(self, state: Allocation) -> Proposal:
        name = state.workflow_id
        with self._lock:
            self._inside += 1
            self.most = max(self.most, self._inside)
        self._met[name].wait()
        assert self._turn[name].wait(PATIENCE_SECONDS)
        try:
            return self._policy(state)
        finally:
            self.finished.append(name)
            with self._lock:
                self._inside -= 1
            if name in self._behind:
                self._turn[self._behind[name]].set()
