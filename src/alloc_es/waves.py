"""One decide pass: waves are assembled, asked about side by side, and committed in order."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple, TypeAlias

from alloc_es.allocation import Allocation
from alloc_es.asking import Answer, Found, ask_all, in_thread
from alloc_es.commands import Command
from alloc_es.errors import (
    AllocationError,
    GenerationConflict,
    OutcomeUnknown,
    StoreUnavailable,
    UnknownWorkflow,
    UnreadableEvent,
)
from alloc_es.events import DecisionEvent
from alloc_es.identity import WorkflowKey
from alloc_es.ledger import Ledger
from alloc_es.pass_results import Failure, Goal, Outcome, PassReport, PassResult
from alloc_es.proposals import Policy, Proposal, command_of, parse_proposal
from alloc_es.scheduler_errors import IncarnationSuperseded, PassStopped
from alloc_es.store import Recorded
from alloc_es.workflow import Workflow

Reached: TypeAlias = Callable[[Allocation], bool]
OnResult: TypeAlias = Callable[[PassResult], object]

MOST_AT_ONCE = 1_000
"""How many workflows may be in a wave; as many are read in one statement."""

_WINDOW = 100
"""How far a wave looks ahead for workflows that have not reached their own goal."""

_Newest: TypeAlias = Mapping[str, Recorded[DecisionEvent] | AllocationError]


class Plan(NamedTuple):
    """The arguments of a pass, parsed."""

    policy: Policy
    concurrency: int
    reached: Reached | None
    goal: Goal | None
    actor: str | None
    max_asks: int
    dry_run: bool
    on_result: OnResult | None


class Trial(NamedTuple):
    """A workflow of a wave: its place among the keys, what was found, and what was answered."""

    place: int
    key: WorkflowKey
    found: Found
    answer: Answer = None
    asked: int = 0
    lost_to: tuple[DecisionEvent, ...] = ()

    @property
    def seen(self) -> int | None:
        return self.found.generation if isinstance(self.found, Allocation) else None

    def answered(self, found: Found, answer: Answer) -> "Trial":
        asked = self.asked + isinstance(found, Allocation)
        return self._replace(found=found, answer=answer, asked=asked)

    def result(
        self, outcome: Outcome, event: DecisionEvent | None = None, generation: int | None = None
    ) -> PassResult:
        return PassResult(
            self.key,
            outcome,
            proposal=self.answer if isinstance(self.answer, Proposal) else None,
            seen=self.seen if self.asked else None,
            event=event,
            generation=self.seen if generation is None else generation,
            asked=self.asked,
            lost_to=self.lost_to,
        )

    def failed(self, error: BaseException) -> PassResult:
        return replace(self.result("failed"), failure=Failure.of(self.key, error))


class Pass:
    """One pass, from its first wave to its last."""

    def __init__(self, ledger: Ledger, keys: Sequence[WorkflowKey], plan: Plan) -> None:
        self._ledger = ledger
        self._keys = keys
        self._plan = plan
        self._results = [PassResult(key, "not run") for key in keys]
        self._told = 0
        self._next = 0
        self._waves = 0
        self._counted = 0
        self._cancelled: asyncio.CancelledError | None = None

    async def run(self) -> PassReport:
        await self._refuse_unknown()
        while wave := await self._assemble():
            self._waves += 1
            answers = await ask_all(self._plan.policy, [trial.found for trial in wave])
            for trial, answer in zip(wave, answers, strict=True):
                await self._settle(trial.answered(trial.found, answer))
            self._count(wave)
        return self._report()

    def _report(self) -> PassReport:
        goal = self._plan.goal
        reached = goal is not None and self._counted >= goal.count
        return PassReport(tuple(self._results), self._waves, reached)

    async def _refuse_unknown(self) -> None:
        unknown: list[WorkflowKey] = []
        for first in range(0, len(self._keys), MOST_AT_ONCE):
            keys = self._keys[first : first + MOST_AT_ONCE]
            founds = await self._read(keys)
            unknown += [found.key for found in founds if isinstance(found, UnknownWorkflow)]
        if unknown:
            raise UnknownWorkflow(unknown[0], unknown[1:])

    async def _assemble(self) -> list[Trial]:
        """The next wave; empty when nothing is left to do, or the pass has its goal."""
        wave: list[Trial] = []
        while not wave and self._next < len(self._keys) and (room := self._room()):
            window = range(self._next, self._window_end(room))
            founds = await self._read([self._keys[place] for place in window])
            wave = self._picked(window, founds, room)
        return wave

    def _room(self) -> int:
        """How many workflows the next wave may have."""
        goal, most = self._plan.goal, self._plan.concurrency
        if goal is None:
            return most
        missing = max(0, goal.count - self._counted)
        if goal.hard:
            return min(most, missing)
        return most if missing or self._next % goal.every else 0

    def _window_end(self, room: int) -> int:
        """Up to which key a wave is looked for: not beyond where a soft goal is looked at."""
        goal = self._plan.goal
        end = self._next + (room if self._plan.reached is None else max(room, _WINDOW))
        if goal is not None and not goal.hard:
            end = min(end, self._next - self._next % goal.every + goal.every)
        return min(end, len(self._keys))

    def _picked(self, window: range, founds: Sequence[Found], room: int) -> list[Trial]:
        """Take workflows into a wave and skip others, until it is full or the window ends."""
        wave: list[Trial] = []
        for place, found in zip(window, founds, strict=True):
            if len(wave) == room:
                break
            trial = Trial(place, self._keys[place], found)
            judged = self._judged(found)
            if judged is None:
                self._put(trial, trial.result("skipped"))
            else:
                wave.append(trial._replace(found=judged))
            self._next = place + 1
        return wave

    def _judged(self, found: Found) -> Found | None:
        """The snapshot of a workflow that is to run, None where it has reached its own goal."""
        reached = self._plan.reached
        if reached is None or isinstance(found, Exception):
            return found
        try:
            return None if reached(found) else found
        except Exception as error:  # noqa: BLE001 - it fails this workflow, and no other
            return error

    def _count(self, wave: Sequence[Trial]) -> None:
        goal = self._plan.goal
        if goal is not None:
            self._counted += sum(bool(goal.counts(self._results[t.place])) for t in wave)

    async def _settle(self, trial: Trial) -> None:
        """Commit what was answered; where another came first, ask again."""
        while isinstance(done := await self._carry_out(trial), GenerationConflict):
            if self._cancelled is not None:
                raise self._cancelled
            winner = () if done.winner is None else (done.winner,)
            trial = trial._replace(lost_to=(*trial.lost_to, *winner))
            if trial.asked == self._plan.max_asks:
                done = replace(trial.failed(done), generation=done.actual)
                break
            (found,) = await self._read([trial.key])
            (answer,) = await ask_all(self._plan.policy, [found])
            trial = trial.answered(found, answer)
        self._put(trial, done)
        if self._cancelled is not None:
            raise self._cancelled

    async def _carry_out(self, trial: Trial) -> PassResult | GenerationConflict:
        """Do what was answered, or foresee it in a dry run."""
        if isinstance(trial.found, Exception):
            return trial.failed(trial.found)
        if isinstance(trial.answer, BaseException):
            return trial.failed(trial.answer)
        try:
            proposal = parse_proposal(trial.answer)
            command = command_of(proposal, self._ledger.new_id)
            if command is None:
                return trial.result("held")
            if self._plan.dry_run:
                return self._foreseen(trial, trial.found, command, proposal.reason)
        except Exception as error:  # noqa: BLE001 - a proposal may be made of others' code
            return trial.failed(error)
        return await self._commit(trial, command, proposal.reason)

    def _foreseen(
        self, trial: Trial, state: Allocation, command: Command, reason: str
    ) -> PassResult:
        workflow = Workflow(self._ledger, trial.key)
        event = workflow.preview(command, state, reason=reason, actor=self._plan.actor)
        if event is None:
            return trial.result("unchanged")
        return trial.result("decided", event, event.generation)

    async def _commit(
        self, trial: Trial, command: Command, reason: str
    ) -> PassResult | GenerationConflict:
        """Commit one decision, to its end, also when the pass is cancelled meanwhile."""
        send = partial(
            Workflow(self._ledger, trial.key).send,
            command,
            expected_generation=trial.seen,
            reason=reason,
            actor=self._plan.actor,
        )
        # Where a cancellation that came while this task was running is raised.
        await asyncio.sleep(0)
        call = in_thread(send)
        while not call.done():
            try:
                await asyncio.shield(call)
            except asyncio.CancelledError as cancelled:
                self._cancelled = cancelled
        committed, error = call.result()
        if committed is not None:
            outcome: Outcome = "unchanged" if committed.event is None else "decided"
            return trial.result(outcome, committed.event, committed.generation)
        return self._uncommitted(trial, error)

    def _uncommitted(
        self, trial: Trial, error: BaseException | None
    ) -> PassResult | GenerationConflict:
        """What an error at a commit means: this workflow's failure, or the end of the pass."""
        match error:
            case GenerationConflict():
                return error
            case OutcomeUnknown():
                self._put(trial, trial.failed(error))
                raise self._end(error)
            case UnreadableEvent():
                return trial.failed(error)
            case StoreUnavailable() | IncarnationSuperseded():
                raise self._end(error)
            case AllocationError():
                return trial.failed(error)
            case _:
                assert error is not None
                raise error

    async def _read(self, keys: Sequence[WorkflowKey]) -> list[Found]:
        """The newest allocations of workflows, of one moment; for each that has none, why."""
        newest, error = await in_thread(partial(_newest, self._ledger, keys))
        if isinstance(error, StoreUnavailable):
            raise self._end(error)
        if error is not None:
            raise error
        assert newest is not None
        return [_found(key, newest) for key in keys]

    def _end(self, error: AllocationError) -> BaseException:
        """What the pass is ended with where every workflow would meet an error."""
        if self._cancelled is not None:
            return self._cancelled
        stopped = PassStopped(self._report(), error)
        stopped.__cause__ = error
        return stopped

    def _put(self, trial: Trial, result: PassResult) -> None:
        """Keep a result, and tell those in front of which nothing is open."""
        self._results[trial.place] = result
        while self._told < len(self._keys) and self._results[self._told].outcome != "not run":
            self._told += 1
            if self._plan.on_result is not None:
                self._plan.on_result(self._results[self._told - 1])


def _newest(ledger: Ledger, keys: Sequence[WorkflowKey]) -> _Newest:
    ledger.check_usable()
    streams = [key.stream for key in keys]
    return ledger.patience.insist(lambda: ledger.decisions.newest_of(streams))


def _found(key: WorkflowKey, newest: _Newest) -> Found:
    found = newest.get(key.stream)
    if found is None:
        return UnknownWorkflow(key)
    return found if isinstance(found, AllocationError) else found.event.allocation
