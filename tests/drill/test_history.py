"""The check of a history: the same verdict as trying every order, and a witness that helps."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alloc_es import WorkflowKey
from alloc_es.drill.history import Op, Violation, violations
from tests.drill.brute import is_linearizable

KEY = WorkflowKey.parse("acme", "triage")
OTHER = WorkflowKey.parse("acme", "draft")


def read(began: float, ended: float, found: int, process: str = "reader") -> Op:
    return Op(process=process, key=KEY, kind="read", began=began, ended=ended, found=found)


def cas(command_id: str, began: float, ended: float | None, **told: Any) -> Op:
    """A command of a process of the same name; unknown where it was told nothing."""
    outcome = "ok" if "made" in told else "lost" if "found" in told else "unknown"
    facts = {"outcome": outcome, **told}
    return Op(
        process=command_id,
        key=KEY,
        kind="cas",
        began=began,
        ended=ended,
        command_id=command_id,
        **facts,
    )


def check(ops: Sequence[Op], *log: str) -> list[Violation]:
    return list(violations(ops, {KEY: log}))


def require_witness(ops: Sequence[Op], log: Sequence[str], witness: Sequence[Op], why: str) -> None:
    (found,) = check(ops, *log)
    assert (found.key, found.ops) == (KEY, tuple(witness))
    assert why in found.why
    assert all(op.process in str(found) for op in witness)


FIRST = cas("a", 1, 2, expected=0, made=1)
SECOND = cas("b", 3, 4, expected=1, made=2)
BEHIND = "the first ended before the second began, and the log places it behind that"


def test_what_happened_one_by_one_is_no_violation() -> None:
    """Red when an operation must come strictly inside of another's time."""
    lost = cas("c", 5, 6, expected=1, found=2, winner="b")
    assert check([FIRST, read(2, 3, 1), SECOND, lost, read(6, 7, 2)], "a", "b") == []
    assert check([FIRST, SECOND, read(4, 5, 1)], "a", "b") == []
    assert list(violations([], {})) == []


def test_operations_at_one_time_may_come_in_any_order() -> None:
    """Red when the order in which operations began is taken for theirs."""
    ops = [cas("b", 1, 9, made=2), cas("a", 2, 8, made=1), read(3, 4, 2), read(3, 4, 0)]
    assert check(ops, "a", "b") == []


def test_a_stale_read_after_an_acknowledged_write_is_found() -> None:
    """Red when a read may be placed before what had ended when it began."""
    stale = read(5, 6, 1)
    require_witness([FIRST, SECOND, stale], ["a", "b"], [SECOND, stale], BEHIND)


def test_a_stale_read_after_another_read_is_found() -> None:
    """Red when only writes hold reads back."""
    fresh, stale = read(3, 4, 2, "one"), read(5, 6, 1, "other")
    ops = [FIRST, cas("b", 3, 9, made=2), fresh, stale]
    require_witness(ops, ["a", "b"], [fresh, stale], BEHIND)


def test_a_write_that_was_seen_before_it_began_is_found() -> None:
    """Red when a read is not held to the beginning of the write that it saw."""
    early = read(1, 2, 2)
    require_witness([FIRST, SECOND, early], ["a", "b"], [early, SECOND], BEHIND)


def test_a_lost_command_is_a_read_of_what_it_was_told() -> None:
    """Red when commands that lost are left out."""
    lost = cas("c", 5, 6, expected=0, found=1, winner="a")
    require_witness([FIRST, SECOND, lost], ["a", "b"], [SECOND, lost], BEHIND)


def test_writes_in_another_order_than_that_of_time_are_found() -> None:
    """Red when only reads are placed."""
    late = cas("a", 5, 6, made=1)
    require_witness([late, SECOND], ["a", "b"], [SECOND, late], BEHIND)


def test_two_winners_of_one_generation_are_found() -> None:
    """Red when a command is believed that the log does not hold."""
    twin = cas("b", 1, 2, expected=0, made=1)
    why = "it was acknowledged, and the log does not hold it"
    require_witness([FIRST, twin], ["a"], [twin, FIRST], why)


@pytest.mark.parametrize(
    ("op", "log", "why"),
    [
        (cas("a", 1, 2, made=1), [], "it was acknowledged, and the log does not hold it"),
        (cas("a", 1, 2, made=1), ["b", "a"], "the log holds it as generation 2"),
        (
            cas("a", 1, 2, expected=0, made=2),
            ["b", "a"],
            "it expected generation 0, and the log holds it as 2",
        ),
        (
            cas("a", 1, None, expected=0),
            ["b", "a"],
            "it expected generation 0, and the log holds it as 2",
        ),
        (
            cas("a", 1, 2, expected=0, found=1),
            ["b", "a"],
            "it was told that it lost, and the log holds it as generation 2",
        ),
        (cas("a", 1, 2, expected=1, found=1), ["b"], "what it found is what it expected"),
        (
            cas("a", 1, 2, expected=0, found=2, winner="c"),
            ["b", "d"],
            "the log holds another winner than c",
        ),
        (cas("a", 1, 2, expected=0, found=2), ["b"], "the log ends at 1"),
        (read(1, 2, 2), ["b"], "it found a generation, and the log ends at 1"),
    ],
)
def test_what_contradicts_the_log_is_found(op: Op, log: list[str], why: str) -> None:
    """Red when an operation is not held against the log: a lost update, a wrong winner."""
    require_witness([op], log, [op], why)


