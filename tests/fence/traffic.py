"""What each process of the big race does; run by `tests.support.children.run_together`."""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import count
from multiprocessing import get_context
from typing import Any, NamedTuple

from alloc_es import (
    Allocations,
    Committed,
    RunSpawned,
    SpawnCounts,
    SpawnRequest,
    Workflow,
    connect,
)

KEYS = (("acme", "triage"), ("acme", "draft"), ("beta", "triage"), ("beta", "a/b"))
"""The workflows that are decided on; every process spawns runs of all of them."""

CURRENT = "v1"

_THREADS = 2
_TASKS = 3
_LIST = 6
_PATIENCE_SECONDS = 60.0


class Board(NamedTuple):
    """What the processes share.

    `returned` counts the scheduler's calls that have returned, `answered` is set when a run
    that was asked for behind the last of them has its answer, and `done` ends the race.
    """

    returned: Any
    answered: Any
    done: Any

    @property
    def decisions(self) -> int:
        """How many calls of the scheduler have returned."""
        with self.returned:
            value: int = self.returned.value
        return value

    def decided(self) -> None:
        """A call of the scheduler has returned; wait for a run that began behind it.

        A busy SQLite goes round unfairly: without the wait a hundred decisions may come
        with no run in between.
        """
        with self.returned:
            self.returned.value += 1
        self.answered.clear()
        if not self.answered.wait(_PATIENCE_SECONDS):
            raise RuntimeError("nobody spawns runs")

    def spawned(self, returned: int, run: RunSpawned) -> "Told":
        """A run that was asked for behind so many decisions has its answer."""
        if returned == self.decisions:
            self.answered.set()
        return Told(returned, run)


class Told(NamedTuple):
    """An answer, and how many decisions had returned before its call began."""

    returned: int
    run: RunSpawned


class Report(NamedTuple):
    """What a process of spawners was told."""

    told: list[Told]
    counts: SpawnCounts


def new_board() -> Board:
    """A board for processes that are yet to be started."""
    context = get_context("spawn")
    return Board(context.Value("q", 0), context.Event(), context.Event())


def play(barrier: Any, part: Callable[..., Any], *arguments: Any) -> Any:
    """Give each process a part of its own."""
    return part(barrier, *arguments)


def schedule(barrier: Any, url: str, board: Board, decisions: int) -> int:
    """`decide_all` on a connection of its own, together with the others."""
    with connect(url, actor="scheduler", timeout=_PATIENCE_SECONDS, migrate=False) as allocations:
        barrier.wait()
        return decide_all(allocations, board, decisions)


def decide_all(allocations: Allocations, board: Board, decisions: int) -> int:
    """Decide so many times, a workflow after the other; how many of them did something."""
    acted = 0
    workflows = [allocations.workflow(*key) for key in KEYS]
    try:
        for number in range(decisions):
            turn, index = divmod(number, len(KEYS))
            acted += decide(workflows[index], turn).event is not None
            board.decided()
    finally:
        board.done.set()
    return acted


def decide(workflow: Workflow, turn: int) -> Committed:
    """One decision in a round of eight, in which one challenger is rejected and one promoted.

    Every other round has the version back that was rejected in the one before.
    """
    tenure, step = divmod(turn, 8)
    rejected, promoted = f"r{tenure // 2}", f"p{tenure}"
    match step:
        case 0:
            return workflow.register_challenger(rejected, 5_000)
        case 1:
            return workflow.commit_allocation({rejected: 2_500})
        case 2:
            return workflow.commit_allocation({rejected: 7_500})
        case 3:
            return workflow.reject_challenger(rejected)
        case 4:
            return workflow.register_challenger(rejected, 4_000)
        case 5:
            return workflow.reject_challenger(rejected, replacement=promoted)
        case 6:
            return workflow.commit_allocation({promoted: 9_000})
        case _:
            return workflow.promote_challenger(promoted)


def spawn(barrier: Any, url: str, board: Board, name: str) -> Report:
    """`spawn_all` on a connection of its own, together with the others."""
    with connect(url, actor=name, timeout=_PATIENCE_SECONDS, migrate=False) as allocations:
        barrier.wait()
        return spawn_all(allocations, board, name)


def spawn_all(allocations: Allocations, board: Board, name: str) -> Report:
    """Spawn in every way there is until the scheduler is done."""
    crowd = Crowd(allocations, board, name)
    ways: list[Callable[[], list[Told]]] = [crowd.in_tasks, crowd.in_lists]
    ways += [partial(crowd.one_by_one, f"thread-{number}") for number in range(_THREADS)]
    with ThreadPoolExecutor(len(ways)) as pool:
        told = [each for found in pool.map(lambda way: way(), ways) for each in found]
    return Report(told, allocations.spawn_counts())


class Crowd:
    """The callers of one process, who share its connection."""

    def __init__(self, allocations: Allocations, board: Board, name: str) -> None:
        self._allocations = allocations
        self._workflows = [allocations.workflow(*key) for key in KEYS]
        self._board = board
        self._name = name

    def one_by_one(self, caller: str) -> list[Told]:
        """Spawn a run, and when the answer is there the next one."""
        told = []
        for number in count():
            if self._board.done.is_set():
                break
            workflow = self._workflows[number % len(KEYS)]
            returned = self._board.decisions
            run = workflow.spawn_run(f"{self._name}-{caller}-{number}")
            told.append(self._board.spawned(returned, run))
        return told

    def in_tasks(self) -> list[Told]:
        """The same in tasks of an event loop."""

        async def caller(index: int) -> list[Told]:
            told = []
            for number in count(index):
                if self._board.done.is_set():
                    break
                workflow = self._workflows[number % len(KEYS)]
                returned = self._board.decisions
                run = await workflow.aspawn_run(f"{self._name}-task-{index}-{number}")
                told.append(self._board.spawned(returned, run))
            return told

        async def all_callers() -> list[Told]:
            each = await asyncio.gather(*(caller(index) for index in range(_TASKS)))
            return [told for found in each for told in found]

        return asyncio.run(all_callers())

    def in_lists(self) -> list[Told]:
        """Spawn lists over all workflows; the first run of each list is every process's."""
        told: list[Told] = []
        for number in count():
            if self._board.done.is_set():
                break
            names = [f"everybody-{number}"]
            names += [f"{self._name}-list-{number}-{place}" for place in range(1, _LIST)]
            requests = [
                SpawnRequest(*KEYS[place % len(KEYS)], name) for place, name in enumerate(names)
            ]
            returned = self._board.decisions
            told += [
                self._board.spawned(returned, run) for run in recorded(self._allocations, requests)
            ]
        return told


def recorded(allocations: Allocations, requests: Sequence[SpawnRequest]) -> list[RunSpawned]:
    """The runs of a list, of which none may fail."""
    runs = []
    for outcome in allocations.spawn_runs(requests):
        if not isinstance(outcome, RunSpawned):
            raise outcome
        runs.append(outcome)
    return runs
