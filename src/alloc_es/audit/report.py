"""What an audit found, rule by rule."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from alloc_es.identity import WorkflowKey
from alloc_es.rules import RULES, Finding
from alloc_es.sample_ratio import SampleRatio
from alloc_es.store.recorder import LogName

NUMBERS: Mapping[str, int] = {
    "readable": 1,
    "order": 1,
    "allocations": 2,
    "challengers": 3,
    "transitions": 4,
    "routing": 5,
    "newest": 6,
    "run_ids": 7,
    "rejections": 8,
    "deliveries": 8,
    "slots": 9,
    "read_models": 10,
    "chain": 11,
    "seal": 11,
    "sample_ratio": 12,
}
"""The rules of an audit, by name, with the numbers that the documentation has for them."""

Outcome = Literal["kept", "broken", "not checked"]


@dataclass(frozen=True, slots=True)
class RuleReport:
    """What became of one rule; `found` counts its findings, `note` says what is to be known."""

    name: str
    outcome: Outcome
    found: int
    note: str = ""

    @property
    def number(self) -> int:
        """The rule's number in the documentation."""
        return NUMBERS[self.name]

    @property
    def text(self) -> str:
        """The rule in words."""
        return RULES[self.name]


@dataclass(frozen=True, slots=True)
class AuditReport:
    """What an audit of the evidence `where` found, up to the positions `ends`.

    `findings` are the first 1,000 of each rule; the rules count all. `samples` are the
    sample ratios of the workflows that ever had a challenger.
    """

    where: str
    tenant_id: str | None
    since: datetime | None
    ends: Mapping[LogName, int]
    workflows: int
    decisions: int
    runs: int
    rules: tuple[RuleReport, ...]
    findings: tuple[Finding, ...]
    samples: Mapping[WorkflowKey, SampleRatio]

    @property
    def clean(self) -> bool:
        """Whether nothing was found; what was not checked is in `rules`."""
        return not any(rule.found for rule in self.rules)
