"""Each promise of a drill, held against a small log in which just that one is broken."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest

import alloc_es
from alloc_es import DecisionEvent, GenerationConflict, Recorded, RunSpawned, StoreUnavailable
from alloc_es.drill.account import Account, Told, ToldRun
from alloc_es.drill.checking import problems
from alloc_es.drill.verdict import PROMISES, Problem
from alloc_es.identity import WorkflowKey
from alloc_es.rules import RULES
from alloc_es.spawning import SpawnRequest
from tests.docs.documents import ROOT

KEY = WorkflowKey.parse("drill-1", "workflow-1")
OTHER = WorkflowKey.parse("drill-1", "workflow-2")


@dataclass
class Case:
    """What was told, and the logs; a test spoils one of them."""

    account: Account
    decisions: list[Recorded[DecisionEvent]]
    runs: list[Recorded[RunSpawned]]

    def problems(self) -> list[Problem]:
        end = max(each.position for each in self.decisions)
        return list(problems(self.account, self.decisions, self.runs, end))

    def spoil(self, place: int, **others: Any) -> None:
        """Let a command have been told something else."""
        self.account.told[place] = replace(self.account.told[place], **others)

    @property
    def won(self) -> Any:
        return self.account.told[1].committed


@pytest.fixture
def case() -> Case:
    """One round: a read, ada wins, bob loses; two runs are spawned behind it."""
    account = Account()
    with alloc_es.connect("memory:", actor="drill") as allocations:
        workflow = allocations.workflow(*KEY)
        workflow.start("v1")
        workflow.register_challenger("v2", 5_000)
        account.tell(told("drill", 1, found=2))
        won = workflow.commit_allocation(
            {"v2": 1}, expected_generation=2, command_id="0-ada", actor="drill-1-ada"
        )
        account.tell(told("ada", 2, committed=won))
        with pytest.raises(GenerationConflict) as lost:
            workflow.commit_allocation({"v2": 2}, expected_generation=2, command_id="0-bob")
        account.tell(told("bob", 3, conflict=lost.value))
        requests = [SpawnRequest(*KEY, f"run-{number}") for number in (1, 2)]
        account.ask_runs(requests)
        runs = allocations.spawn_runs(requests)
        account.tell_runs([ToldRun(run, 3) for run in runs if isinstance(run, RunSpawned)])
        return Case(account, list(allocations.decisions()), list(allocations.runs()))


def told(scheduler: str, moment: int, **others: Any) -> Told:
    expected = None if "found" in others else 2
    return Told(
        scheduler, KEY, f"0-{scheduler}", 0, moment * 10, moment * 10 + 5, expected, **others
    )


def event_of(case: Case, place: int) -> DecisionEvent:
    return case.decisions[place].event


def in_place(log: list[Any], place: int, **fields: object) -> None:
    event = log[place].event.model_copy(update=fields)
    log[place] = replace(log[place], event=event)


def test_what_was_kept_is_no_problem(case: Case) -> None:
    """Red when a promise is found to be broken that was kept."""
    assert case.problems() == []


def lose_the_winner(case: Case) -> None:
    del case.decisions[2:]
    case.account.runs.clear()
    case.runs.clear()
    case.spoil(2, conflict=None, refused=StoreUnavailable("away"))


def give_the_place_to_another(case: Case) -> None:
    in_place(case.decisions, 2, command_id="0-bob", reason="another")
    case.spoil(2, conflict=None, ended=None)


def acknowledge_the_loser(case: Case) -> None:
    event = event_of(case, 2).model_copy(update={"command_id": "0-bob"})
    case.spoil(2, conflict=None, committed=replace(case.won, event=event))


def refuse_the_winner(case: Case) -> None:
    case.spoil(1, committed=None, refused=StoreUnavailable("away"))


def tell_the_winner_that_it_lost(case: Case) -> None:
    case.spoil(1, committed=None, conflict=case.account.told[2].conflict)


def name_another_winner(case: Case) -> None:
    conflict = case.account.told[2].conflict
    assert conflict
    wrong = GenerationConflict(
        KEY,
        expected=2,
        actual=3,
        winner=event_of(case, 1),
        refusal=None,
        lost_at_commit=True,
        attempts=1,
    )
    case.spoil(2, conflict=wrong)


def lose_a_run(case: Case) -> None:
    del case.runs[1]


def record_a_run_otherwise(case: Case) -> None:
    in_place(case.runs, 1, actor="drill-1-eve")


def record_a_run_twice(case: Case) -> None:
    case.runs.append(replace(case.runs[1], position=9))


def stamp_a_run_with_an_old_position(case: Case) -> None:
    in_place(case.runs, 1, decision_position=2)


def leave_something_in_doubt(case: Case) -> None:
    case.account.leave("run 7")


def read_backwards(case: Case) -> None:
    case.account.tell(Told("drill", KEY, "", 1, 100, 110, found=2))


def decide_as_a_stranger(case: Case) -> None:
    in_place(case.decisions, 2, actor="ops")
    case.account.told[1:] = []


def spawn_as_a_stranger(case: Case) -> None:
    in_place(case.runs, 1, actor="ops")
    case.account.runs.pop()


def decide_unasked(case: Case) -> None:
    case.account.told[1:] = []


def spawn_unasked(case: Case) -> None:
    case.account.asked_runs.discard("run-2")


def be_long_out_of_service(case: Case) -> None:
    case.account.outages += [4.9, 5.1]


def let_somebody_die(case: Case) -> None:
    case.account.mourn("ada, incarnation 1", 1)


def let_nobody_through(case: Case) -> None:
    del case.decisions[2:]
    del case.runs[:]
    case.account.runs.clear()
    case.spoil(1, committed=None, refused=StoreUnavailable("away"))
    case.spoil(2, conflict=None, refused=StoreUnavailable("away"))


def hear_an_old_self(case: Case) -> None:
    case.account.broken.append(("one life", "ada was let through behind its successor"))


def do_the_same_twice(case: Case) -> None:
    case.account.broken.append(("again", "command 0-ada made two generations"))


PLANTED: Sequence[tuple[Callable[[Case], None], set[str]]] = [
    (lose_the_winner, {"acknowledged", "linearizable"}),
    (give_the_place_to_another, {"acknowledged", "linearizable"}),
    (acknowledge_the_loser, {"acknowledged", "one winner", "linearizable"}),
    (refuse_the_winner, {"let through", "refused"}),
    (tell_the_winner_that_it_lost, {"let through", "refused", "linearizable"}),
    (name_another_winner, {"winner named", "linearizable"}),
    (lose_a_run, {"runs"}),
    (record_a_run_otherwise, {"runs"}),
    (record_a_run_twice, {"run_ids"}),
    (stamp_a_run_with_an_old_position, {"begun", "newest", "runs"}),
    (leave_something_in_doubt, {"settled"}),
    (read_backwards, {"linearizable"}),
    (decide_as_a_stranger, {"strangers"}),
    (spawn_as_a_stranger, {"strangers"}),
    (decide_unasked, {"asked for"}),
    (spawn_unasked, {"asked for"}),
    (be_long_out_of_service, {"back in service"}),
    (let_somebody_die, {"alive"}),
    (let_nobody_through, {"let through"}),
    (hear_an_old_self, {"one life"}),
    (do_the_same_twice, {"again"}),
]


@pytest.mark.parametrize(
    ("plant", "rules"), PLANTED, ids=lambda each: getattr(each, "__name__", "")
)
def test_what_was_not_kept_is_found(
    case: Case, plant: Callable[[Case], None], rules: set[str]
) -> None:
    """Red when a promise is not held against the logs, or another one takes its blame."""
    plant(case)
    found = case.problems()
    assert {problem.rule for problem in found} == rules
    assert all(PROMISES.get(problem.rule, problem.text) == problem.text for problem in found)


def test_every_promise_and_every_rule_is_described() -> None:
    """Red when a promise, or a rule of the logs, has other words than `promises.md`."""
    text = (ROOT / "docs" / "explanation" / "promises.md").read_text()
    described = [*PROMISES.items(), *RULES.items()]
    assert [name for name, words in described if f"| {name} | {words} |" not in text] == []


def test_every_promise_has_a_planted_violation() -> None:
    """Red when a promise is added that no test shows to be held."""
    assert set().union(*(rules for _, rules in PLANTED)) >= set(PROMISES)
