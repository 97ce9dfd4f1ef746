"""What an audit found, for people and as JSON."""

from dataclasses import asdict
from typing import Any

from rich.text import Text

from alloc_es.audit import AuditReport
from alloc_es.cli.drawing import Rows
from alloc_es.cli.output import one_line, print_rich, say
from alloc_es.identity import WorkflowKey
from alloc_es.sample_ratio import SampleRatio, VersionRatio
from alloc_es.wording import numbered

_MOST_PRINTED = 10


def audit_document(found: AuditReport, seconds: float) -> dict[str, Any]:
    """An audit as JSON; it took so many seconds."""
    return {
        "clean": found.clean,
        "where": found.where,
        "tenant_id": found.tenant_id,
        "since": found.since.isoformat() if found.since else None,
        "ends": dict(found.ends),
        "workflows": found.workflows,
        "decisions": found.decisions,
        "runs": found.runs,
        "seconds": round(seconds, 3),
        "rules": [
            {
                "number": rule.number,
                "name": rule.name,
                "text": rule.text,
                "outcome": rule.outcome,
                "found": rule.found,
                "note": rule.note,
            }
            for rule in found.rules
        ],
        "findings": [{**asdict(each), "text": each.text} for each in found.findings],
        "samples": [key._asdict() | _sample(each) for key, each in found.samples.items()],
    }


def _sample(sample: SampleRatio) -> dict[str, Any]:
    return asdict(sample) | {"versions": [each._asdict() for each in sample.versions]}


def print_audit(found: AuditReport, seconds: float) -> None:
    """An audit for people: every rule, what was found, and the sample ratios."""
    rate = found.runs / seconds if seconds else 0
    whose = f" of {one_line(found.tenant_id)}" if found.tenant_id else ""
    since = f" recorded since {found.since.isoformat()}" if found.since else ""
    say(
        f"audited {one_line(found.where)}: {numbered(found.decisions, 'decision')} and "
        f"{numbered(found.runs, 'run')}{whose}{since}, in {seconds:,.1f} s ({rate:,.0f} runs/s)"
    )
    print_rich(_rules(found))
    for rule in found.rules:
        own = [finding for finding in found.findings if finding.rule == rule.name]
        for finding in own[:_MOST_PRINTED]:
            print_rich(Text(one_line(str(finding)), overflow="fold"))
        if rule.found > _MOST_PRINTED:
            say(f"{rule.name}: {rule.found - _MOST_PRINTED:,} more; --json has the first 1,000")
    _print_samples(found)
    total = sum(rule.found for rule in found.rules)
    unchecked = [rule.name for rule in found.rules if rule.outcome == "not checked"]
    rest = f"; not checked: {', '.join(unchecked)}" if unchecked else ""
    say(f"{numbered(total, 'finding') if total else 'no finding'}{rest}")


def _rules(found: AuditReport) -> Rows:
    told = [
        f"{rule.found:,} found" if rule.outcome == "broken" else rule.outcome
        for rule in found.rules
    ]
    return Rows(
        columns=("RULE", "NAME", "OUTCOME", "NOTE"),
        cells=[
            (str(rule.number), rule.name, said, one_line(rule.note))
            for rule, said in zip(found.rules, told, strict=True)
        ],
        titles=[
            f"{rule.number} {rule.name}: {said}"
            for rule, said in zip(found.rules, told, strict=True)
        ],
        details=[(one_line(rule.note),) for rule in found.rules],
    )


def _print_samples(found: AuditReport) -> None:
    """The sample ratios of the workflows with the smallest p-values."""
    ordered = sorted(found.samples.items(), key=lambda pair: (pair[1].anytime_p_value, pair[0]))
    told = [
        (key, sample, each) for key, sample in ordered[:_MOST_PRINTED] for each in sample.versions
    ]
    if told:
        print_rich(
            Rows(
                columns=("SAMPLE RATIO OF", "VERSION", "UNITS", "EXPECTED", "P", "ANSWER"),
                cells=[_sample_cells(*each) for each in told],
                titles=[f"{one_line(str(key))}: {sample.verdict}" for key, sample, _ in told],
                details=[(_sample_words(each),) for _, _, each in told],
            )
        )
    if len(ordered) > _MOST_PRINTED:
        say(f"sample ratios of {len(ordered) - _MOST_PRINTED:,} more workflows: --json has them")


def _sample_cells(key: WorkflowKey, sample: SampleRatio, version: VersionRatio) -> tuple[str, ...]:
    return (
        one_line(str(key)),
        one_line(version.version),
        f"{version.observed:,}",
        f"{version.expected:,.1f}",
        f"{sample.p_value:.2g}",
        sample.verdict,
    )


def _sample_words(version: VersionRatio) -> str:
    return f"{one_line(version.version)}: {version.observed:,} units of {version.expected:,.1f}"
