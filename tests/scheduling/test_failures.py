"""A workflow that fails is a result of its own: its siblings go on, and nothing is recorded."""

import asyncio
import json
import pickle
from threading import Lock
from typing import Any, cast

import pytest

from alloc_es import Allocation, InvalidSetting, UnreadableEvent, WorkflowKey
from alloc_es.scheduling import (
    Failure,
    Hold,
    PassResult,
    Promote,
    Register,
    Reject,
    Reshare,
    decide_pass,
)
from tests.scheduling.passes import (
    Conductor,
    challenge,
    hold,
    outcomes,
    plain,
    repeatable,
    started,
    told,
)
from tests.support.raw import DECISIONS, raw

NAMES = [str(number) for number in range(1, 9)]

WRONG: Any = 0.05
NO_PROPOSALS = (None, "Hold", Hold, ("v2", 500), {"register": "v2"})
INVALID: dict[str, list[Any]] = {
    "InvalidIdentifier": [Register(" v2"), Promote(""), Reject("v2", ""), Hold("\0"), Hold(WRONG)],
    "InvalidSplit": [Register("v2", WRONG), Reshare({}), Reshare({"v2": -1}), Reshare(WRONG)],
    "NoSuchChallenger": [Promote("v9"), Reject("v9"), Reshare({"v9": 100})],
    "AlreadyCurrent": [Register("v1")],
}


def decide(url: str, policy: Any, names: list[str], **more: Any) -> tuple[Any, Any]:
    with repeatable(url) as allocations:
        keys = started(allocations, names)
        before = allocations.position()
        report = decide_pass(allocations, keys, policy, **more)
        return report, told(allocations, before)


def test_an_exception_fails_its_workflow_and_the_rest_goes_on_in_order(store_url: str) -> None:
    """Red when one failure cancels its siblings, or a failed one is taken out of the results."""
    conductor = Conductor(NAMES, 8, 7, plain)
    report, decided = decide(store_url, conductor, NAMES, concurrency=8)
    failed, refused, *_ = report.results
    assert outcomes(report) == [
        *["failed"] * 2,
        *["decided"] * 2,
        "held",
        *["failed"] * 2,
        "decided",
    ]
    assert decided == [("3", "registered v3"), ("4", "registered v4"), ("8", "registered v3")]
    assert failed.failure == Failure(
        WorkflowKey.parse("acme", "1"), "LookupError", "no evidence on 1"
    )
    assert isinstance(failed.failure.error, LookupError)
    assert (failed.proposal, failed.seen, failed.generation, failed.asked) == (None, 1, 1, 1)
    assert refused.failure.error_type == "NoSuchChallenger"
    assert refused.failure.error.live == ()
    assert (refused.proposal, refused.event) == (Promote("v9"), None)


@pytest.mark.parametrize("answer", NO_PROPOSALS, ids=str)
def test_an_answer_that_is_no_proposal_fails_its_workflow(answer: object) -> None:
    """Red when None is taken for a hold."""
    report, decided = decide("memory:", lambda _: answer, ["1"])
    (result,) = report.results
    assert (result.failure.error_type, result.proposal, decided) == ("InvalidSetting", None, [])
    assert "is no Proposal" in result.failure.message


@pytest.mark.parametrize("kind", INVALID)
@pytest.mark.parametrize("dry_run", [False, True])
def test_a_proposal_that_can_not_be_fails_its_workflow(kind: str, dry_run: bool) -> None:
    """Red when a proposal is trusted, or a dry run asks the rules nothing."""
    proposals = INVALID[kind]
    names = [str(number) for number in range(len(proposals))]
    report, decided = decide(
        "memory:", lambda state: proposals[int(state.workflow_id)], names, dry_run=dry_run
    )
    assert [result.failure.error_type for result in report.results] == [kind] * len(names)
    assert [result.proposal for result in report.results] == proposals
    assert decided == []


async def cancels_itself(_: Allocation) -> Hold:
    raise asyncio.CancelledError("the judge hung up")


async def is_cancelled(_: Allocation) -> Hold:
    task = asyncio.current_task()
    assert task
    task.cancel()
    await asyncio.sleep(0)
    return Hold()


def cancels_in_a_thread(_: Allocation) -> Hold:
    raise asyncio.CancelledError


def exhausts(_: Allocation) -> Hold:
    return next(iter([]))


class Speechless(Exception):
    def __str__(self) -> str:
        raise ValueError("no words")


