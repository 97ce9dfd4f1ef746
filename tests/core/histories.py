"""Random histories: commands in an order that Hypothesis chooses, and what became of each."""

from random import Random
from typing import NamedTuple

from hypothesis import strategies as st

from alloc_es.allocation import Allocation
from alloc_es.commands import Command, RejectChallenger
from alloc_es.decider import evolve
from alloc_es.errors import Refusal
from alloc_es.events import AllocationCommitted, DecisionEvent
from alloc_es.identity import Version
from tests.core.given import commit, promote, register, reject, roll_back, start, when

NAMES = tuple(Version(f"v{number}") for number in range(1, 7))
ODD_SHARES = (0, 1, 500, 5_000, 9_999, 10_000)
KINDS = ("start", "register", "commit", "promote", "replace", "reject", "roll back")
WEIGHTS = (1, 6, 6, 2, 3, 2, 2)


class Step(NamedTuple):
    """A command, the state that it met and the limit that held, and what became of it."""

    before: Allocation | None
    command: Command
    max_challengers: int
    event: DecisionEvent | None
    refusal: Refusal | None
    after: Allocation | None


History = list[Step]


@st.composite
def histories(draw: st.DrawFn, most_challengers: int = 4) -> History:
    """A history of commands, most of which find something to act on.

    Hypothesis draws the seed and the length and so shrinks to the shortest prefix that
    fails; drawing each choice, it met too few of the rarer cases.
    """
    random = draw(st.randoms(use_true_random=True))
    limit = random.randint(1, most_challengers)
    state: Allocation | None = None
    history: History = []
    currents: dict[int, Version] = {}
    for _ in range(draw(st.integers(1, 40))):
        history.append(step := take(state, command_for(random, state, currents), limit))
        state = step.after
        if state is not None:
            currents[state.generation] = state.current
    return history


def take(before: Allocation | None, command: Command, max_challengers: int) -> Step:
    """Send a command to a state and keep what became of it."""
    try:
        events = when(before, command, max_challengers)
    except Refusal as refusal:
        return Step(before, command, max_challengers, None, refusal, before)
    if not events:
        return Step(before, command, max_challengers, None, None, before)
    return Step(before, command, max_challengers, events[0], None, evolve(before, events[0]))


def command_for(random: Random, state: Allocation | None, currents: dict[int, Version]) -> Command:
    """A command; `currents` has the version that was current at each generation."""
    live = state.challengers if state else ()
    names = live if live and random.random() < 0.8 else NAMES
    name, other = random.choice(names), random.choice(NAMES)
    share = random.randint(0, 2_500) if random.random() < 0.8 else random.choice(ODD_SHARES)
    starts = state is None and random.random() < 0.8
    match "start" if starts else random.choices(KINDS, WEIGHTS)[0]:
        case "start":
            return start(name)
        case "register":
            salt = f"salt of {state.generation + 1 if state else 1}"
            return register(other, share, salt)
        case "commit":
            again = {version: state.split[version] for version in live} if state else {}
            every = {version: random.randint(0, 2_500) for version in live}
            return commit(random.choice([{name: share}, {name: 9, other: share}, every, again]))
        case "promote":
            return promote(name)
        case "replace":
            return reject(name, other)
        case "reject":
            return reject(name)
        case _:
            generation = random.choice([None, *range(1, len(currents) + 2)])
            target = currents.get(generation) if generation else None
            return roll_back(generation, target, random.choice([live, live, (), ("v6",)]))


def events_of(history: History) -> list[DecisionEvent]:
    return [step.event for step in history if step.event is not None]


def describe_outcome(step: Step) -> str:
    """What became of a command, in one word: an event's kind, a refusal's kind, or nothing."""
    if step.refusal is not None:
        return type(step.refusal).__name__
    if isinstance(step.event, AllocationCommitted):
        return step.event.decision
    return type(step.event).__name__ if step.event else "nothing"


def kind(command: Command) -> str:
    """A command's kind, where a rejection with a replacement is a kind of its own."""
    replaces = isinstance(command, RejectChallenger) and command.replacement is not None
    return "replace" if replaces else type(command).__name__
