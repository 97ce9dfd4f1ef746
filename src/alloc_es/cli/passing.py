"""`decide`: a pass over many workflows, by a policy of the user's."""

import asyncio
import signal
import threading
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Annotated, Any

import typer

from alloc_es.app import Allocations
from alloc_es.asking import run_pass
from alloc_es.cli.documents import Ended, pass_document, split_words
from alloc_es.cli.exits import CHECK_FAILED, INTERRUPTED, TERMINATED, UNEXPECTED
from alloc_es.cli.options import (
    STORE,
    Actor,
    AsJson,
    MaxChallengers,
    StoreUrl,
    UsageError,
    opened,
    user_name,
)
from alloc_es.cli.output import end_now, print_aside, print_line, print_traceback, say
from alloc_es.cli.policies import described, load_policy, place_of
from alloc_es.cli.running import Interrupted
from alloc_es.cli.standings import counted
from alloc_es.drill.tenants import is_drills
from alloc_es.errors import InvalidSetting
from alloc_es.identity import WorkflowKey
from alloc_es.pass_results import Goal, PassReport, PassResult
from alloc_es.proposals import Hold
from alloc_es.scheduler_errors import PassStopped
from alloc_es.scheduling import adecide_pass


def decide(
    context: typer.Context,
    policy: Annotated[
        str,
        typer.Option(
            metavar="MODULE:FUNCTION",
            help="The policy; its module may be in the current directory.",
            show_default=False,
        ),
    ],
    tenant: Annotated[
        str | None, typer.Argument(metavar="TENANT", help="The tenant's id.", show_default=False)
    ] = None,
    workflows: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="WORKFLOW", help="Workflows of the tenant, in order.", show_default="all"
        ),
    ] = None,
    every: Annotated[
        bool, typer.Option("--all", help="All tenants' workflows but those of drills.")
    ] = False,
    concurrency: Annotated[
        int, typer.Option(metavar="K", help="How many workflows are in a wave.")
    ] = 1,
    at_most: Annotated[
        int | None,
        typer.Option(metavar="N", help="End once N workflows are decided.", show_default="all"),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be decided, and record nothing.")
    ] = False,
    max_challengers: MaxChallengers = 1,
    store: StoreUrl = STORE,
    actor: Actor = None,
    as_json: AsJson = False,
) -> None:
    """Ask a policy what to do with workflows, and do it.

    Policies of a wave run side by side, and what they propose is committed in order. The
    exit code is 6 if a workflow failed.
    """
    if every == (tenant is not None):
        raise UsageError("give either TENANT or --all", context)
    asked = load_policy(policy, context)
    goal = None if at_most is None else Goal(at_most, _is_decided)
    heard: list[PassResult] = []
    with opened(store, max_challengers=max_challengers) as allocations:
        keys = _keys(allocations, tenant, workflows)
        with counted("decide", hidden=as_json) as show:

            def tell(result: PassResult) -> None:
                heard.append(result)
                _tell(result, dry_run, as_json)
                show(len(heard), len(keys))

            show(0, len(keys))
            passing = adecide_pass(
                allocations,
                keys,
                asked,
                concurrency=concurrency,
                goal=goal,
                actor=actor or user_name(),
                dry_run=dry_run,
                on_result=tell,
            )
            account = partial(_account, heard, len(keys), dry_run)
            try:
                report = _run(passing, account, as_json)
            except PassStopped as stopped:
                _sum_up(stopped.report, dry_run, as_json)
                raise
            except BaseException as error:
                if isinstance(error, Exception):
                    raise
                raise PolicyLeft(error, account()) from error
    _sum_up(report, dry_run, as_json)
    if report.counts["failed"]:
        raise typer.Exit(CHECK_FAILED)


class PolicyLeft(Ended):
    """A policy raised what is no `Exception`, as `sys.exit` does, which ended the pass."""

    def __init__(self, error: BaseException, account: str) -> None:
        self.asked_for = "; ".join(getattr(error, "__notes__", ()))
        where = f", as {self.asked_for}" if self.asked_for else ""
        super().__init__(
            f"the policy ended the pass by {described(error)}{where}: {account}; "
            f"what is to fail one workflow only must be an Exception",
            exit_code=UNEXPECTED,
        )


