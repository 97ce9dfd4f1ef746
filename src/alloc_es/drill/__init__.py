"""Put a store under fire, and check from its logs alone that every promise held."""

from alloc_es.drill.drill import drill
from alloc_es.drill.errors import RestartFailed
from alloc_es.drill.plan import FaultKind
from alloc_es.drill.settings import Settings
from alloc_es.drill.verdict import PROMISES, Problem, Score, Verdict

__all__ = [
    "PROMISES",
    "FaultKind",
    "Problem",
    "RestartFailed",
    "Score",
    "Settings",
    "Verdict",
    "drill",
]
