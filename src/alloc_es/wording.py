"""Values, events and arms in words, for messages."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from alloc_es.allocation import Arm
    from alloc_es.events import DecisionEvent


def shown(value: object) -> str:
    """Whatever a caller gave, for a message: printable ASCII of at most 80 characters."""
    try:
        text = ascii(value)
    except ValueError:
        # Python prints no integer of more than 4,300 digits.
        text = f"a huge {type(value).__name__}"
    return text if len(text) <= 80 else f"{text[:77]}..."


def describe(event: "DecisionEvent") -> str:
    """Say in a few words what a decision did, for a message or a table."""
    version = event.version
    match getattr(event, "decision", type(event).__name__):
        case "ChallengerRegistered":
            return f"registered {version}"
        case "ChallengerRejectedWithoutReplacement":
            return f"rejected {version} without a replacement"
        case "start":
            return f"started with {version}"
        case "promotion":
            return f"promoted {version}"
        case "replacement":
            return f"replaced {event.dropped[0]} by {version}"  # type: ignore[union-attr]
        case "rollback":
            return f"rolled back to {version}"
        case _:
            shares = event.shares or {}  # type: ignore[union-attr]
            return "gave " + ", ".join(f"{v} {bps / 100:g}%" for v, bps in shares.items())


def name_arms(arms: Sequence["Arm"]) -> str:
    """Name arms with the generation and time since which they are live."""
    return ", ".join(
        f"{arm.version} (since generation {arm.since_generation}, {arm.since:%Y-%m-%d %H:%M} UTC)"
        for arm in arms
    )