def test_a_command_id_that_the_log_holds_twice_is_found() -> None:
    """Red when one of its places is believed."""
    found = check([read(1, 2, 2)], "a", "a")
    assert [each.why for each in found] == ["the log holds a command id twice"]


def test_an_unknown_command_took_effect_at_any_time_after_it_began_or_never() -> None:
    """Red when the end of an unanswered call ends its effect, or what is not in the log counts."""
    late = [cas("a", 1, 2, expected=0), read(3, 4, 0), read(5, 6, 1)]
    assert check(late, "a") == []
    assert check([cas("a", 1, 2, expected=0), read(3, 4, 0)]) == []
    early = read(0, 0.5, 1)
    require_witness([late[0], early], ["a"], [early, late[0]], BEHIND)


def test_a_command_that_was_sent_again_is_one_write() -> None:
    """Red when the write begins with the last time that it was sent, or ends with it."""
    again = cas("a", 5, 6, expected=0, made=1)
    once_more = cas("a", 8, 9, expected=0, made=1)
    sent = [cas("a", 1, 2, expected=0), again, once_more]
    assert check([*sent, read(3, 4, 1)], "a") == []
    stale = read(7, 8, 0)
    require_witness([*sent, stale], ["a"], [again, stale], BEHIND)


def test_workflows_are_looked_at_one_by_one() -> None:
    """Red when the operations on one workflow are held against another's log."""
    other = replace(SECOND, key=OTHER, expected=0, made=1)
    stale = replace(read(9, 10, 0), key=OTHER)
    found = list(violations([FIRST, other, stale], {KEY: ["a"], OTHER: ["b"]}))
    assert [(each.key, each.ops) for each in found] == [(OTHER, (other, stale))]


# Of an operation before and after its effect, of which there is one a second.
SPANS = (0, 0, 0.4, 0.5, 1, 2)


def random_history(random: Random) -> tuple[list[Op], list[str]]:
    """Up to six operations that did happen in some order; maybe then changed, or the log."""
    log: list[str] = []
    ops: list[Op] = []
    for number in range(random.randint(1, 6)):
        if random.random() < 0.15:
            log.append(f"stranger-{number}")
        began, ended = number - random.choice(SPANS), number + random.choice(SPANS)
        ops.append(happened(random, f"c{number}", began, ended, log))
    for _ in range(random.choice([0, 1, 2, 2, 3])):
        index = random.randrange(len(ops))
        ops[index] = changed(random, ops[index])
    if random.random() < 0.1 and len(log) > 1:
        log[-1], log[-2] = log[-2], log[-1]
    return ops, log


def happened(random: Random, name: str, began: float, ended: float, log: list[str]) -> Op:
    """An operation that takes effect now, or does not."""
    state = len(log)
    expected = random.choice([None, state])
    match random.randrange(6):
        case 0 | 1:
            return read(began, ended, state, name)
        case 2:
            return cas(name, began, ended, expected=state + random.choice([-1, 1]), found=state)
        case 3:
            if random.random() < 0.5:
                log.append(name)
            return cas(name, began, random.choice([None, ended]), expected=expected)
        case _:
            log.append(name)
            return cas(name, began, ended, expected=expected, made=state + 1)


def changed(random: Random, op: Op) -> Op:
    """The same with one fact changed."""
    one = random.choice([-2, -1, 1, 2])
    changes: list[dict[str, Any]] = [{"began": op.began - 2}]
    if op.ended is not None:
        changes += [{"began": op.began + each, "ended": op.ended + each} for each in (-4, -2, 2, 4)]
    for name in ("expected", "found", "made"):
        value = getattr(op, name)
        changes += [{name: value + one}] if value is not None else []
    if op.kind == "cas":
        changes += [{"command_id": "another"}, {"outcome": "unknown", "made": None}]
    if op.made is not None:
        changes.append({"outcome": "lost", "made": None, "found": op.made})
    return replace(op, **random.choice(changes))


@settings(max_examples=600)
@given(st.randoms(use_true_random=True))
def test_the_verdict_is_that_of_trying_every_order(random: Random) -> None:
    """Red when any rule of the check is left out, or asks for more than linearizability."""
    ops, log = random_history(random)
    assert (check(ops, *log) == []) is is_linearizable(ops, log)


def test_random_histories_are_of_both_kinds_and_every_reason_is_met() -> None:
    """Red when nearly all of the histories above are right, or wrong for one reason."""
    random = Random(1)
    verdicts: Counter[str] = Counter()
    for _ in range(400):
        ops, log = random_history(random)
        found = check(ops, *log)
        assert (found == []) is is_linearizable(ops, log)
        verdicts[found[0].why if found else "right"] += 1
    assert 150 < verdicts["right"] < 300
    assert verdicts[BEHIND] > 40
    assert len(verdicts) > 6
