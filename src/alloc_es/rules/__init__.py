"""What the two logs of a store must show: one function per rule, and a pass over a log for all.

Everything here is pure and reads recorded events only, in the order of their positions.
"""

from alloc_es.rules.chain import decision_chain, run_chain
from alloc_es.rules.decisions import (
    DecisionRules,
    Order,
    allocations,
    challengers,
    decision_findings,
    rejections,
    slots,
    transitions,
)
from alloc_es.rules.deliveries import Account, Delivered, delivery_findings
from alloc_es.rules.finding import RULES, Finding
from alloc_es.rules.quick import QuickLook
from alloc_es.rules.runs import (
    RunIds,
    RunOrder,
    Verified,
    begun,
    findings,
    newest,
    routing,
    run_findings,
    service,
)
from alloc_es.rules.timeline import Link, Timeline

__all__ = [
    "RULES",
    "Account",
    "DecisionRules",
    "Delivered",
    "Finding",
    "Link",
    "Order",
    "QuickLook",
    "RunIds",
    "RunOrder",
    "Timeline",
    "Verified",
    "allocations",
    "begun",
    "challengers",
    "decision_chain",
    "decision_findings",
    "delivery_findings",
    "findings",
    "newest",
    "rejections",
    "routing",
    "run_chain",
    "run_findings",
    "service",
    "slots",
    "transitions",
]
