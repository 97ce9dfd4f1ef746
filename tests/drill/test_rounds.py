"""One round after the other: who is asked for what, and what is kept of the answers."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, cast

import pytest

import alloc_es
from alloc_es import Allocations, GenerationConflict, StoreUnavailable
from alloc_es.clock import new_id
from alloc_es.drill.account import Account, Told
from alloc_es.drill.checking import problems
from alloc_es.drill.crew import Crew
from alloc_es.drill.faults import Faults
from alloc_es.drill.plan import Fault
from alloc_es.drill.rounds import Rounds
from alloc_es.events import ChallengerRejectedWithoutReplacement
from alloc_es.harness import Decide, Done, Pending, Refused
from alloc_es.identity import WorkflowKey
from alloc_es.proposals import command_of

KEYS = [WorkflowKey.parse("drill-1", f"workflow-{number}") for number in (1, 2)]


class Scene:
    """Stands in for the crew and for the faults: every request is carried out when it is asked."""

    def __init__(self, allocations: Allocations, silent: str | None = None) -> None:
        self._allocations = allocations
        self._silent = silent
        self.acts: list[str] = []

    def ask(self, name: str, request: Decide, request_id: str) -> tuple[None, Pending]:
        self.acts.append(f"ask {name}")
        pending = Pending(request_id, request)
        command = command_of(request.proposal, new_id)
        assert command
        try:
            pending.outcome = Done(
                self._allocations.workflow(*request.key).send(
                    command,
                    expected_generation=request.expected_generation,
                    command_id=request_id,
                    actor=f"drill-1-{name}",
                ),
            )
        except GenerationConflict as conflict:
            pending.outcome = Refused(conflict, 1, 2)
        return None, pending

    def settle(self, name: str, member: None, pending: Pending) -> Done | Refused | None:
        assert member is None
        self.acts.append(f"settle {name}")
        return None if name == self._silent else pending.outcome

    def prepare(self, faults: Sequence[Fault]) -> None:
        self.acts.append(f"prepare {len(faults)}")

    def strike(self, faults: Sequence[Fault]) -> None:
        self.acts.append(f"strike {len(faults)}")


@pytest.fixture
def allocations() -> Iterator[Allocations]:
    with opened() as allocations:
        yield allocations


@contextmanager
def opened() -> Iterator[Allocations]:
    with alloc_es.connect("memory:", actor="drill") as allocations:
        for key in KEYS:
            allocations.workflow(*key).start("v1")
            allocations.workflow(*key).register_challenger("v2", 5_000)
        yield allocations


def played(
    allocations: Allocations, scene: Scene, seed: int = 1, rounds: int = 1, faults: Any = ()
) -> Account:
    account = Account()
    each = Rounds(
        allocations,
        cast(Crew, scene),
        cast(Faults, scene),
        account,
        keys=KEYS,
        schedulers=["ada", "bob"],
        seed=seed,
    )
    for number in range(rounds):
        each.play(number, faults)
    return account


def decided(seed: int, rounds: int = 30) -> list[object]:
    with opened() as allocations:
        played(allocations, Scene(allocations), seed, rounds)
        return [(each.event.summary, each.event.actor) for each in allocations.decisions()]


def test_the_same_seed_asks_for_the_same_in_the_same_rounds_and_another_one_does_not() -> None:
    """Red when a round depends on anything but its number, the seed and what it finds."""
    first = decided(1)
    assert decided(1) == first
    assert decided(2) != first


def test_faults_strike_those_who_were_asked_and_have_not_answered(allocations: Allocations) -> None:
    """Red when a fault strikes before anybody is asked, or when all is answered."""
    scene = Scene(allocations)
    fault = Fault("cut", 0, 0.0)
    played(allocations, scene, faults=[fault])
    assert scene.acts == [
        "prepare 1",
        "ask ada",
        "ask bob",
        "strike 1",
        "settle ada",
        "settle bob",
    ]


def test_everybody_decides_on_the_generation_that_was_read(allocations: Allocations) -> None:
    """Red when a scheduler is asked on a generation of its own, or of another workflow."""
    account = played(allocations, Scene(allocations), rounds=2)
    endings = [told.ending for told in account.told if told.found is None]
    assert endings == ["won", "lost", "won", "lost"]
    assert [told.found for told in account.told if told.found] == [2, 2]
    assert [told.key for told in account.told if told.found] == KEYS
    assert all(told.expected == 2 for told in account.told if told.found is None)
    runs = list(allocations.runs())
    decisions = list(allocations.decisions())
    assert not [p for p in problems(account, decisions, runs, 9) if p.rule != "linearizable"]


def test_what_nobody_can_tell_is_left_and_told_as_unsettled(allocations: Allocations) -> None:
    """Red when silence counts as an answer, or is not reported."""
    account = played(allocations, Scene(allocations, silent="bob"))
    told = account.told[-1]
    assert (told.scheduler, told.ending, told.ended) == ("bob", "unsettled", None)
    assert account.unresolved == ["command drill-1-0-bob on drill-1/workflow-1"]
    assert (account.score("ada").won, account.score("bob").unsettled) == (1, 1)


def test_the_moments_are_the_scheduler_s_own_where_it_said_them(allocations: Allocations) -> None:
    """Red when the time in the launcher's queues counts as time of the command."""
    account = played(allocations, Scene(allocations))
    won, lost = account.told[1:]
    assert (lost.began, lost.ended) == (1, 2)
    assert (won.began > 2, won.ended) == (True, None)


def test_no_round_sends_a_trigger() -> None:
    """Red when a challenger is rejected without a replacement: a generate loop would start."""
    with opened() as allocations:
        played(allocations, Scene(allocations), rounds=100)
        events = [each.event for each in allocations.decisions()]
        kinds = {getattr(event, "decision", "registration") for event in events}
        assert {"registration", "split", "promotion", "replacement"} <= kinds
        assert not any(isinstance(e, ChallengerRejectedWithoutReplacement) for e in events)


@pytest.mark.parametrize(
    ("told", "ending"),
    [
        ({"refused": StoreUnavailable("away")}, "refused"),
        ({}, "unsettled"),
    ],
)
def test_an_ending_counts_once(told: dict[str, Any], ending: str) -> None:
    """Red when a refusal counts as something else."""
    account = Account()
    account.tell(Told("ada", KEYS[0], "one", 0, 0, 1, expected=1, **told))
    score = account.score("ada")
    assert {name: getattr(score, name) for name in score.__dataclass_fields__} == {
        **dict.fromkeys(["won", "lost", "unchanged", "refused", "unsettled"], 0),
        ending: 1,
    }
