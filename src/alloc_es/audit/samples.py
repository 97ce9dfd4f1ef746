"""The sample ratios of all workflows of an audit."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from alloc_es.identity import WorkflowKey
from alloc_es.rules import Finding
from alloc_es.sample_ratio import Epoch, SampleRatio, sample_ratio


def samples_of(epochs: Mapping[WorkflowKey, Sequence[Epoch]]) -> dict[WorkflowKey, SampleRatio]:
    """The sample ratio of each workflow that ever had a challenger with a share."""
    split = {key: each for key, each in epochs.items() if any(len(e.shares) > 1 for e in each)}
    return {key: sample_ratio(each, tests=len(split)) for key, each in split.items()}


def sample_findings(samples: Mapping[WorkflowKey, SampleRatio]) -> Iterator[Finding]:
    """An alarm for each workflow whose versions got what chance does not explain."""
    for key, sample in samples.items():
        if sample.verdict != "alarm":
            continue
        got = ", ".join(
            f"{each.version} got {each.observed:,} where {each.expected:,.1f} were expected"
            for each in sample.versions
        )
        yield Finding(
            rule="sample_ratio",
            log="runs",
            position=None,
            generation=None,
            tenant_id=key.tenant_id,
            workflow_id=key.workflow_id,
            command_id=None,
            run_id=None,
            problem=f"of {sample.units:,} units {got}; p = {sample.anytime_p_value:.2g}",
        )


def verdicts(samples: Mapping[WorkflowKey, SampleRatio]) -> str:
    """How many workflows got which answer."""
    counts = Counter(sample.verdict for sample in samples.values())
    return (
        ", ".join(
            f"{counts[verdict]:,} {verdict}"
            for verdict in ("alarm", "as expected", "not enough data")
            if counts[verdict]
        )
        or "no workflow had a challenger with a share"
    )
