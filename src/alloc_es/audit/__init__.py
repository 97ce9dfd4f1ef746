"""Audits: whether the logs of a store, or of an export, keep every rule, and seals of them."""

from alloc_es.audit.auditing import audit, usable_cores
from alloc_es.audit.errors import AuditorLost
from alloc_es.audit.report import AuditReport, RuleReport
from alloc_es.audit.seals import Head, Seal, SealedLog, make_seal, read_seal

__all__ = [
    "AuditReport",
    "AuditorLost",
    "Head",
    "RuleReport",
    "Seal",
    "SealedLog",
    "audit",
    "make_seal",
    "read_seal",
    "usable_cores",
]
