"""A pass over a part of the run log that checks every rule of runs, lean enough for millions."""

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import blake2b
from struct import Struct

from alloc_es.audit.blocks import BlockDigests
from alloc_es.audit.findings import Findings
from alloc_es.audit.unreadable import unreadable_run
from alloc_es.events import Recorded, RunSpawned
from alloc_es.evidence import Unreadable
from alloc_es.identity import TenantId
from alloc_es.rules import Finding, QuickLook, Timeline, Verified, newest, routing, run_chain
from alloc_es.rules.finding import found
from alloc_es.unit_counts import UnitCounts

_first_8_bytes = Struct("=q").unpack
_seeded = blake2b(digest_size=8)


@dataclass(frozen=True, slots=True)
class Scope:
    """What an audit is about: one tenant or all, what was recorded since a time or all.

    `sealed` are the ranges `(after, up_to]` of the run log that seals are about.
    """

    tenant_id: TenantId | None = None
    since: datetime | None = None
    sealed: Sequence[tuple[int, int]] = ()

    def holds(self, tenant_id: str, recorded_at: datetime) -> bool:
        """Whether an event is within it."""
        return self.tenant_id in (None, tenant_id) and (
            self.since is None or recorded_at >= self.since
        )

    @property
    def is_whole(self) -> bool:
        """Whether every event is within it."""
        return self.tenant_id is None and self.since is None


@dataclass(slots=True)
class PartResult:
    """What a pass over one part of the run log has found; it can be pickled.

    `names` has 8 bytes of the digest of each run's id in its tenant, by which runs that may
    have an id in common are found. `unchained` runs carry no digest. `first` is the first run
    that was verified somewhere, and `verified` the latest position at which one was.
    """

    first: Recorded[RunSpawned] | None = None
    verified: int = 0

    last: int = 0
    runs: int = 0
    unchained: int = 0
    findings: Findings = field(default_factory=Findings)
    units: UnitCounts = field(default_factory=UnitCounts)
    names: "array[int]" = field(default_factory=lambda: array("q"))
    sealed: list[Mapping[int, str]] = field(default_factory=list)


def pass_over(
    timeline: Timeline, runs: Iterable[Recorded[RunSpawned] | Unreadable], scope: Scope
) -> PartResult:
    """Check the rules of runs on one part of their log, in the order of positions."""
    result = PartResult()
    look, all_of_it = QuickLook(timeline), scope.is_whole
    digests = [BlockDigests(*sealed) for sealed in scope.sealed]
    passes, count_unit, keep_name = look.passes, result.units.add, result.names.append
    verified = Verified()
    for each in runs:
        for digest in digests:
            digest.add_event(each)
        if isinstance(each, Unreadable):
            result.findings.extend(unreadable_run(each, scope.tenant_id))
            continue
        run, position = each.event, each.position
        if not all_of_it and not scope.holds(run.tenant_id, run.recorded_at):
            continue
        if position <= result.last:
            problem = f"it lies behind position {result.last}"
            result.findings.add(found("order", each, problem))
        result.last = position
        result.runs += 1
        result.unchained += run.decision_digest is None
        count_unit(run)
        keep_name(name_of(run))
        if passes(run) and run.decision_position == verified.highest:
            continue
        result.findings.extend(_broken(timeline, each, verified))
        if verified.highest and result.first is None:
            result.first = each
    result.verified = verified.highest
    result.sealed = [digest.finish() for digest in digests]
    return result


def name_of(run: RunSpawned) -> int:
    """8 bytes of the digest of a run's id in its tenant."""
    hashed = _seeded.copy()
    fields = run.__dict__
    # No id holds a line feed.
    hashed.update(f"{fields['tenant_id']}\n{fields['run_id']}".encode())
    name: int = _first_8_bytes(hashed.digest())[0]
    return name


def verified_too_early(each: Recorded[RunSpawned], highest: int) -> Iterator[Finding]:
    """The finding that a run was verified at a position before that of a run before it."""
    if problem := Verified(highest)(each.event):
        yield found("newest", each, problem)


def _broken(timeline: Timeline, each: Recorded[RunSpawned], verified: Verified) -> list[Finding]:
    """What is wrong with a run that was not passed over at the quick look, if anything is."""
    run = each.event
    problems = {
        "routing": routing(timeline, run),
        "newest": newest(timeline, run) or verified(run),
        "chain": run_chain(timeline, run),
    }
    return [found(rule, each, problem) for rule, problem in problems.items() if problem]
