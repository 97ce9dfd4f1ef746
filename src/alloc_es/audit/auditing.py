"""An audit: every rule, checked on the logs of a store or of an export."""

import os
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from datetime import datetime
from pathlib import Path

from alloc_es.app import Allocations
from alloc_es.arguments import parse_count, parse_time
from alloc_es.audit.blocks import BlockDigests
from alloc_es.audit.findings import Findings
from alloc_es.audit.read_side import ReadSide
from alloc_es.audit.repeated_ids import repeated_ids, repeated_names
from alloc_es.audit.report import NUMBERS, AuditReport, RuleReport
from alloc_es.audit.run_pass import PartResult, Scope, pass_over, verified_too_early
from alloc_es.audit.samples import sample_findings, samples_of, verdicts
from alloc_es.audit.seals import Seal, seal_findings, sealed_ranges, sealed_words
from alloc_es.audit.since import first_since
from alloc_es.audit.unreadable import unreadable_decision
from alloc_es.audit.workers import Assignment, Part, checked_by_processes
from alloc_es.errors import InvalidSetting
from alloc_es.events import (
    ChallengerRejectedWithoutReplacement,
    DecisionEvent,
    Recorded,
    RunSpawned,
)
from alloc_es.evidence import Evidence, Unreadable, open_evidence
from alloc_es.identity import TenantId, WorkflowKey, key_of_stream, parse_identifier
from alloc_es.rebuilding import Report, _unreported
from alloc_es.rules import DecisionRules, Timeline
from alloc_es.sample_ratio import SampleRatio
from alloc_es.store.recorder import LOWEST, LogName
from alloc_es.unit_counts import UnitCounts
from alloc_es.wording import numbered

_MOST_PROCESSES = 64


def audit(
    where: str | Path | Allocations,
    *,
    archives: Sequence[Path] = (),
    tenant_id: str | None = None,
    since: datetime | None = None,
    seals: Sequence[Seal] = (),
    processes: int = 1,
    report: Report = _unreported,
) -> AuditReport:
    """Check every rule on a store's URL, the path of an export, or an open connection.

    Nothing is written. The logs are read up to the ends that they have at the beginning. With
    `tenant_id` only that tenant's events are checked, with `since` only what was recorded from
    that time on, by the writers' clocks; what came before is still what they are checked
    against. With `seals` also what was sealed. `processes` check parts of the run log side by
    side, where it is a URL or an export in parts. `report` is called with how many positions
    of the run log are done, and how many there are.

    Memory: what the decisions take, 8 bytes for each run, and about 100 for each unit that
    sticks. Raises `InvalidSetting`, `StoreUnavailable`, `ExportDamaged` for an export that is
    not whole, `RunsArchived` where an archive is needed, and `AuditorLost`.
    """
    scope = Scope(
        None if tenant_id is None else TenantId(parse_identifier("tenant id", tenant_id)),
        None if since is None else parse_time("since", since),
        sealed_ranges(seals, "runs"),
    )
    parse_count("processes", processes, _MOST_PROCESSES)
    with open_evidence(where, archives=archives) as evidence:
        auditing = _Audit(evidence, scope, seals)
        auditing.check_decisions()
        parts = auditing.parts()
        if processes > 1 and len(parts) > 1 and not isinstance(where, Allocations):
            task = Assignment(str(where), archives, auditing.ends["decisions"], scope)
            # Closed at once, also where `report` raises, or a Ctrl-C comes meanwhile.
            with closing(checked_by_processes(task, parts, processes)) as results:
                auditing.take(results, parts, report)
        else:
            auditing.take(auditing.checked(parts), parts, report)
        auditing.require_tenant()
        auditing.check_run_ids()
        auditing.check_read_side(report)
        auditing.note_unchained()
        auditing.check_seals()
        auditing.check_samples()
        return auditing.report()


