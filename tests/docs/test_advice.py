"""The loops that the guides advise keep an unknown outcome until it is settled."""

import ast
from collections.abc import Callable, Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

import alloc_es
from alloc_es import OutcomeUnknown, StoreUnavailable, WorkflowKey
from tests.docs.documents import ROOT, blocks

KEY = WorkflowKey.parse("acme", "triage")
UNKNOWN = OutcomeUnknown(KEY, "the answer was lost", run_id="run-1")
LATER = StoreUnavailable("the server is down")
NEVER = StoreUnavailable("the password is wrong", retryable=False)
DONE = "recorded"


def advised(page: str, name: str, **names: object) -> Callable[..., Any]:
    """A function that a guide shows, with its names bound to others, and no pauses."""
    path = ROOT / "docs" / "how-to" / page
    (function,) = (
        node
        for block in blocks(path)
        if block.language == "python"
        for node in ast.parse(block.text).body
        if isinstance(node, ast.FunctionDef) and node.name == name
    )
    namespace = {"alloc_es": alloc_es, "time": SimpleNamespace(sleep=lambda _: None), **names}
    exec(compile(ast.Module([function], []), path, "exec"), namespace)
    found = namespace[name]
    assert callable(found)
    return found


@pytest.mark.parametrize(
    ("answers", "settled"),
    [
        ([DONE], DONE),
        ([LATER, DONE], DONE),
        ([UNKNOWN, DONE], DONE),
        ([UNKNOWN, LATER, DONE], DONE),
        ([UNKNOWN, LATER, LATER, LATER], UNKNOWN),
        ([UNKNOWN, NEVER, NEVER, NEVER], UNKNOWN),
        ([LATER, UNKNOWN, LATER, LATER], UNKNOWN),
        ([LATER, LATER, LATER, LATER], LATER),
        ([NEVER], NEVER),
    ],
)
def test_settle_keeps_an_unknown_outcome_until_it_is_settled(
    answers: Sequence[object], settled: object
) -> None:
    """Red when "not recorded by this call" takes the place of "unknown", or ends the asking."""
    given = iter(answers)
    allocations = SimpleNamespace(spawn_runs=lambda requests: [next(given) for _ in requests])
    settle = advised("spawn-many-runs.md", "settle", allocations=allocations)
    assert settle(["run-1"], tries=3) == [settled]
    assert list(given) == []


@pytest.mark.parametrize(
    ("answers", "raised"),
    [
        ([LATER, UNKNOWN, DONE], None),
        ([UNKNOWN, LATER, DONE], None),
        ([UNKNOWN, LATER, LATER], UNKNOWN),
        ([UNKNOWN, NEVER], UNKNOWN),
        ([LATER, LATER, UNKNOWN], UNKNOWN),
        ([LATER, LATER, LATER], LATER),
        ([NEVER], NEVER),
    ],
)
def test_insist_raises_an_unknown_outcome_that_is_not_settled(
    answers: Sequence[object], raised: Exception | None
) -> None:
    """Red when the last error is raised though an earlier one left the outcome open."""
    insist = advised("retry-safely.md", "insist")
    given = iter(answers)
    if raised is None:
        assert insist(lambda: answer(given), tries=3) == DONE
    else:
        with pytest.raises(type(raised)) as found:
            insist(lambda: answer(given), tries=3)
        assert found.value is raised
    assert list(given) == []


def answer(given: Iterator[object]) -> object:
    """Give the next one, or raise it."""
    following = next(given)
    if isinstance(following, Exception):
        raise following
    return following
