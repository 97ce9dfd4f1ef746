"""A seal: a small file, kept elsewhere, that says what the logs were up to a position."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from alloc_es.audit.blocks import BlockDigests, blocks_of, in_order, root
from alloc_es.codec import digest
from alloc_es.errors import InvalidSetting
from alloc_es.evidence import Evidence, Unreadable
from alloc_es.identity import TenantId, WorkflowId, WorkflowKey
from alloc_es.rebuilding import Report
from alloc_es.rules import Finding, Timeline
from alloc_es.store.log import BLOCK
from alloc_es.store.recorder import LOGS, LogName

FORMAT = "alloc-es seal, version 1"


@dataclass(frozen=True, slots=True)
class SealedLog:
    """The positions `(after, up_to]` of one log: how many events, and the digests of its blocks.

    `root` is the digest of all blocks; see `alloc_es.audit.blocks`.
    """

    after: int
    up_to: int
    events: int
    root: str
    blocks: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Head:
    """The newest decision of a workflow when it was sealed."""

    tenant_id: str
    workflow_id: str
    generation: int
    digest: str

    @property
    def key(self) -> WorkflowKey:
        """The workflow."""
        return WorkflowKey(TenantId(self.tenant_id), WorkflowId(self.workflow_id))


@dataclass(frozen=True, slots=True)
class Seal:
    """What both logs of a store were: a range of each, and the heads of all streams.

    `previous` is the SHA-256 of the seal that this one goes on from, if any.
    """

    format: str
    where: str
    sealed_at: datetime
    decisions: SealedLog
    runs: SealedLog
    heads: tuple[Head, ...]
    previous: str | None

    def written(self) -> bytes:
        """The seal as a file's bytes."""
        document = asdict(self) | {"sealed_at": self.sealed_at.astimezone(UTC).isoformat()}
        return json.dumps(document, indent=1, ensure_ascii=False).encode() + b"\n"

    def log(self, name: LogName) -> SealedLog:
        """The range of one of the two logs."""
        return self.decisions if name == "decisions" else self.runs

    @property
    def digest(self) -> str:
        """The SHA-256 of the seal's file."""
        return sha256(self.written()).hexdigest()


_SEAL = TypeAdapter(Seal)
# Nobody seals so many at once, but positions that other hands have written may be anywhere.
_MOST_BLOCKS = 1_000_000


def read_seal(path: Path) -> Seal:
    """The seal in a file. Raises `InvalidSetting` for a file that is none, or is damaged.

    Who edits it with every digest right is told by the SHA-256 of the file alone.
    """
    try:
        stored = path.read_bytes()
        seal = _SEAL.validate_json(stored)
    except OSError as error:
        raise InvalidSetting("seal", f"{path} can't be read: {error.strerror}") from error
    except ValidationError as error:
        raise InvalidSetting("seal", f"{path} is no seal: {error.errors()[0]['msg']}") from error
    if not (_fits(seal.decisions) and _fits(seal.runs)):
        raise InvalidSetting("seal", f"{path} was edited: its blocks don't make its root")
    if seal.format != FORMAT or seal.written() != stored:
        raise InvalidSetting("seal", f"{path} is not as `alloc-es seal` writes it: {FORMAT}")
    return seal