def _is_decided(result: PassResult) -> bool:
    return result.outcome == "decided"


def _keys(
    allocations: Allocations, tenant: str | None, workflows: Sequence[str] | None
) -> list[WorkflowKey]:
    if tenant is not None and workflows:
        return [WorkflowKey.parse(tenant, workflow) for workflow in workflows]
    listed = [allocation.key for allocation in allocations.list(tenant)]
    keys = [key for key in listed if tenant is not None or not is_drills(key.tenant_id)]
    if tenant is not None and not keys:
        raise InvalidSetting("TENANT", f"{tenant} has no workflows in {allocations.store}")
    return keys


def _run(
    passing: Coroutine[Any, Any, PassReport],
    account: Callable[[], str],
    as_json: bool,
) -> PassReport:
    """Run a pass to its end, or to the first signal; a second one ends the process at once."""
    signals: list[int] = []

    async def main() -> PassReport:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task

        def hear(number: int, _frame: object) -> None:
            signals.append(number)
            if len(signals) > 1:
                end_now(_interrupted(account(), signals[0]), as_json=as_json)
            loop.call_soon_threadsafe(task.cancel)

        with _heard(hear):
            return await passing

    try:
        return run_pass(main())
    except asyncio.CancelledError:
        if not signals:
            raise
        raise _interrupted(account(), signals[0]) from None


@contextmanager
def _heard(hear: Callable[[int, Any], object]) -> Iterator[None]:
    """Have signals heard, also while a policy keeps the loop: it would not hear them then."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    handlers = {each: signal.signal(each, hear) for each in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for each, handler in handlers.items():
            signal.signal(each, handler)


def _interrupted(account: str, number: int) -> Interrupted:
    code = TERMINATED if number == signal.SIGTERM else INTERRUPTED
    return Interrupted(f"{account}; run it again for the rest", code)


def _account(heard: Sequence[PassResult], total: int, dry_run: bool) -> str:
    decided = sum(map(_is_decided, heard))
    would = "would have been" if dry_run else "were"
    left = total - len(heard)
    return f"{decided} of {total} workflows {would} decided, and {left} were not run"


def _tell(result: PassResult, dry_run: bool, as_json: bool) -> None:
    if result.failure and result.failure.error:
        print_traceback(result.failure.error)
    if as_json:
        print_line(pass_document(result))
    else:
        say(f"{result.key} {_words(result, dry_run)}{_conflicts(result)}")


def _words(result: PassResult, dry_run: bool) -> str:
    if result.failure is not None:
        error = result.failure.error
        place = place_of(error) if error else ""
        return f"failed: {result.failure.error_type}: {result.failure.message}{place}"
    if result.event is not None:
        stands = "would be" if dry_run else "is"
        split = split_words(result.event.allocation)
        return f"{stands} at generation {result.generation} ({result.event.summary}): {split}"
    why = "nothing to do"
    if isinstance(result.proposal, Hold):
        why = f"held, {result.proposal.reason}" if result.proposal.reason else "held"
    return f"stays at generation {result.generation}: {why}"


def _conflicts(result: PassResult) -> str:
    """Who was faster, where somebody was, as the end of a sentence."""
    if not result.lost_to:
        return ""
    winners = ", ".join(dict.fromkeys(event.actor for event in result.lost_to))
    return f"; asked {result.asked} times, because of decisions by {winners}"


def _sum_up(report: PassReport, dry_run: bool, as_json: bool) -> None:
    counts = {outcome: count for outcome, count in report.counts.items() if count}
    parts = ", ".join(f"{count:,} {outcome}" for outcome, count in counts.items())
    nothing = "; nothing was recorded" if dry_run else ""
    total = len(report.results)
    what = "1 workflow" if total == 1 else f"{total:,} workflows"
    document = {
        "summary": {
            **{outcome.replace(" ", "_"): n for outcome, n in report.counts.items()},
            "waves": report.waves,
            "dry_run": dry_run,
        }
    }
    print_aside(document, f"{what}: {parts or 'none'}{nothing}", as_json=as_json)
