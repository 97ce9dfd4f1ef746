"""`explain`: why a run got its version, drawn, and computed again."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

import typer
from rich.console import Console, ConsoleOptions, RenderableType
from rich.table import Table
from rich.text import Text

from alloc_es.allocation import Allocation
from alloc_es.cli.drawing import decided, fills_of, legend, look, when
from alloc_es.cli.evidence import Archives, FromPath, evidence
from alloc_es.cli.exits import CHECK_FAILED
from alloc_es.cli.options import STORE, AsJson, StoreUrl, Tenant
from alloc_es.cli.output import one_line, print_document, print_rich
from alloc_es.cli.past_documents import explanation_document
from alloc_es.evidence import Evidence, StoreEvidence
from alloc_es.explaining import Explanation
from alloc_es.explaining import explain as explained
from alloc_es.history_errors import UnknownRun
from alloc_es.identity import RunId, TenantId, parse_identifier
from alloc_es.split import BUCKETS, Slots

_BAR_WIDTH = 100


def explain(
    tenant: Tenant,
    run_id: Annotated[str, typer.Argument(metavar="RUN", help="The run's id.", show_default=False)],
    source: FromPath = None,
    archives: Archives = None,
    store: StoreUrl = STORE,
    as_json: AsJson = False,
) -> None:
    """Explain why a run got its version, and compute it again.

    The exit code is 6 if what was recorded is not what follows.
    """
    with evidence(store, source, archives) as held:
        found = _explanation(held, tenant, run_id)
    if as_json:
        print_document(explanation_document(found))
    else:
        print_rich(ExplanationDrawing(found))
    if not found.holds:
        raise typer.Exit(CHECK_FAILED)


def _explanation(held: Evidence, tenant: str, run_id: str) -> Explanation:
    if isinstance(held, StoreEvidence):
        return held.allocations.explain_run(tenant, run_id)
    whose = TenantId(parse_identifier("tenant id", tenant))
    wanted = RunId(parse_identifier("run id", run_id))
    run = held.run(whose, wanted)
    if run is None:
        raise UnknownRun(whose, wanted, held.where)
    return explained(run, held.history(run.event.key))


@dataclass(frozen=True, slots=True)
class ExplanationDrawing:
    """A run: where its bucket fell among the slots of its generation, and why they were so."""

    found: Explanation

    def __rich_console__(
        self, console: Console, options: ConsoleOptions
    ) -> Iterator[RenderableType]:
        """Draw for the width and the characters that a terminal has."""
        run, found = self.found.run.event, self.found
        title = f"run {run.run_id} of {run.key} got {run.version}, the {run.arm}"
        yield Text(one_line(title), style="bold")
        if found.decision and found.recomputed:
            allocation, fills = found.decision.event.allocation, fills_of(options)
            width = min(_BAR_WIDTH, options.max_width)
            yield _bar(allocation, found.recomputed.bucket, fills, width)
            yield Text(_caret(found.recomputed.bucket, width))
            yield legend(allocation, fills)
        facts = Table.grid(padding=(0, 2, 0, 0))
        for name, text in _facts(found):
            facts.add_row(Text(name, style="bold"), Text(text, overflow="fold"))
        yield facts


def _bar(allocation: Allocation, bucket: int, fills: str, width: int) -> Text:
    """The 10,000 buckets from left to right, each cell in the look of the arm that has most of it.

    That of the bucket is in the look of the bucket's arm, however few it has.
    """
    bar = Text(overflow="fold")
    for cell in range(width):
        first, end = (-(-edge * BUCKETS // width) for edge in (cell, cell + 1))
        if cell == _cell(bucket, width):
            first, end = bucket, bucket + 1
        held = [_overlap(arm.slots, first, end) for arm in allocation.arms]
        fill, style = look(held.index(max(held)), fills)
        bar.append(fill, style=style)
    return bar


def _cell(bucket: int, width: int) -> int:
    """The cell of a bucket, of so many."""
    return bucket * width // BUCKETS


def _overlap(slots: Slots, first: int, end: int) -> int:
    """How many of a range of buckets some slots hold."""
    return sum(max(0, min(end, last) - max(first, begin)) for begin, last in slots)


def _caret(bucket: int, width: int) -> str:
    """What points from below at the cell of a bucket, with its number, beside it if that fits."""
    cell = _cell(bucket, width)
    label = f"bucket {bucket:,}"
    if cell + 2 + len(label) <= width:
        return f"{' ' * cell}^ {label}"
    if len(label) < cell:
        return f"{label} ^".rjust(cell + 1)
    return f"{' ' * cell}^\n{label}"


def _facts(found: Explanation) -> Iterator[tuple[str, str]]:
    """What the answer rests on, each with its name."""
    run, recorded = found.run.event, found.run
    yield "unit", one_line(run.unit)
    yield (
        "hashed",
        (
            f"with hash version {run.hash_version} and salt {one_line(run.salt)} of episode "
            f"{run.episode}: bucket {run.bucket:,} of {BUCKETS:,}"
        ),
    )
    first, end = run.slot
    yield "slot", f"buckets {first:,} to {end - 1:,}, which are {one_line(run.version)}'s"
    yield "decision", _decision(found)
    yield (
        "recorded",
        (
            f"at position {recorded.position:,} of the runs, by {one_line(run.actor)}, "
            f"{when(run.recorded_at)}"
        ),
    )
    yield "newest", _verified(found)
    yield "digest", _digest(found)
    yield "recomputed", _recomputed(found)


def _decision(found: Explanation) -> str:
    generation = found.run.generation
    if found.decision is None:
        return f"generation {generation} of {found.run.event.key} is not in the log"
    place = f"generation {generation} at position {found.decision.position:,}"
    return f"{place}: {decided(found.decision)}"


def _verified(found: Explanation) -> str:
    position = found.run.event.decision_position
    if found.decision is None:
        return "unknown without the decision"
    if position is None:
        return "unknown: release 0.1 recorded no decision position"
    which = f"generation {found.run.generation} at position {position:,} of the decisions"
    if (after := found.following) is None:
        rest = "none came behind it"
    else:
        rest = f"generation {after.generation} came at position {after.position:,}"
    return f"{'' if found.verified else 'NOT '}{which}; {rest}"


def _digest(found: Explanation) -> str:
    carried = found.run.event.decision_digest
    match found.digest_matches:
        case True:
            return f"the decision's, {carried}"
        case False:
            held = found.decision.digest if found.decision else None
            return f"NOT the decision's: the run carries {carried}, the log has {held}"
        case None if carried is None:
            return "none: a release before 0.5 recorded the run"
        case None:
            return f"{carried}, of a decision that is not in the log"


def _recomputed(found: Explanation) -> str:
    if found.recomputed is None:
        return "NOT: there is no decision to compute it from"
    if not found.differences:
        return "the same"
    return "NOT the same: " + ", ".join(
        f"{each.field} is recorded as {one_line(str(each.recorded))}, "
        f"and {one_line(str(each.recomputed))} follows"
        for each in found.differences
    )