def _fits(log: SealedLog) -> bool:
    """Whether the blocks are those of the range, and make the root."""
    # Whatever numbers a file may hold: a range too long has no length.
    blocks = -(-log.up_to // BLOCK) - log.after // BLOCK
    return (
        0 <= log.after <= log.up_to and len(log.blocks) == blocks and root(log.blocks) == log.root
    )


def make_seal(evidence: Evidence, now: datetime, *, previous: Seal | None, report: Report) -> Seal:
    """Seal both logs from their beginnings, or from where `previous` ends, up to their ends.

    Raises the `UnreadableEvent` of a decision that is no event, whose workflow has no head, and
    `InvalidSetting` where a log ends before `previous` does.
    """
    ends = evidence.ends()
    begins = {log: previous.log(log).up_to if previous else 0 for log in LOGS}
    for log in LOGS:
        if ends[log] < begins[log]:
            problem = f"{evidence.where} ends at position {ends[log]} of the {log}, and the seal is"
            raise InvalidSetting("after", f"{problem} of what was sealed up to {begins[log]}")
        if ends[log] - begins[log] > _MOST_BLOCKS * BLOCK:
            problem = (
                f"{evidence.where} has position {ends[log]} of the {log}, too far away to seal"
            )
            raise InvalidSetting("store", problem)
    timeline = Timeline()
    decisions = BlockDigests(begins["decisions"], ends["decisions"])
    for decision in evidence.decisions():
        if isinstance(decision, Unreadable):
            raise decision.error
        if decision.position > ends["decisions"]:
            break
        decisions.add_event(decision)
        timeline.add(decision)
    runs = BlockDigests(begins["runs"], ends["runs"])
    for position, stream, version, name, state in evidence.stored("runs", *runs.range):
        runs.add(position, name, stream, version, digest(state))
        if position % BLOCK == 0:
            report(position - begins["runs"], ends["runs"] - begins["runs"])
    heads = (_head(timeline, key) for key in sorted(timeline.keys))
    return Seal(
        format=FORMAT,
        where=evidence.where,
        sealed_at=now,
        decisions=_sealed(decisions),
        runs=_sealed(runs),
        heads=tuple(heads),
        previous=previous.digest if previous else None,
    )


def _sealed(digests: BlockDigests) -> SealedLog:
    """The range of a log that was digested."""
    after, up_to = digests.range
    blocks = in_order(after, up_to, digests.finish())
    return SealedLog(after, up_to, digests.events, root(blocks), tuple(blocks))


def _head(timeline: Timeline, key: WorkflowKey) -> Head:
    newest = timeline.last(key)
    assert newest is not None
    link = timeline.link(key, newest.generation)
    assert link is not None
    return Head(*key, newest.generation, link.digest)


def seal_findings(
    seal: Seal,
    timeline: Timeline,
    ends: Mapping[LogName, int],
    digests: Mapping[LogName, Mapping[int, str]],
    tenant_id: TenantId | None,
) -> Iterator[Finding]:
    """What is not as it was sealed: blocks of the logs, and the decisions at the heads.

    `digests` are those of the blocks within the sealed ranges, as they are now. Of heads
    those of `tenant_id` only, or of all where that is None.
    """
    for name in LOGS:
        log = seal.log(name)
        if ends[name] < log.up_to:
            problem = f"the log ends at position {ends[name]}, and is sealed up to {log.up_to}"
            yield _finding(name, ends[name], problem)
        now = in_order(log.after, log.up_to, digests[name])
        for block, held, found in zip(
            blocks_of(log.after, log.up_to), log.blocks, now, strict=True
        ):
            if held != found:
                first, last = max(block * BLOCK, log.after) + 1, min((block + 1) * BLOCK, log.up_to)
                problem = f"positions {first} to {last} are not what they were when sealed"
                yield _finding(name, first, problem)
    for head in seal.heads:
        if tenant_id not in (None, head.tenant_id):
            continue
        link = timeline.link(head.key, head.generation)
        if link is None or link.digest != head.digest:
            yield Finding(
                rule="seal",
                log="decisions",
                position=None,
                generation=head.generation,
                tenant_id=head.tenant_id,
                workflow_id=head.workflow_id,
                command_id=None,
                run_id=None,
                problem=(
                    "it is not there any more" if link is None else f"its digest is {link.digest}"
                )
                + f", and was sealed as {head.digest}",
            )


def _finding(name: LogName, position: int, problem: str) -> Finding:
    return Finding("seal", name, position, None, None, None, None, None, problem)


def sealed_ranges(seals: Sequence[Seal], name: LogName) -> list[tuple[int, int]]:
    """The ranges of one log that seals are about."""
    return [(seal.log(name).after, seal.log(name).up_to) for seal in seals]


def sealed_words(seals: Sequence[Seal], ends: Mapping[LogName, int]) -> str:
    """What each seal is about, and what is behind it, or before it and under no seal given."""
    given = {seal.digest for seal in seals}
    return "; ".join(_words(seal, ends, known=seal.previous in given) for seal in seals)


def _words(seal: Seal, ends: Mapping[LogName, int], *, known: bool) -> str:
    covered = " and ".join(f"{log} {_range(seal.log(log))} of {ends[log]:,}" for log in LOGS)
    said = f"{covered}, sealed {seal.sealed_at:%Y-%m-%d %H:%M} UTC, SHA-256 {seal.digest}"
    begins = [seal.log(log).after for log in LOGS]
    if known or not any(begins):
        return said
    return f"{said}; what is before them is not checked: give the seal before it, too"


def _range(log: SealedLog) -> str:
    return f"{log.after + 1:,} to {log.up_to:,}" if log.up_to > log.after else "none"
