"""The commands that look."""

from datetime import datetime
from typing import Annotated, Any

import typer

from alloc_es import timetravel
from alloc_es.allocation import Allocation
from alloc_es.cli.documents import allocation_document, routing_document
from alloc_es.cli.drawing import SplitDrawing, allocation_rows
from alloc_es.cli.evidence import FromPath, evidence
from alloc_es.cli.options import (
    STORE,
    AsJson,
    AtGeneration,
    AtPosition,
    AtTime,
    StoreUrl,
    Tenant,
    UsageError,
    WorkflowId,
    opened,
)
from alloc_es.cli.output import print_document, print_rich, say
from alloc_es.errors import UnknownWorkflow
from alloc_es.events import DecisionEvent, Recorded
from alloc_es.evidence import Evidence, Unreadable
from alloc_es.identity import WorkflowKey


def show(
    context: typer.Context,
    tenant: Tenant,
    workflow: WorkflowId,
    at_generation: AtGeneration = None,
    at_position: AtPosition = None,
    at_time: AtTime = None,
    source: FromPath = None,
    store: StoreUrl = STORE,
    as_json: AsJson = False,
) -> None:
    """Show who serves a workflow, now or then, and draw the split."""
    asked: dict[str, Any] = {"generation": at_generation, "position": at_position, "time": at_time}
    moment = {name: value for name, value in asked.items() if value is not None}
    if len(moment) > 1:
        problem = "give one of --at-generation, --at-position and --at-time"
        raise UsageError(problem, context)
    key = WorkflowKey.parse(tenant, workflow)
    if moment or source is not None:
        with evidence(store, source) as held:
            decisions = whole_history(held, key)
        found = timetravel.at(decisions, **moment) if moment else decisions[-1]
        said = _moment(moment, decisions[-1])
    else:
        with opened(store) as allocations:
            found, said = allocations.workflow(tenant, workflow).newest(), ""
    if as_json:
        print_document(allocation_document(found.event.allocation))
    else:
        print_rich(SplitDrawing(found, said))


def whole_history(held: Evidence, key: WorkflowKey) -> list[Recorded[DecisionEvent]]:
    """Every decision on a workflow, oldest first. Raises `UnknownWorkflow`."""
    decisions = held.history(key)
    if not decisions:
        raise UnknownWorkflow(key)
    return decisions


def _moment(moment: dict[str, Any], newest: Recorded[DecisionEvent]) -> str:
    """As of what something is shown, in words; empty for now."""
    for name, value in moment.items():
        told = value.isoformat() if isinstance(value, datetime) else value
        return f"as of {name} {told}; the newest is generation {newest.generation}"
    return ""


def list_(
    tenant: Annotated[
        str | None,
        typer.Argument(metavar="TENANT", help="Only this tenant's workflows.", show_default="all"),
    ] = None,
    source: FromPath = None,
    store: StoreUrl = STORE,
    as_json: AsJson = False,
) -> None:
    """List workflows with current version, challengers and split."""
    if source is not None:
        with evidence(store, source) as held:
            found = _newest(held, tenant)
    else:
        with opened(store) as allocations:
            found = allocations.list(tenant)
    if as_json:
        print_document([allocation_document(allocation) for allocation in found])
    elif found:
        print_rich(allocation_rows(found))
    else:
        say(f"no workflow{f' of {tenant}' if tenant else ''} was started yet")


def _newest(held: Evidence, tenant: str | None) -> list[Allocation]:
    """The newest allocation of every workflow, or of one tenant's, in order of the ids."""
    newest: dict[WorkflowKey, Allocation] = {}
    for each in held.decisions():
        if isinstance(each, Unreadable):
            raise each.error
        if tenant in (None, each.event.key.tenant_id):
            newest[each.event.key] = each.event.allocation
    return [newest[key] for key in sorted(newest)]


def peek(
    tenant: Tenant,
    workflow: WorkflowId,
    unit: Annotated[
        str, typer.Argument(metavar="UNIT", help="What would be routed.", show_default=False)
    ],
    store: StoreUrl = STORE,
    as_json: AsJson = False,
) -> None:
    """Say where a unit would go now, recording nothing."""
    with opened(store) as allocations:
        routing = allocations.workflow(tenant, workflow).peek(unit)
    if as_json:
        print_document(routing_document(routing))
    else:
        say(
            f"unit {routing.unit} would get {routing.version}, the {routing.arm}: "
            f"bucket {routing.bucket} at generation {routing.generation}"
        )
