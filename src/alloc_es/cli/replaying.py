"""`replay`: which recorded runs would have gone elsewhere, had another policy decided."""

from collections.abc import Callable
from typing import Annotated, Any

import typer

from alloc_es.allocation import Allocation
from alloc_es.asking import Fatal, ask_all, run_pass
from alloc_es.cli.counting import told_runs
from alloc_es.cli.documents import Ended, split_words
from alloc_es.cli.drawing import Rows
from alloc_es.cli.evidence import Archives, FromPath, evidence
from alloc_es.cli.exits import UNEXPECTED
from alloc_es.cli.options import (
    STORE,
    AsJson,
    StoreUrl,
    Tenant,
    UsageError,
    WorkflowId,
    parse_share,
)
from alloc_es.cli.output import (
    one_line,
    print_aside,
    print_document,
    print_line,
    print_rich,
    print_traceback,
    say,
)
from alloc_es.cli.past_documents import moved_document, replay_document
from alloc_es.cli.policies import described, load_policy
from alloc_es.cli.reading import whole_history
from alloc_es.cli.running import interruptible
from alloc_es.cli.standings import counted
from alloc_es.errors import AllocationError
from alloc_es.identity import WorkflowKey
from alloc_es.proposals import Policy, Proposal
from alloc_es.replaying import Ask, Moved, Replay, Skipped, every_challenger_at
from alloc_es.replaying import replay as replayed
from alloc_es.split import BUCKETS, Share
from alloc_es.wording import numbered


def replay(
    context: typer.Context,
    tenant: Tenant,
    workflow: WorkflowId,
    share: Annotated[
        Share | None,
        typer.Option(
            parser=parse_share,
            metavar="SHARE",
            help="Give every live challenger this share, for example 10%.",
            show_default=False,
        ),
    ] = None,
    policy: Annotated[
        str | None,
        typer.Option(
            metavar="MODULE:FUNCTION",
            help="Ask a policy of yours behind every decision.",
            show_default=False,
        ),
    ] = None,
    ids: Annotated[
        bool, typer.Option("--ids", help="Print every run that would have gone elsewhere.")
    ] = False,
    source: FromPath = None,
    archives: Archives = None,
    store: StoreUrl = STORE,
    as_json: AsJson = False,
) -> None:
    """Say which runs another policy would have moved.

    The recorded commands are decided again, and the policy's proposals behind each of them.
    Nothing is recorded.
    """
    ask = _asked(context, share, policy)
    key = WorkflowKey.parse(tenant, workflow)
    tell = _teller(as_json) if ids else None
    with (
        evidence(store, source, archives) as held,
        interruptible("nothing was recorded"),
        counted("replay", hidden=as_json) as report,
    ):
        end = held.ends()["runs"]
        decisions = whole_history(held, key)
        runs = told_runs(held, end, report)
        found = replayed(decisions, runs, ask, **({"on_moved": tell} if tell else {}))
    if as_json and ids:
        print_aside({"summary": replay_document(found)}, "", as_json=True)
    elif as_json:
        print_document(replay_document(found))
    else:
        _tell(found)


class PolicyFailed(Ended):
    """A policy raised an error while it was asked for a replay."""

    def __init__(self, error: BaseException, state: Allocation) -> None:
        self.generation = state.generation
        super().__init__(
            f"the policy ended the replay by {described(error)}, when it was asked about what "
            f"would have been generation {state.generation} of {state.key}",
            exit_code=UNEXPECTED,
        )


def _asked(context: typer.Context, share: Share | None, policy: str | None) -> Ask:
    if share is not None and policy is None:
        if share >= BUCKETS:
            raise UsageError("--share leaves the current version at least 1bp", context)
        return every_challenger_at(share.bps)
    if policy is None or share is not None:
        raise UsageError("give either --share or --policy", context)
    return _asking(load_policy(policy, context))


def _asking(policy: Policy) -> Ask:
    """A policy, sync or async, that is asked as a decide pass asks it: it can't decide itself."""

    def ask(state: Allocation) -> Proposal:
        try:
            (answer,) = run_pass(ask_all(policy, [state]))
        except Fatal as fatal:
            raise PolicyFailed(fatal.error, state) from fatal
        if isinstance(answer, AllocationError):
            raise answer
        if isinstance(answer, BaseException):
            print_traceback(answer)
            raise PolicyFailed(answer, state) from answer
        # What is no proposal is refused by the replay.
        return answer  # type: ignore[return-value]

    return ask


def _teller(as_json: bool) -> Callable[[Moved], Any]:
    def tell(moved: Moved) -> None:
        if as_json:
            print_line(moved_document(moved))
            return
        run, routing = moved
        say(
            f"run {run.event.run_id} at generation {run.generation}: "
            f"{run.event.version}, would be {routing.version}"
        )

    return tell


def _tell(found: Replay) -> None:
    for skipped in found.skipped:
        say(_skipped_words(skipped))
    total = sum(found.moved.values())
    lost = f", {found.unplaced:,} name no generation" if found.unplaced else ""
    say(
        f"{found.key}: {total:,} of {numbered(found.runs, 'run')} would have gone elsewhere{lost}; "
        f"nothing was recorded"
    )
    if found.routed:
        print_rich(_pairs(found))
    if found.allocation:
        say(f"it would end with {split_words(found.allocation)}")


def _skipped_words(skipped: Skipped) -> str:
    decision, proposal, refusal = skipped
    what = f"{decision.event.summary}, by {decision.actor}"
    if proposal is not None:
        what = f"the policy's {type(proposal).__name__} behind it"
    return f"refused at generation {decision.generation}, {what}: {refusal}"


def _pairs(found: Replay) -> Rows:
    rows = [(one_line(old), one_line(new), f"{n:,}") for (old, new), n in found.routed.items()]
    return Rows(
        columns=("GOT", "WOULD HAVE GOT", "RUNS"),
        cells=rows,
        titles=[f"{old} would be {new}" for old, new, _ in rows],
        details=[(f"{runs} runs",) for _, _, runs in rows],
    )