def usable_cores() -> int:
    """How many cores this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class _Audit:
    """An audit under way."""

    def __init__(self, evidence: Evidence, scope: Scope, seals: Sequence[Seal]) -> None:
        # Before the ends are looked up: else a delivery may be of a trigger behind them.
        self._read_side = ReadSide.of(evidence, scope.tenant_id)
        self.ends: Mapping[LogName, int] = evidence.ends()
        self._evidence = evidence
        self._scope = scope
        self._seals = seals
        self._timeline = Timeline()
        self._findings = Findings()
        self._notes: dict[str, str] = {}
        self._unchecked: dict[str, str] = {}
        self._triggers: list[Recorded[DecisionEvent]] = []
        self._unreadable: set[int] = set()
        self._decisions = 0
        self._runs = 0
        self._verified = 0
        self._unchained = 0
        self._units = UnitCounts()
        self._names: list[array[int]] = []
        self._sealed: list[dict[LogName, dict[int, str]]] = []
        self._samples: Mapping[WorkflowKey, SampleRatio] = {}

    def check_decisions(self) -> None:
        """Check each decision, and learn what held for the runs."""
        rules = DecisionRules(self._timeline)
        digests = [BlockDigests(*bounds) for bounds in sealed_ranges(self._seals, "decisions")]
        for each in self._evidence.decisions():
            if each.position > self.ends["decisions"]:
                break
            for digest in digests:
                digest.add_event(each)
            if isinstance(each, Unreadable):
                self._unreadable.add(each.position)
                self._findings.extend(unreadable_decision(each, self._scope.tenant_id))
                if key := key_of_stream(each.error.stream):
                    rules.pass_over(key, each.error.version, each.position)
            else:
                self._check_decision(rules, each)
        self._timeline.end = self.ends["decisions"]
        self._sealed = [{"decisions": dict(digest.finish()), "runs": {}} for digest in digests]

    def _check_decision(self, rules: DecisionRules, each: Recorded[DecisionEvent]) -> None:
        if self._scope.tenant_id not in (None, each.event.key.tenant_id):
            return
        found = rules.findings(each)
        if self._scope.since is None or each.time >= self._scope.since:
            self._decisions += 1
            self._unchained += each.event.previous_digest is None
            self._findings.extend(found)
        if isinstance(each.event, ChallengerRejectedWithoutReplacement):
            self._triggers.append(each)

    def parts(self) -> Sequence[Part]:
        """The parts of the run log that are to be checked."""
        end, parts = self.ends["runs"], self._evidence.parts()
        begin = LOWEST
        if self._scope.since is not None and not self._seals:
            begin = first_since(self._evidence, self._scope.since, end)
        bounds = ((max(first, begin), min(last, end)) for first, last in parts)
        return [(first, last) for first, last in bounds if first < last]

    def checked(self, parts: Sequence[Part]) -> Iterator[PartResult]:
        """The results of the parts, checked in this process."""
        for part in parts:
            yield pass_over(self._timeline, self._evidence.runs(*part), self._scope)

    def take(self, results: Iterable[PartResult], parts: Sequence[Part], report: Report) -> None:
        """Put the results of the parts together, in their order."""
        for (_, up_to), result in zip(parts, results, strict=True):
            # The part before it may have come further than this one begins.
            if result.first is not None:
                self._findings.extend(verified_too_early(result.first, self._verified))
            self._verified = max(self._verified, result.verified)
            self._findings.merge(result.findings)
            self._runs += result.runs
            self._unchained += result.unchained
            self._units.merge(result.units)
            self._names.append(result.names)
            for sealed, digests in zip(self._sealed, result.sealed, strict=True):
                sealed["runs"].update(digests)
            report(up_to, self.ends["runs"])

    def require_tenant(self) -> None:
        """Refuse a tenant of which there is no event: it is misspelt, and nothing was checked."""
        tenant_id = self._scope.tenant_id
        if tenant_id is None or self._timeline.keys or self._runs or self._findings.counts:
            return
        problem = f"{tenant_id} has no event in {self._evidence.where}; look for a misspelt id"
        raise InvalidSetting("tenant", problem)

    def check_run_ids(self) -> None:
        """Look whether a tenant gave out an id twice, among the runs that were checked."""
        if repeated := repeated_names(self._names):
            self._findings.extend(repeated_ids(repeated, self._in_scope()))

    def _in_scope(self) -> Iterator[Recorded[RunSpawned]]:
        for part in self.parts():
            for each in self._evidence.runs(*part):
                if not isinstance(each, Unreadable) and self._scope.holds(
                    each.event.tenant_id, each.time
                ):
                    yield each

    def check_read_side(self, report: Report) -> None:
        """Hold the read models, and what consumers were given, against the logs."""
        if self._read_side is None:
            problem = "an export holds the logs alone; audit the store"
            self._unchecked |= {"deliveries": problem, "read_models": problem}
            return
        if self._read_side.unread:
            self._unchecked["deliveries"] = self._read_side.unread
        end = self.ends["decisions"]
        self._findings.extend(
            self._read_side.delivery_findings(self._triggers, end, self._unreadable)
        )
        compared, left = self._read_side.check_models(self._findings, report)
        note = f"compared {', '.join(compared)}" if compared else ""
        self._notes["read_models"] = "; ".join(filter(None, (note, *left)))
        if not compared:
            self._unchecked["read_models"] = "; ".join(left) or "none is built"

    def note_unchained(self) -> None:
        """Say how many events carry no digest: what they were before is not proved."""
        events = self._decisions + self._runs
        if not self._unchained:
            return
        of = numbered(events, "event")
        problem = f"{self._unchained:,} of {of} carry no digest, as before release 0.5"
        self._notes["chain"] = problem
        if self._unchained == events:
            self._unchecked["chain"] = problem

    def check_seals(self) -> None:
        """Hold the logs against what was sealed."""
        if not self._seals:
            self._unchecked["seal"] = "no seal was given (--seal)"
        self._notes["seal"] = sealed_words(self._seals, self.ends)
        for seal, digests in zip(self._seals, self._sealed, strict=True):
            self._findings.extend(
                seal_findings(seal, self._timeline, self.ends, digests, self._scope.tenant_id)
            )

    def check_samples(self) -> None:
        """Hold the units that versions got against their shares."""
        try:
            self._samples = samples_of(self._units.epochs(self._timeline))
        except InvalidSetting as error:
            self._unchecked["sample_ratio"] = str(error)
            return
        self._findings.extend(sample_findings(self._samples))
        self._notes["sample_ratio"] = verdicts(self._samples)

    def report(self) -> AuditReport:
        """What was found."""
        kept = self._findings.kept
        return AuditReport(
            where=self._evidence.where,
            tenant_id=self._scope.tenant_id,
            since=self._scope.since,
            ends=self.ends,
            workflows=len(self._timeline.keys),
            decisions=self._decisions,
            runs=self._runs,
            rules=tuple(self._rule(name) for name in NUMBERS),
            findings=tuple(finding for name in NUMBERS for finding in kept[name]),
            samples=self._samples,
        )

    def _rule(self, name: str) -> RuleReport:
        count = self._findings.counts[name]
        if count:
            return RuleReport(name, "broken", count, self._notes.get(name, ""))
        if name in self._unchecked:
            return RuleReport(name, "not checked", 0, self._unchecked[name])
        return RuleReport(name, "kept", 0, self._notes.get(name, ""))
