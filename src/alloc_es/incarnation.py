"""Which life of a participant this is: its name, and a number that its store counts up."""

from typing import NamedTuple

from alloc_es.arguments import parse_count
from alloc_es.errors import InvalidSetting
from alloc_es.identity import parse_identifier
from alloc_es.wording import shown

_MOST = 2**62


class Incarnation(NamedTuple):
    """One life of the participant `name`, the `number`th; made by `Allocations.new_incarnation`.

    A plain value: it can be handed to another process, which connects with it.
    """

    name: str
    number: int

    def __str__(self) -> str:
        return f"incarnation {self.number} of {self.name}"


def parse_name(value: object) -> str:
    """A participant's name as a caller gave it; raises `InvalidIdentifier`."""
    return parse_identifier("participant", value)


def parse_incarnation(value: object) -> Incarnation | None:
    """What a caller connects as, None being nobody in particular.

    Raises `InvalidSetting`, and `InvalidIdentifier` for its name.
    """
    if value is None:
        return None
    if not isinstance(value, Incarnation):
        problem = f"{shown(value)} is none; get one from Allocations.new_incarnation"
        raise InvalidSetting("incarnation", problem)
    number = parse_count("incarnation", value.number, _MOST)
    return Incarnation(parse_name(value.name), number)
