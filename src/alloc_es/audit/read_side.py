"""What a store holds beside its logs: read models, and who was given which trigger."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Self

from alloc_es.app import Allocations
from alloc_es.audit.findings import Findings
from alloc_es.delivered import read_accounts
from alloc_es.errors import AllocationError, StoreUnavailable
from alloc_es.events import DecisionEvent, Recorded
from alloc_es.evidence import Evidence, StoreEvidence
from alloc_es.identity import TenantId
from alloc_es.rebuilding import Report
from alloc_es.rules import Account, Finding, delivery_findings
from alloc_es.standing import ProjectionStatus
from alloc_es.verifying import Verified


class ReadSide:
    """The tables beside the logs of a store, as they were when it was made.

    `unread` says why the accounts of consumers can't be read, if they can't: the logs may be
    all that an auditor was given rights to.
    """

    def __init__(self, allocations: Allocations, tenant_id: TenantId | None) -> None:
        self._allocations = allocations
        self._projections = allocations.projections()
        self._tenant_id = tenant_id
        self._accounts: Sequence[Account] = ()
        self.unread = ""
        try:
            self._accounts = allocations._insist(self._read_accounts)
        except StoreUnavailable as error:
            self.unread = _refusal(error)

    @classmethod
    def of(cls, evidence: Evidence, tenant_id: TenantId | None) -> Self | None:
        """That of a store; an export has none."""
        return cls(evidence.allocations, tenant_id) if isinstance(evidence, StoreEvidence) else None

    def _read_accounts(self) -> list[Account]:
        with self._allocations._store.desk.snapshot() as session:
            return read_accounts(session, self._tenant_id)

    def delivery_findings(
        self, decisions: Iterable[Recorded[DecisionEvent]], end: int, unreadable: Collection[int]
    ) -> Iterator[Finding]:
        """What was not delivered as the triggers say.

        What was delivered of decisions that can't be read, at these positions, is passed over.
        """
        accounts = (
            account._replace(
                deliveries=[each for each in account.deliveries if each.position not in unreadable]
            )
            for account in self._accounts
        )
        return delivery_findings(decisions, accounts, end)

    def check_models(self, findings: Findings, report: Report) -> tuple[list[str], list[str]]:
        """Fold each read model afresh; say which were compared, and why others were not."""
        compared, left = [], []
        try:
            built = [each for each in self._projections.status() if each.standing != "not built"]
        except StoreUnavailable as error:
            return [], [_refusal(error)]
        for status in built:
            try:
                finding = self._compare(status, report)
            except AllocationError as error:
                left.append(f"{status.name}: {_refusal(error)}")
                continue
            if finding is not None and not self._is_asked_for(finding):
                problem = "the first row that differs is another tenant's; audit all tenants"
                left.append(f"{status.name}: {problem}")
                continue
            compared.append(status.name)
            findings.extend([finding] if finding else [])
        return compared, left

    def _compare(self, status: ProjectionStatus, report: Report) -> Finding | None:
        verified = self._projections.verify(status.name, report=report)
        return None if verified.difference is None else _differs(verified)

    def _is_asked_for(self, finding: Finding) -> bool:
        return None in (self._tenant_id, finding.tenant_id) or (
            finding.tenant_id == self._tenant_id
        )


def _refusal(error: AllocationError) -> str:
    """Why something can't be looked at. Raises the error of a store that is away for a while."""
    if isinstance(error, StoreUnavailable) and error.retryable:
        raise error
    return str(error)


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
