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
        "Every run's generation was the newest of its workflow at its decision position, so "
        "none is on a version that was rejected or superseded by then."
    ),
    "run_ids": "A tenant gives out each run id once.",
    "chain": (
        "Every decision carries the digest of the one before it in its stream, and every run that "
        "of the decision that allotted it; only what releases before 0.5 wrote carries none."
    ),
    "begun": "No run was verified at a position before a decision that its call began behind.",
    "service": "Every run's version served at some moment from the beginning of its call on.",
}
"""Name → text of each rule; the last two need to know when the runs' calls began."""


@dataclass(frozen=True, slots=True)
class Finding:
    """An event that broke a rule: where it lies, whose it is, and what is wrong with it.

    `rule` is a name in `RULES`. `generation` is the one that a decision made or that a run
    was allotted at; `command_id` is a decision's, `run_id` a run's, and the other is None.
    """

    rule: str
    log: Literal["decisions", "runs"]
    position: int
    generation: int
    tenant_id: str
    workflow_id: str
    command_id: str | None
    run_id: str | None
    problem: str

    @property
    def text(self) -> str:
        """The rule in words."""
        return RULES[self.rule]

    def __str__(self) -> str:
        what = f"command {self.command_id}" if self.run_id is None else f"run {self.run_id}"
        return (
            f"{self.log}, position {self.position}: {what} of {self.tenant_id}/{self.workflow_id}, "
            f"generation {self.generation}: {self.problem} ({self.rule}: {self.text})"
        )


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
