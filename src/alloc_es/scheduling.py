"""Decide passes: a policy is asked about many workflows, and what it proposes is committed."""

import asyncio
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias, TypeVar

from alloc_es.app import Allocations
from alloc_es.arguments import is_async, parse_count
from alloc_es.asking import run_pass
from alloc_es.errors import InvalidSetting
from alloc_es.identity import WorkflowKey, parse_identifier
from alloc_es.pass_results import Failure, Goal, PassReport, PassResult
from alloc_es.proposals import Hold, Policy, Promote, Proposal, Register, Reject, Reshare
from alloc_es.waves import MOST_AT_ONCE, OnResult, Pass, Plan, Reached
from alloc_es.wording import shown

__all__ = [
    "Failure",
    "Goal",
    "Hold",
    "PassReport",
    "PassResult",
    "Promote",
    "Proposal",
    "Register",
    "Reject",
    "Reshare",
    "adecide_pass",
    "decide_pass",
]

T = TypeVar("T", bound=Callable[..., Any])

Key: TypeAlias = WorkflowKey | tuple[str, str]

_MOST_ASKS = 1_000


def decide_pass(
    allocations: Allocations,
    keys: Iterable[Key],
    policy: Policy,
    *,
    concurrency: int = 1,
    reached: Reached | None = None,
    goal: Goal | None = None,
    actor: str | None = None,
    max_asks: int = 5,
    dry_run: bool = False,
    on_result: OnResult | None = None,
) -> PassReport:
    """Ask a policy what to do with each of these workflows, and commit what it proposes.

    The workflows are taken in waves of `concurrency` (1 to 1,000), in the order given. At a
    wave's start its newest allocations are read, in one statement. The policy is asked about
    each of them at the same time: an async one in tasks of one event loop, another one in
    a thread for each. When all have answered, their proposals are committed one after the
    other *in the order given*, each on the generation that its answer is based on. So where
    a policy looks at its own workflow only, the results and the log are the same for any
    `concurrency`; what it reads of others was decided before its wave.

    An error of the policy, and a refusal of the rules, fails that workflow only, and nothing
    of it is recorded. Where another scheduler came first, the policy is asked again on what
    that one decided, up to `max_asks` times in all. A policy may not decide by itself:
    `DecisionInsidePolicy`.

    A workflow whose allocation has `reached` its goal is skipped. With a `goal` the pass ends
    when it has enough. Both are looked at when a wave is assembled, so a wave that runs comes
    to its end. `on_result` is called with each result as soon as it and those before it are
    settled. With `dry_run` nothing is recorded, and `event` is what would be, but for its
    `previous_digest`, which it gets as it is recorded.

    A cancellation, Ctrl-C, and whatever else is no `Exception` end the pass at once: no
    thread of a policy is waited for, a commit that is under way is finished, and no other is
    begun. Each decision is *atomic*, the pass is not.

    Raises, before a policy is asked: `InvalidSetting`, `InvalidIdentifier`, and
    `UnknownWorkflow`, which names all that were never started. Raises `PassStopped`, with the
    report so far, where the store is unavailable, leaves an outcome unknown, or refuses this
    connection's incarnation. In a running event loop use `adecide_pass`.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        pass
    else:
        problem = "it would block the event loop that runs here; await adecide_pass(…) instead"
        raise InvalidSetting("decide_pass", problem)
    return run_pass(
        adecide_pass(
            allocations,
            keys,
            policy,
            concurrency=concurrency,
            reached=reached,
            goal=goal,
            actor=actor,
            max_asks=max_asks,
            dry_run=dry_run,
            on_result=on_result,
        )
    )


async def adecide_pass(
    allocations: Allocations,
    keys: Iterable[Key],
    policy: Policy,
    *,
    concurrency: int = 1,
    reached: Reached | None = None,
    goal: Goal | None = None,
    actor: str | None = None,
    max_asks: int = 5,
    dry_run: bool = False,
    on_result: OnResult | None = None,
) -> PassReport:
    """`decide_pass` in an event loop, which is never blocked: async policies are its tasks.

    `reached`, `goal` and `on_result` are called in the loop.
    """
    plan = Plan(
        policy=_callable("policy", policy),
        concurrency=parse_count("concurrency", concurrency, MOST_AT_ONCE),
        reached=None if reached is None else _plain("reached", reached),
        goal=goal,
        actor=None if actor is None else parse_identifier("actor", actor),
        max_asks=parse_count("max_asks", max_asks, _MOST_ASKS),
        dry_run=dry_run,
        on_result=None if on_result is None else _plain("on_result", on_result),
    )
    if not (goal is None or isinstance(goal, Goal)):
        raise InvalidSetting("goal", f"{shown(goal)} is no Goal")
    return await Pass(allocations._ledger, _parse_keys(keys), plan).run()


def _parse_keys(keys: object) -> list[WorkflowKey]:
    if isinstance(keys, str) or not isinstance(keys, Iterable):
        raise InvalidSetting("keys", f"{shown(keys)} holds no keys; give a list of them")
    places: dict[WorkflowKey, int] = {}
    for place, given in enumerate(keys):
        if not isinstance(given, tuple) or len(given) != 2:
            problem = f"item {place}, {shown(given)}, is no pair of tenant and workflow"
            raise InvalidSetting("keys", problem)
        key = WorkflowKey.parse(*given)
        if key in places:
            problem = f"{key} is given twice, as items {places[key]} and {place}"
            raise InvalidSetting("keys", problem)
        places[key] = place
    return list(places)


def _plain(setting: str, value: T) -> T:
    """What is called by the pass itself: nobody would await what an async one returns."""
    if is_async(value):
        raise InvalidSetting(setting, f"{shown(value)} is async; only a policy may be")
    return _callable(setting, value)


def _callable(setting: str, value: T) -> T:
    if not callable(value):
        raise InvalidSetting(setting, f"{shown(value)} can't be called")
    return value
