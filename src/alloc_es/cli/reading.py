"""The commands that look."""

from typing import Annotated

import typer

from alloc_es.cli.documents import allocation_document, event_document, routing_document
from alloc_es.cli.drawing import SplitDrawing, allocation_rows, history_rows
from alloc_es.cli.options import STORE, AsJson, StoreUrl, Tenant, WorkflowId, opened
from alloc_es.cli.output import print_document, print_rich, say


def show(
    tenant: Tenant, workflow: WorkflowId, store: StoreUrl = STORE, as_json: AsJson = False
) -> None:
    """Show who serves a workflow now, and draw the split."""
    with opened(store) as allocations:
        newest = allocations.workflow(tenant, workflow).newest()
    if as_json:
        print_document(allocation_document(newest.event.allocation))
    else:
        print_rich(SplitDrawing(newest))


def list_(
    tenant: Annotated[
        str | None,
        typer.Argument(metavar="TENANT", help="Only this tenant's workflows.", show_default="all"),
    ] = None,
    store: StoreUrl = STORE,
    as_json: AsJson = False,
) -> None:
    """List workflows with current version, challengers and split."""
    with opened(store) as allocations:
        found = allocations.list(tenant)
    if as_json:
        print_document([allocation_document(allocation) for allocation in found])
    elif found:
        print_rich(allocation_rows(found))
    else:
        say(f"no workflow{f' of {tenant}' if tenant else ''} was started yet")


def history(
    tenant: Tenant, workflow: WorkflowId, store: StoreUrl = STORE, as_json: AsJson = False
) -> None:
    """List every decision on a workflow, oldest first."""
    with opened(store) as allocations:
        entries = allocations.workflow(tenant, workflow).history()
    if as_json:
        print_document([event_document(entry) for entry in entries])
    else:
        print_rich(history_rows(entries))


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


COMMANDS = (show, list_, history, peek)
