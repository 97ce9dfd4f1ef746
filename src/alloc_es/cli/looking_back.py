"""`history` and `diff`: what became of a workflow, and what two of its generations differ in."""

from typing import Annotated

import typer

from alloc_es import timetravel
from alloc_es.cli.counting import RunCounts, count_runs
from alloc_es.cli.documents import event_document, split_words
from alloc_es.cli.drawing import history_rows
from alloc_es.cli.evidence import Archives, FromPath, evidence
from alloc_es.cli.options import STORE, AsJson, StoreUrl, Tenant, WorkflowId
from alloc_es.cli.output import print_document, print_rich, say
from alloc_es.cli.past_documents import comparison_document, tenure_documents
from alloc_es.cli.reading import whole_history
from alloc_es.cli.standings import counted
from alloc_es.cli.tenure_drawing import TenureDrawing
from alloc_es.comparing import Comparison, compare
from alloc_es.identity import WorkflowKey
from alloc_es.split import Share
from alloc_es.tenures import runs_served, tenures
from alloc_es.wording import numbered

_Generation = Annotated[int, typer.Argument(help="A generation.", show_default=False)]


def history(
    tenant: Tenant,
    workflow: WorkflowId,
    no_runs: Annotated[
        bool, typer.Option("--no-runs", help="Do not count the runs of each tenure.")
    ] = False,
    source: FromPath = None,
    archives: Archives = None,
    store: StoreUrl = STORE,
    as_json: AsJson = False,
) -> None:
    """Show the tenures of a workflow, and every decision.

    The runs of each tenure are counted by the read model run_ledger where it is built,
    else from the log.
    """
    key = WorkflowKey.parse(tenant, workflow)
    with evidence(store, source, archives) as held:
        end = held.ends()["runs"]
        decisions, counts = whole_history(held, key), None
        if not no_runs:
            with counted("runs", hidden=as_json) as report:
                counts = count_runs(held, key, end, report)
    found = tenures(decisions)
    served, left_over = runs_served(found, counts.runs) if counts else (None, 0)
    if as_json:
        print_document(
            {
                "decisions": [event_document(entry) for entry in decisions],
                "tenures": tenure_documents(found, served),
                "runs": _counts_document(counts, left_over),
            }
        )
        return
    words = [_counts_words(counts, left_over)] if counts else []
    drawing = TenureDrawing(found, served, decisions[-1].generation)
    print_rich(drawing, *words, "", history_rows(decisions))


def _counts_document(counts: RunCounts | None, left_over: int) -> dict[str, object] | None:
    if counts is None:
        return None
    return {
        "counted": counts.counted,
        "position": counts.position,
        "end": counts.end,
        "left_over": left_over,
    }


def _counts_words(counts: RunCounts, left_over: int) -> str:
    where = "the read model run_ledger" if counts.counted == "run_ledger" else "the run log"
    rest = f"; {numbered(left_over, 'run')} of no tenure, see alloc-es audit" if left_over else ""
    return f"runs by {where}, up to position {counts.position:,} of {counts.end:,}{rest}"


def diff(
    tenant: Tenant,
    workflow: WorkflowId,
    first: Annotated[int, typer.Argument(metavar="FROM", help="A generation.", show_default=False)],
    last: Annotated[int, typer.Argument(metavar="TO", help="Another one.", show_default=False)],
    source: FromPath = None,
    store: StoreUrl = STORE,
    as_json: AsJson = False,
) -> None:
    """Say what two generations differ in, and who decided so."""
    with evidence(store, source) as held:
        decisions = whole_history(held, WorkflowKey.parse(tenant, workflow))
    before = timetravel.at_generation(decisions, first)
    after = timetravel.at_generation(decisions, last)
    low, high = sorted((first, last))
    between = [each for each in decisions if low < each.generation <= high]
    found = compare(before.event.allocation, after.event.allocation)
    if as_json:
        print_document(comparison_document(found, between))
        return
    for sentence in _sentences(found):
        say(sentence)
    if between:
        print_rich("", history_rows(between))


def _sentences(found: Comparison) -> list[str]:
    """What differs, a sentence each."""
    before, after = found.before, found.after
    generations = f"generation {before.generation} to {after.generation}"
    said = [f"{after.key}, {generations}: {split_words(before)} became {split_words(after)}"]
    if before.current != after.current:
        said.append(f"current: {before.current} became {after.current}")
    for word, versions in (("came", found.came), ("left", found.left)):
        if versions:
            said.append(f"{word}: {', '.join(versions)}")
    for version, (old, new) in found.shares.items():
        said.append(f"share: {version} from {Share(old)} to {Share(new)}")
    for (old_version, new_version), buckets in found.moved.items():
        said.append(f"moved: {numbered(buckets, 'bucket')} from {old_version} to {new_version}")
    if found.rehashed:
        said.append("hashed anew: an episode began in between, so a bucket holds other units now")
    if len(said) == 1:
        said.append("no bucket, version or share differs")
    return said
