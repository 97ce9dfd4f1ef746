"""The rules in words, and a place in a log where one was not kept."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from alloc_es.events import DecisionEvent, Recorded, RunSpawned

RULES: Mapping[str, str] = {
    "order": (
        "Positions rise, one event at each; the generations of a workflow are 1, 2, 3, …, and "
        "none of its command ids stands for two decisions."
    ),
    "allocations": (
        "Every allocation has one control, with a share above zero; its shares sum to 10,000 "
        "and its slots hold every bucket once."
    ),
    "challengers": "No decision adds a challenger beyond the most that were allowed at that time.",
    "transitions": "Every decision is what its command makes of the allocation before it.",
    "rejections": (
        "A challenger that leaves with nothing in its place, other than by a rollback, leaves "
        "by one rejection without replacement, and each such rejection takes one out."
    ),
    "slots": (
        "A challenger loses no more buckets than its share fell by, and none to another one "
        "while the control has some to give; no unit is hashed anew while one is live."
    ),
    "routing": (
        "Every run's bucket, arm, version, slot, episode and salt are those that follow from "
        "its unit and generation."
    ),
    "newest": (
        "Every run's generation was the newest of its workflow at its decision position, and these "
        "positions never fall along the log, so none is on a version that was rejected or "
        "superseded by then."
    ),
    "run_ids": "A tenant gives out each run id once.",
    "chain": (
        "Every decision carries the digest of the one before it in its stream, and every run that "
        "of the decision that allotted it; only what releases before 0.5 wrote carries none."
    ),
    "readable": "Every row is an event that this release knows, in the place where it lies.",
    "deliveries": (
        "Each consumer of triggers was given each rejection without replacement since it began "
        "once, and nothing else, and has acknowledged it or still has to."
    ),
    "read_models": "Every read model is what a fresh fold of the logs makes.",
    "seal": "Nothing up to a sealed position was changed, removed or inserted.",
    "sample_ratio": (
        "The units that each version got are as many as its shares promise, but for chance."
    ),
    "begun": "No run was verified at a position before a decision that its call began behind.",
    "service": "Every run's version served at some moment from the beginning of its call on.",
}
"""Name → text of each rule; the last two need to know when the runs' calls began."""


@dataclass(frozen=True, slots=True)
class Finding:
    """An event that broke a rule: where it lies, whose it is, and what is wrong with it.

    `rule` is a name in `RULES`. `generation` is the one that a decision made or that a run
    was allotted at; `command_id` is a decision's, `run_id` a run's. What does not lie at a
    place in a log, or is not known to be anybody's, has None there.
    """

    rule: str
    log: Literal["decisions", "runs"] | None
    position: int | None
    generation: int | None
    tenant_id: str | None
    workflow_id: str | None
    command_id: str | None
    run_id: str | None
    problem: str

    @property
    def text(self) -> str:
        """The rule in words."""
        return RULES[self.rule]

    def __str__(self) -> str:
        place = f"{self.log}, position {self.position}" if self.position is not None else self.log
        said = ": ".join(filter(None, (place, self._whose(), self.problem)))
        return f"{said} ({self.rule}: {self.text})"

    def _whose(self) -> str:
        """What broke the rule, and whose it is, as far as that is known."""
        event = f"run {self.run_id}" if self.run_id is not None else ""
        if self.command_id is not None:
            event = f"command {self.command_id}"
        key = f"{self.tenant_id}/{self.workflow_id}" if self.workflow_id is not None else ""
        whose = " of ".join(filter(None, (event, key)))
        generation = f"generation {self.generation}" if self.generation is not None else ""
        return ", ".join(filter(None, (whose, generation)))


def found(rule: str, each: Recorded[DecisionEvent] | Recorded[RunSpawned], problem: str) -> Finding:
    """The finding that an event has broken a rule."""
    event = each.event
    is_run = isinstance(event, RunSpawned)
    return Finding(
        rule=rule,
        log="runs" if is_run else "decisions",
        position=each.position,
        generation=each.generation,
        tenant_id=event.key.tenant_id,
        workflow_id=event.key.workflow_id,
        command_id=None if isinstance(event, RunSpawned) else event.command_id,
        run_id=event.run_id if isinstance(event, RunSpawned) else None,
        problem=problem,
    )
