"""The chain of digests: from each decision to the one before it, from each run to its decision."""

from alloc_es.events import DecisionEvent, Recorded, RunSpawned
from alloc_es.rules.timeline import Timeline


def decision_chain(each: Recorded[DecisionEvent], timeline: Timeline) -> str | None:
    """What a decision is chained to against the one before it; the timeline ends before it.

    What releases before 0.5 wrote carries no digest. Behind a decision that carries one,
    none may lack it.
    """
    event = each.event
    before = timeline.link(event.key, event.generation - 1)
    if event.previous_digest is None:
        unchained = before is None or not before.chained
        return None if unchained else "it carries no digest, and the decision before it does"
    if before is None and event.generation > 1:
        return None  # `order` says that there is none before it.
    owed = before.digest if before else event.key.digest
    if event.previous_digest == owed:
        return None
    said = f"it carries {event.previous_digest}, and the digest of"
    named = f"generation {event.generation - 1}" if before else "its stream's name"
    return f"{said} {named} is {owed}"


def run_chain(timeline: Timeline, run: RunSpawned) -> str | None:
    """The digest that a run carries against the decision that made its generation."""
    link = timeline.link(run.key, run.generation)
    if link is None or run.decision_digest == link.digest:
        return None
    if run.decision_digest is None:
        return "it carries no digest, and its decision does" if link.chained else None
    return (
        f"it carries {run.decision_digest}, and the digest of generation {run.generation} "
        f"is {link.digest}"
    )
