"""What an audit says of a row that is no event, as far as its stream's name tells whose it is."""

from collections.abc import Iterator

from alloc_es.allocation import NOT_ALL_BUCKETS
from alloc_es.evidence import Unreadable
from alloc_es.identity import TenantId, key_of_stream, run_of_stream
from alloc_es.rules import Finding


def unreadable_decision(row: Unreadable, tenant_id: TenantId | None) -> Iterator[Finding]:
    """The finding, unless the row is another tenant's than the one that is asked for."""
    error = row.error
    key = key_of_stream(error.stream)
    if key is not None and tenant_id not in (None, key.tenant_id):
        return
    yield Finding(
        rule="allocations" if NOT_ALL_BUCKETS in error.unreadable else "readable",
        log="decisions",
        position=row.position,
        generation=error.version,
        tenant_id=key and key.tenant_id,
        workflow_id=key and key.workflow_id,
        command_id=None,
        run_id=None,
        problem=_problem(row),
    )


def unreadable_run(row: Unreadable, tenant_id: TenantId | None) -> Iterator[Finding]:
    """The finding, unless the row is another tenant's than the one that is asked for."""
    run = run_of_stream(row.error.stream)
    if run is not None and tenant_id not in (None, run[0]):
        return
    yield Finding(
        rule="readable",
        log="runs",
        position=row.position,
        generation=None,
        tenant_id=run and run[0],
        workflow_id=None,
        command_id=None,
        run_id=run and run[1],
        problem=_problem(row),
    )


def _problem(row: Unreadable) -> str:
    return f"event {row.error.version} of {row.error.stream}: {row.error.unreadable}"
