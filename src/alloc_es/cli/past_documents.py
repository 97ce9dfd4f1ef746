"""What looking back answers with, as JSON documents."""

from collections.abc import Mapping, Sequence
from typing import Any

from alloc_es.cli.documents import (
    allocation_document,
    event_document,
    event_fields,
    proposal_document,
)
from alloc_es.comparing import Comparison
from alloc_es.events import DecisionEvent, Recorded, RunSpawned
from alloc_es.explaining import Explanation
from alloc_es.identity import Version
from alloc_es.replaying import Moved, Replay, Skipped
from alloc_es.tenures import Tenure


def explanation_document(found: Explanation) -> dict[str, Any]:
    """Why a run got its version."""
    recomputed = found.recomputed
    return {
        "run": recorded_run_document(found.run),
        "decision": event_document(found.decision) if found.decision else None,
        "following": event_document(found.following) if found.following else None,
        "recomputed": recomputed._asdict() if recomputed else None,
        "differences": [difference._asdict() for difference in found.differences],
        "verified": found.verified,
        "digest_matches": found.digest_matches,
        "holds": found.holds,
    }


def recorded_run_document(run: Recorded[RunSpawned]) -> dict[str, Any]:
    """A run with its place in the log."""
    return {"position": run.position, **run.event.model_dump(mode="json"), "digest": run.digest}


def tenure_documents(tenures: Sequence[Tenure], runs: Sequence[int] | None) -> list[dict[str, Any]]:
    """Each time that a version served, with its runs where they were counted."""
    counts = [None] * len(tenures) if runs is None else runs
    return [_tenure_document(*each) for each in zip(tenures, counts, strict=True)]


def _tenure_document(tenure: Tenure, runs: int | None) -> dict[str, Any]:
    return {
        "version": tenure.version,
        "role": tenure.role,
        **_end("since", tenure.began),
        **_end("until", tenure.ended),
        "outcome": tenure.outcome,
        "shares": [{"generation": at, "share_bps": share} for at, share in tenure.shares],
        "runs": runs,
    }


def _end(name: str, decision: Recorded[DecisionEvent] | None) -> dict[str, Any]:
    """One end of a tenure: the place, the time, the author and the reason of its decision."""
    fields = decision.event.model_dump(mode="json") if decision else {}
    return {
        f"{name}_generation": decision.generation if decision else None,
        f"{name}_position": decision.position if decision else None,
        name: fields.get("recorded_at"),
        f"{name}_actor": fields.get("actor"),
        f"{name}_reason": fields.get("reason"),
    }


def comparison_document(
    found: Comparison, between: list[Recorded[DecisionEvent]]
) -> dict[str, Any]:
    """What differs between two generations, and the decisions from the one to the other."""
    return {
        "before": allocation_document(found.before),
        "after": allocation_document(found.after),
        "came": list(found.came),
        "left": list(found.left),
        "shares": {
            version: {"before": old, "after": new} for version, (old, new) in found.shares.items()
        },
        "moved": [
            {"from": old, "to": new, "buckets": count} for (old, new), count in found.moved.items()
        ],
        "rehashed": found.rehashed,
        "decisions": [event_document(entry) for entry in between],
    }


def replay_document(found: Replay) -> dict[str, Any]:
    """What would have become of the runs."""
    return {
        **found.key._asdict(),
        "runs": found.runs,
        "moved": sum(found.moved.values()),
        "moves": _pairs_document(found.moved),
        "routed": _pairs_document(found.routed),
        "unplaced": found.unplaced,
        "skipped": [_skipped_document(skipped) for skipped in found.skipped],
        "allocation": allocation_document(found.allocation) if found.allocation else None,
    }


def _pairs_document(counts: Mapping[tuple[Version, Version], int]) -> list[dict[str, Any]]:
    return [{"from": old, "to": new, "runs": count} for (old, new), count in counts.items()]


def moved_document(moved: Moved) -> dict[str, Any]:
    """A run that would have gone elsewhere."""
    run, routing = moved
    return {
        "run_id": run.event.run_id,
        "unit": run.event.unit,
        "position": run.position,
        "generation": run.generation,
        "from": run.event.version,
        "to": routing.version,
        "bucket": routing.bucket,
    }


def _skipped_document(skipped: Skipped) -> dict[str, Any]:
    decision, proposal, refusal = skipped
    return {
        "generation": decision.generation,
        "position": decision.position,
        "decision": None if proposal else event_fields(decision.event),
        "proposal": proposal_document(proposal) if proposal else None,
        "refusal": {"type": type(refusal).__name__, "message": str(refusal)},
    }
