"""What a store's tables say of the deliveries of every consumer of triggers."""

from collections import defaultdict

from alloc_es.identity import TenantId
from alloc_es.rules.deliveries import Account, Delivered
from alloc_es.store.session import Session

_CONSUMERS = "SELECT consumer, begins_after, scanned_to FROM trigger_consumers ORDER BY consumer"
_DELIVERIES = (
    "SELECT consumer, position, tenant_id, workflow_id, generation, attempts, worker,"
    " acknowledged_at IS NOT NULL FROM trigger_deliveries"
)


def read_accounts(session: Session, tenant_id: TenantId | None = None) -> list[Account]:
    """Every consumer with its deliveries, or those of one tenant; in a `Desk.snapshot`.

    Deliveries to a consumer that is not known are those of one that has seen nothing.
    """
    found = (
        session.rows(_DELIVERIES)
        if tenant_id is None
        else session.rows(f"{_DELIVERIES} WHERE tenant_id = ?", tenant_id)
    )
    deliveries: defaultdict[str, list[Delivered]] = defaultdict(list)
    for consumer, *delivery, acknowledged in found:
        deliveries[consumer].append(Delivered._make((*delivery, bool(acknowledged))))
    known = session.rows(_CONSUMERS)
    accounts = [Account._make((*row, deliveries.pop(row[0], []))) for row in known]
    return accounts + [Account(consumer, 0, 0, each) for consumer, each in deliveries.items()]
