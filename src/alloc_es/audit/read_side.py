"""What a store holds beside its logs: read models, and who was given which trigger."""

from collections.abc import Iterable, Iterator
from typing import Self

from alloc_es.app import Allocations
from alloc_es.audit.findings import Findings
from alloc_es.delivered import read_accounts
from alloc_es.errors import AllocationError
from alloc_es.events import DecisionEvent, Recorded
from alloc_es.evidence import Evidence, StoreEvidence
from alloc_es.identity import TenantId
from alloc_es.rebuilding import Report
from alloc_es.rules import Finding, delivery_findings
from alloc_es.verifying import Verified


class ReadSide:
    """The tables beside the logs of a store, as they were when it was made."""

    def __init__(self, allocations: Allocations, tenant_id: TenantId | None) -> None:
        self._projections = allocations.projections()
        desk = allocations._store.desk
        with desk.snapshot() as session:
            self._accounts = read_accounts(session, tenant_id)

    @classmethod
    def of(cls, evidence: Evidence, tenant_id: TenantId | None) -> Self | None:
        """That of a store; an export has none."""
        return cls(evidence.allocations, tenant_id) if isinstance(evidence, StoreEvidence) else None

    def delivery_findings(
        self, decisions: Iterable[Recorded[DecisionEvent]], end: int
    ) -> Iterator[Finding]:
        """What was not delivered as the triggers say."""
        return delivery_findings(decisions, self._accounts, end)

    def check_models(self, findings: Findings, report: Report) -> tuple[list[str], list[str]]:
        """Fold each read model afresh; say which were compared, and why others were not."""
        compared, left = [], []
        for status in self._projections.status():
            if status.standing == "not built":
                continue
            try:
                verified = self._projections.verify(status.name, report=report)
            except AllocationError as error:
                left.append(f"{status.name}: {error}")
                continue
            compared.append(status.name)
            if verified.difference is not None:
                findings.add(_differs(verified))
        return compared, left


def _differs(verified: Verified) -> Finding:
    difference = verified.difference
    assert difference is not None
    key = difference.key
    row = difference.found or difference.expected or {}
    tenant_id, workflow_id = row.get("tenant_id"), row.get("workflow_id")
    run_id = key.get("run_id")
    return Finding(
        rule="read_models",
        log=None,
        position=None,
        generation=None,
        tenant_id=None if tenant_id is None else str(tenant_id),
        workflow_id=None if workflow_id is None else str(workflow_id),
        command_id=None,
        run_id=None if run_id is None else str(run_id),
        problem=f"{verified.name}: {difference}",
    )
