"""Values and arms in words, for messages."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from alloc_es.allocation import Arm


_MOST_LISTED = 10


def shown(value: object) -> str:
    """Whatever a caller gave, for a message: printable ASCII of at most 80 characters."""
    try:
        text = ascii(value)
    except ValueError:
        # Python prints no integer of more than 4,300 digits.
        text = f"a huge {type(value).__name__}"
    return text if len(text) <= 80 else f"{text[:77]}..."


def with_article(noun: str) -> str:
    """A noun with the article that it is spoken with."""
    # A unit and a UUID begin with the sound of "you", as all of ours in u do.
    return f"{'an' if noun[:1].lower() in tuple('aeio') else 'a'} {noun}"


def listed(things: Sequence[object]) -> str:
    """Things one after the other as a sentence has them; of more than ten the first ten."""
    named = [str(thing) for thing in things[:_MOST_LISTED]]
    if len(things) > len(named):
        named.append(f"{len(things) - len(named):,} more")
    return " and ".join(part for part in (", ".join(named[:-1]), named[-1]) if part)


def numbered(count: int, noun: str) -> str:
    """So many of something: "1 round", "1,000 rounds"."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def name_arms(arms: Sequence["Arm"]) -> str:
    """Name arms with the generation and time since which they are live."""
    return ", ".join(
        f"{arm.version} (since generation {arm.since_generation}, {arm.since:%Y-%m-%d %H:%M} UTC)"
        for arm in arms
    )
