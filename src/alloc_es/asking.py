"""Asking a policy about many workflows at once, so that no answer is ever waited for in vain."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from inspect import isawaitable
from threading import Thread
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

from alloc_es.allocation import Allocation
from alloc_es.arguments import is_async
from alloc_es.committing import ASKED_FOR, Asking
from alloc_es.proposals import Policy

T = TypeVar("T")

Found: TypeAlias = Allocation | Exception
"""The snapshot of a workflow, or why there is none to ask about."""

Answer: TypeAlias = object | BaseException
"""What a policy returned, or what it raised."""


class Outcome(NamedTuple, Generic[T]):
    """What a call returned, or the `error` that it raised.

    A value, because a future raises no `StopIteration`, and an event loop ends at a
    `KeyboardInterrupt`.
    """

    value: T | None
    error: BaseException | None


class Fatal(Exception):
    """A policy raised what is no `Exception`, which ends the pass: the `error`."""

    def __init__(self, error: BaseException) -> None:
        self.error = error
        super().__init__(error)


def in_thread(call: Callable[[], T]) -> "asyncio.Future[Outcome[T]]":
    """Make a call in a daemon thread of its own, in a copy of this context.

    Those of the loop's executor are waited for when the loop or the interpreter ends, which
    may be as long as a judge thinks. And this is no task: who cancels all tasks does not
    cancel it.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Outcome[T]] = loop.create_future()
    context = copy_context()

    def settle(outcome: Outcome[T]) -> None:
        if not future.done():
            future.set_result(outcome)

    def run() -> None:
        try:
            outcome = Outcome(context.run(call), None)
        except BaseException as error:  # noqa: BLE001 - whoever waits judges it
            outcome = Outcome(None, error)
        # A loop that was closed has nobody left who waits.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(settle, outcome)

    Thread(target=run, name="alloc-es pass", daemon=True).start()
    return future


class Unawaited(ThreadPoolExecutor):
    """What an event loop of a pass hands a policy's blocking calls to: nobody waits for them.

    The loop's own executor would be joined when the loop ends, and by the interpreter.
    """

    def submit(self, call: Callable[..., T], /, *args: Any, **keywords: Any) -> Future[T]:
        """Make a call in a daemon thread of its own."""
        future: Future[T] = Future()

        def run() -> None:
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(call(*args, **keywords))
                except BaseException as error:  # noqa: BLE001 - whoever waits judges it
                    future.set_exception(error)

        Thread(target=run, name="alloc-es pass", daemon=True).start()
        return future


def run_pass(passing: Coroutine[Any, Any, T]) -> T:
    """`asyncio.run` that waits for no thread of a policy's when it ends."""
    with asyncio.Runner() as runner:
        runner.get_loop().set_default_executor(Unawaited())
        return runner.run(passing)


async def ask_all(policy: Policy, founds: Sequence[Found]) -> list[Answer]:
    """What a policy answers about each snapshot, in their order, once it has about all.

    They are asked at the same time: what the policy does in an event loop as tasks, the
    rest in a thread for each. Where there is no snapshot the reason is the answer. Raises
    what the policy raised and is no `Exception`, and then waits for no thread.
    """
    tasks = [asyncio.create_task(_ask(policy, found)) for found in founds]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
    finally:
        fatal = await _end(tasks)
    if fatal:
        raise fatal[0]
    return [asyncio.CancelledError() if task.cancelled() else task.result() for task in tasks]


async def _ask(policy: Policy, found: Found) -> Answer:
    if isinstance(found, Exception):
        return found
    # A task has a context of its own, so it is set for nobody else but what the policy starts,
    # which may go on behind its answer. A policy that nobody waits for any more still may not.
    asking = Asking(found.key)
    ASKED_FOR.set(asking)
    try:
        answer: object = await _call(policy, found)
        answer = await answer if isawaitable(answer) else answer
        asking.over = True
        return answer
    except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - it is the answer
        # A cancellation is the policy's own, or comes when nobody waits for an answer.
        asking.over = not isinstance(error, asyncio.CancelledError)
        return error
    except BaseException as error:
        error.add_note(f"the policy was asked for {found.key}")
        raise Fatal(error) from error


async def _call(policy: Policy, state: Allocation) -> object:
    if is_async(policy):
        return policy(state)
    value, error = await in_thread(partial(policy, state))
    if isinstance(error, StopIteration):
        # Which a coroutine can't raise.
        raise RuntimeError("the policy raised StopIteration") from error
    if error is not None:
        raise error
    return value


async def _end(tasks: "Sequence[asyncio.Task[Answer]]") -> list[BaseException]:
    """Cancel those that are left and let them end; what the policy raised that ends the pass."""
    left = [task for task in tasks if not task.done()]
    for task in left:
        task.cancel()
    if left:
        await asyncio.wait(left)
    errors = (task.exception() for task in tasks if not task.cancelled())
    return [error.error for error in errors if isinstance(error, Fatal)]
