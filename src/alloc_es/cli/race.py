"""Schedulers that race for the same generation, and an account of who won and who overlapped."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from alloc_es.allocation import Allocation
from alloc_es.errors import GenerationConflict, OutcomeUnknown
from alloc_es.harness import (
    Decide,
    Done,
    Launcher,
    Mode,
    Participant,
    Pending,
    Refused,
    Resolved,
    Unknown,
)
from alloc_es.identity import WorkflowKey
from alloc_es.proposals import Reshare

_SHARES = 9_000


@dataclass(frozen=True, slots=True)
class Attempt:
    """One scheduler's try at one round's generation, and the commit that followed a loss.

    `began` and `ended` are nanoseconds of the system's monotonic clock around the try.
    `actual` and `winner` are what the conflict said, None for the one who won;
    `lost_at_commit` that the store and not the check before it decided. `generation` is
    the one that the scheduler made in the end.
    """

    round: int
    scheduler: str
    expected: int
    began: int
    ended: int
    actual: int | None
    winner: str | None
    lost_at_commit: bool
    generation: int

    @property
    def won(self) -> bool:
        """Whether the first try was let through."""
        return self.actual is None


@dataclass(frozen=True, slots=True)
class Race:
    """All attempts of a race, by round and scheduler."""

    attempts: tuple[Attempt, ...]

    @property
    def rounds(self) -> list[tuple[Attempt, ...]]:
        """The attempts of each round."""
        count = 1 + max((attempt.round for attempt in self.attempts), default=-1)
        return [tuple(a for a in self.attempts if a.round == number) for number in range(count)]

    @property
    def wins(self) -> dict[str, int]:
        """How many rounds each scheduler won."""
        names = sorted({attempt.scheduler for attempt in self.attempts})
        return {name: sum(a.won for a in self.attempts if a.scheduler == name) for name in names}

    @property
    def conflicts(self) -> int:
        """How many tries were told that another one had won."""
        return sum(not attempt.won for attempt in self.attempts)

    @property
    def overlapped(self) -> int:
        """In how many rounds every try began before any had ended."""
        return sum(
            max(a.began for a in attempts) < min(a.ended for a in attempts)
            for attempts in self.rounds
        )


def race(
    url: str,
    tenant_id: str,
    workflow_id: str,
    *,
    rounds: int,
    schedulers: Sequence[str] = ("scheduler-a", "scheduler-b"),
    mode: Mode = "process",
    on_round: Callable[[int], None] = lambda _: None,
) -> Race:
    """Let schedulers race on one live challenger's share.

    In every round all commit different shares on the same generation, at the same time;
    who loses commits again on the one it was told. `on_round` is called with the number of
    rounds done. Raises what a scheduler met other than a conflict.
    """
    key = WorkflowKey.parse(tenant_id, workflow_id)
    attempts: list[Attempt] = []
    with Launcher(url, threads=len(schedulers)) as launcher:
        with ThreadPoolExecutor(len(schedulers)) as starting:
            members = list(
                starting.map(
                    lambda name: launcher.start(name, "scheduler", [tenant_id], mode=mode),
                    schedulers,
                )
            )
        for number in range(rounds):
            before = launcher.allocations.workflow(*key).allocation()
            attempts += _round(number, before, members)
            on_round(number + 1)
    return Race(tuple(sorted(attempts, key=lambda a: (a.round, a.scheduler))))


def _round(number: int, before: Allocation, members: Sequence[Participant]) -> list[Attempt]:
    """Every scheduler's try on the same generation; who lost commits when all have tried."""
    assert before.challenger is not None
    requests = [
        Decide(
            before.key,
            Reshare({before.challenger: 1 + (number * len(members) + index) % _SHARES}),
            before.generation,
        )
        for index in range(len(members))
    ]
    pending = [member.send(each) for member, each in zip(members, requests, strict=True)]
    tries = [_told(member, each) for member, each in zip(members, pending, strict=True)]
    return [
        _attempt(number, member, request, tried)
        for member, request, tried in zip(members, requests, tries, strict=True)
    ]


def _attempt(number: int, member: Participant, request: Decide, tried: Done | Refused) -> Attempt:
    assert request.expected_generation is not None
    assert tried.began is not None
    assert tried.ended is not None
    conflict = tried.error if isinstance(tried, Refused) else None
    if not isinstance(conflict, GenerationConflict | None):
        raise conflict
    return Attempt(
        round=number,
        scheduler=member.name,
        expected=request.expected_generation,
        began=tried.began,
        ended=tried.ended,
        actual=conflict.actual if conflict else None,
        winner=conflict.winner.actor if conflict and conflict.winner else None,
        lost_at_commit=conflict is not None and conflict.lost_at_commit,
        generation=_commit_after(member, request, tried),
    )


def _commit_after(member: Participant, request: Decide, tried: Done | Refused) -> int:
    """The generation that a scheduler made in the end, on the one that a conflict named."""
    while isinstance(tried, Refused):
        if not isinstance(tried.error, GenerationConflict):
            raise tried.error
        again = replace(request, expected_generation=tried.error.actual)
        tried = _told(member, member.send(again))
    generation: int = tried.answer.generation
    return generation


def _told(member: Participant, pending: Pending) -> Done | Refused:
    outcome = member.settle(pending)
    if isinstance(outcome, Resolved):
        return outcome.outcome
    if isinstance(outcome, Unknown):
        assert isinstance(pending.request, Decide)
        raise OutcomeUnknown(pending.request.key, outcome.problem, command_id=pending.request_id)
    return outcome
