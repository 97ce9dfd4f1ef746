"""What held for a workflow at a generation, at a position of the log, and at a time.

Each takes the decisions of one workflow, all of them, oldest first: what `Workflow.history`
returns.
"""

from bisect import bisect_right
from collections.abc import Sequence
from datetime import datetime
from itertools import accumulate

from alloc_es.arguments import parse_ordinal, parse_time
from alloc_es.errors import InvalidSetting
from alloc_es.events import DecisionEvent, Recorded
from alloc_es.history_errors import NothingThen


def at(
    history: Sequence[Recorded[DecisionEvent]],
    *,
    generation: int | None = None,
    position: int | None = None,
    time: datetime | None = None,
) -> Recorded[DecisionEvent]:
    """The decision whose allocation held at one of these, of which exactly one is given.

    Raises `NothingThen`, and `InvalidSetting` for none, for two, and for what can't be one.
    """
    given = [each for each in (generation, position, time) if each is not None]
    if len(given) != 1:
        raise InvalidSetting("at", "give one of generation, position and time")
    if generation is not None:
        return at_generation(history, generation)
    if position is not None:
        return at_position(history, position)
    return at_time(history, time)


def at_generation(
    history: Sequence[Recorded[DecisionEvent]], generation: int
) -> Recorded[DecisionEvent]:
    """The decision that made a generation. Raises `NothingThen` and `InvalidSetting`."""
    parse_ordinal("generation", "generation", generation)
    for each in history:
        if each.generation == generation:
            return each
    raise NothingThen(history[0].event.key, history[0], history[-1], generation=generation)


def at_position(
    history: Sequence[Recorded[DecisionEvent]], position: int
) -> Recorded[DecisionEvent]:
    """The newest decision at a position of the decision log or in front of it.

    Behind the end of the log that is the newest one of all. Raises `NothingThen` and
    `InvalidSetting`.
    """
    parse_ordinal("position", "position", position)
    count = bisect_right(history, position, key=lambda each: each.position)
    if count:
        return history[count - 1]
    raise NothingThen(history[0].event.key, history[0], history[-1], position=position)


def at_time(history: Sequence[Recorded[DecisionEvent]], time: object) -> Recorded[DecisionEvent]:
    """The newest decision that counts at a time, which has a time zone.

    A decision counts from the latest time that it, or one before it in its stream, says. So
    the order is the log's, whatever the writers' clocks said: where one had stepped back, its
    decision counts at once behind the one before it, and a later time never gives an earlier
    allocation. Raises `NothingThen` and `InvalidSetting`.
    """
    time = parse_time("time", time)
    count = bisect_right(list(accumulate((each.time for each in history), max)), time)
    if count:
        return history[count - 1]
    raise NothingThen(history[0].event.key, history[0], history[-1], time=time)
