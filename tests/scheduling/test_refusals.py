"""What can't be a pass is refused before anything is read, or before a policy is asked."""

import asyncio
from typing import Any

import pytest

from alloc_es import InvalidIdentifier, InvalidSetting, StoreUnavailable, UnknownWorkflow
from alloc_es.scheduler_errors import PassStopped
from alloc_es.scheduling import Goal, PassReport, adecide_pass, decide_pass
from tests.scheduling.passes import hold, repeatable, started
from tests.support.recorders import READS, WRITES, before_each

A, B = ("acme", "a"), ("acme", "b")


class Async:
    """A function that would have to be awaited, with the same words in every process."""

    async def __call__(self, *_: object) -> bool:
        return True

    def __repr__(self) -> str:
        return "nobody_awaits"


nobody_awaits = Async()


def never(*_: object) -> Any:
    raise AssertionError("nobody is to be asked")


@pytest.mark.parametrize(
    ("change", "kind", "words"),
    [
        ({"concurrency": 0}, InvalidSetting, "concurrency: 0 is not within 1..1000"),
        ({"concurrency": 1001}, InvalidSetting, "concurrency: 1001 is not within"),
        ({"concurrency": True}, InvalidSetting, "concurrency: True is not an integer"),
        ({"max_asks": 0}, InvalidSetting, "max_asks: 0 is not within"),
        ({"policy": "hold"}, InvalidSetting, "policy: 'hold' can't be called"),
        ({"reached": 7}, InvalidSetting, "reached: 7 can't be called"),
        ({"on_result": 7}, InvalidSetting, "on_result: 7 can't be called"),
        ({"reached": nobody_awaits}, InvalidSetting, "is async; only a policy may be"),
        ({"on_result": nobody_awaits}, InvalidSetting, "is async; only a policy may be"),
        ({"goal": 7}, InvalidSetting, "goal: 7 is no Goal"),
        ({"actor": " "}, InvalidIdentifier, "can't be an actor"),
        ({"keys": [A, B, A]}, InvalidSetting, "keys: acme/a is given twice, as items 0 and 2"),
        ({"keys": [A, "ab"]}, InvalidSetting, "item 1, 'ab', is no pair of tenant and workflow"),
        ({"keys": [("acme",)]}, InvalidSetting, "item 0, ('acme',), is no pair"),
        ({"keys": [("acme", "")]}, InvalidIdentifier, "workflow id"),
        ({"keys": "acme"}, InvalidSetting, "keys: 'acme' holds no keys"),
        ({"keys": None}, InvalidSetting, "keys: None holds no keys"),
    ],
    ids=str,
)
def test_what_can_not_be_is_refused_before_anything_is_read(
    monkeypatch: pytest.MonkeyPatch, change: dict[str, Any], kind: type[Exception], words: str
) -> None:
    """Red when an argument is looked at behind the first read, or an async one is called by
    nobody who awaits it.
    """
    with repeatable("memory:") as allocations:
        started(allocations, ["a", "b"])
        before_each(monkeypatch, (*READS, *WRITES), never)
        given: dict[str, Any] = {"keys": [A, B], "policy": hold, **change}
        with pytest.raises(kind) as refusal:
            decide_pass(allocations, given.pop("keys"), given.pop("policy"), **given)
    assert words in str(refusal.value)


@pytest.mark.parametrize(
    "wrong",
    [{"count": 0}, {"count": 1.0}, {"every": 0}, {"counts": "decided"}, {"counts": nobody_awaits}],
    ids=str,
)
def test_a_goal_that_can_not_be_is_refused(wrong: dict[str, Any]) -> None:
    """Red when a goal of nothing ends every pass before it began."""
    with pytest.raises(InvalidSetting):
        Goal(**{"count": 1, "counts": bool, **wrong})


def test_unknown_workflows_are_all_named_before_a_policy_is_asked(store_url: str) -> None:
    """Red when the first unknown workflow is met in the wave that it is in."""
    names = [f"w{number:04}" for number in range(1_300)]
    with repeatable(store_url) as allocations:
        started(allocations, names[:2])
        for asked in (names[:3], names[:5], names):
            with pytest.raises(UnknownWorkflow) as refusal:
                decide_pass(allocations, [("acme", name) for name in asked], never)
            unknown = (refusal.value.key, *refusal.value.also)
            assert [key.workflow_id for key in unknown] == asked[2:]
            words = str(refusal.value)
    assert "acme/w0010, acme/w0011 and 1,288 more were never started; start each" in words


def test_in_an_event_loop_the_other_one_is_named() -> None:
    """Red when a loop is blocked, or its owner is told of `asyncio.run`."""

    async def main() -> None:
        with repeatable("memory:") as allocations:
            decide_pass(allocations, [], hold)

    with pytest.raises(InvalidSetting, match="await adecide_pass"):
        asyncio.run(main())


def test_nothing_to_do_is_no_wave() -> None:
    with repeatable("memory:") as allocations:
        assert decide_pass(allocations, [], never) == PassReport((), 0, False)


def test_a_closed_connection_stops_the_pass_at_once() -> None:
    """Red when a pass reads past what every other call of a connection checks."""
    with repeatable("memory:") as allocations:
        keys = started(allocations, ["a"])
    with pytest.raises(PassStopped) as stopped:
        asyncio.run(adecide_pass(allocations, keys, never))
    assert isinstance(stopped.value.error, StoreUnavailable)
    assert stopped.value.report.counts["not run"] == 1
