"""What a drill does to its participants, and when: the same for the same seed."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from random import Random
from typing import Literal, get_args

Moment = Literal["before commit", "after commit", "before answer"]
"""A named point in the work of a participant at which it is killed."""

FaultKind = Literal[
    "kill",
    "pause",
    "lost reply",
    "cut",
    "delay",
    "black hole",
    "termination",
    "restart",
    "clock step",
    "full disk",
    "crowd",
]
KINDS: tuple[FaultKind, ...] = get_args(FaultKind)

CLOCK_STEP = 3600.0
"""Seconds by which a clock steps, forward or back."""

_LONGEST_WAIT = 0.01


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault in a round, to the participant `target` of those that it can befall.

    A kill comes at a named `moment`, or `after` so many seconds where that is None. By
    `clock` seconds a clock goes wrong, unless it is wrong already and is put right.
    """

    kind: FaultKind
    target: int
    after: float
    moment: Moment | None = None
    clock: float = 0.0


def plan_faults(seed: int, rounds: int, counts: Mapping[FaultKind, int]) -> dict[int, list[Fault]]:
    """The faults of each round: so many of each kind, spread evenly, drawn from a seed.

    There is none in the first round, in which everybody shows that it works.
    """
    random = Random(seed)
    plan: defaultdict[int, list[Fault]] = defaultdict(list)
    for kind in KINDS:
        for number in range(counts.get(kind, 0)):
            span = (rounds - 1) / counts[kind]
            round_ = 1 + int(number * span + random.random() * span)
            plan[min(round_, rounds - 1)].append(_draw(random, kind))
    return dict(plan)


def _draw(random: Random, kind: FaultKind) -> Fault:
    target, after = random.randrange(2**16), random.uniform(0, _LONGEST_WAIT)
    moment = random.choice((None, *get_args(Moment))) if kind == "kill" else None
    clock = random.choice((-CLOCK_STEP, CLOCK_STEP)) if kind == "clock step" else 0.0
    return Fault(kind, target, after, moment, clock)
