"""Findings by their rules, of which a bounded number is kept."""

from collections import Counter, defaultdict
from collections.abc import Iterable

from alloc_es.rules import Finding

MOST_KEPT = 1_000
"""How many findings of a rule are kept; all are counted."""


class Findings:
    """What broke the rules: all are counted, the first of each rule kept. It can be pickled."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.kept: defaultdict[str, list[Finding]] = defaultdict(list)

    def add(self, finding: Finding) -> None:
        """Take in the next finding."""
        self.counts[finding.rule] += 1
        if len(self.kept[finding.rule]) < MOST_KEPT:
            self.kept[finding.rule].append(finding)

    def extend(self, findings: Iterable[Finding]) -> None:
        """Take in findings, one by one."""
        for finding in findings:
            self.add(finding)

    def merge(self, later: "Findings") -> None:
        """Take in what was found behind these."""
        self.counts += later.counts
        for rule, kept in later.kept.items():
            self.kept[rule] += kept[: MOST_KEPT - len(self.kept[rule])]