def is_speechless(_: Allocation) -> Hold:
    raise Speechless


@pytest.mark.parametrize(
    ("mistake", "kind", "message"),
    [
        (cancels_itself, "CancelledError", "the judge hung up"),
        (is_cancelled, "CancelledError", ""),
        (cancels_in_a_thread, "CancelledError", ""),
        (exhausts, "RuntimeError", "the policy raised StopIteration"),
        (is_speechless, "Speechless", "it has no message: ValueError"),
    ],
)
def test_whatever_a_policy_raises_is_the_failure_of_its_workflow(
    mistake: Any, kind: str, message: str
) -> None:
    """Red when a policy's own cancellation is taken for the pass's."""

    def policy(state: Allocation) -> Any:
        return mistake(state) if state.workflow_id == "2" else challenge(state)

    report, decided = decide("memory:", policy, ["1", "2", "3"], concurrency=3)
    assert outcomes(report) == ["decided", "failed", "decided"]
    failure = report.results[1].failure
    assert (failure.error_type, failure.message) == (kind, message)
    assert [name for name, _ in decided] == ["1", "3"]


def test_an_event_that_can_not_be_read_fails_its_workflow(durable_url: str) -> None:
    """Red when one unreadable stream ends the pass, or its workflow is asked about."""
    asked: list[str] = []

    def policy(state: Allocation) -> Register:
        asked.append(state.workflow_id)
        return Register("v2")

    with repeatable(durable_url) as allocations, raw(durable_url) as database:
        keys = started(allocations, ["1", "2", "3"])
        (row,) = (row for row in database.rows(DECISIONS) if row[1] == "allocation/acme/2")
        fields = json.loads(row[4]) | {"schema_version": 99, "command_id": "from-the-future"}
        database.insert(DECISIONS, (row[1], 2, row[3], json.dumps(fields).encode()))
        report = decide_pass(allocations, keys, policy, concurrency=3)
    assert outcomes(report) == ["decided", "failed", "decided"]
    result = report.results[1]
    assert isinstance(result.failure and result.failure.error, UnreadableEvent)
    assert (result.asked, result.seen, sorted(asked)) == (0, None, ["1", "3"])


def test_a_goal_of_a_workflow_that_can_not_be_told_fails_it() -> None:
    """Red when what `reached` raises ends the pass."""

    def reached(state: Allocation) -> bool:
        return {"1": True, "3": False}[state.workflow_id]

    report, decided = decide("memory:", challenge, ["1", "2", "3"], reached=reached)
    assert outcomes(report) == ["skipped", "failed", "decided"]
    assert report.results[1].failure.error_type == "KeyError"
    assert [name for name, _ in decided] == ["3"]


def test_a_failure_survives_pickling_whatever_its_error_is() -> None:
    """Red when an error that pickle refuses takes the report with it."""
    report, _ = decide("memory:", hold, ["1"])
    plain_one = Failure.of(report.results[0].key, ValueError("as it is"))
    locked = ValueError("with a lock")
    locked.lock = Lock()  # type: ignore[attr-defined]
    for failure, kept in ((plain_one, True), (Failure.of(plain_one.key, locked), False)):
        result = PassResult(failure.key, "failed", failure=failure)
        found = pickle.loads(pickle.dumps(result))
        assert found == result
        assert (found.failure.error is not None) == kept


def test_no_proposal_is_told_how_to_hold() -> None:
    report, _ = decide("memory:", lambda _: None, ["1"])
    assert isinstance(report.results[0].failure.error, InvalidSetting)
    assert "Hold()" in report.results[0].failure.message


class Evil:
    """What a policy may hand out by mistake: nothing can be asked of it."""

    def __repr__(self) -> str:
        raise RuntimeError("no words for it")

    def items(self) -> Any:
        raise RuntimeError("no shares in it")


@pytest.mark.parametrize(
    "answer", [Evil(), Register(cast(Any, Evil())), Reshare(cast(Any, Evil()))]
)
def test_a_proposal_that_breaks_when_it_is_read_fails_its_workflow_only(answer: Any) -> None:
    """Red when only our own errors are expected of a proposal that is made of others' code."""
    report, _ = decide(
        "memory:", lambda seen: answer if seen.workflow_id == "1" else Hold(), ["1", "2"]
    )
    assert outcomes(report) == ["failed", "held"]
    assert report.results[0].failure.key.workflow_id == "1"
