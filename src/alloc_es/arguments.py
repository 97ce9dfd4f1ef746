"""Arguments of the command API, read as callers give them."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from inspect import iscoroutinefunction
from pathlib import Path

from alloc_es.errors import InvalidSetting, InvalidSplit
from alloc_es.identity import Version, parse_identifier
from alloc_es.split import parse_share_bps
from alloc_es.wording import shown

# Well inside what both databases count to.
_LAST_ORDINAL = 2**62
# PostgreSQL counts a timeout in milliseconds, and 0 of them would mean none.
_SHORTEST_TIMEOUT = 0.001
_LONGEST_TIMEOUT = 86_400.0


def parse_version(value: object) -> Version:
    return Version(parse_identifier("version", value))


def parse_versions(value: object) -> tuple[Version, ...]:
    if isinstance(value, str):
        return (parse_version(value),)
    if not isinstance(value, Iterable):
        raise InvalidSetting("drop", f"{shown(value)} names no versions; give a list of them")
    return tuple(parse_version(version) for version in value)


def parse_shares(value: object) -> tuple[tuple[Version, int], ...]:
    if not isinstance(value, Mapping) or not value:
        raise InvalidSplit(
            f"{shown(value)} sets no share", "give a mapping from challengers to basis points"
        )
    return tuple((parse_version(version), parse_share_bps(bps)) for version, bps in value.items())


def parse_ordinal(setting: str, kind: str, value: object) -> int:
    """A generation or a position as a caller gave it, from 0 up; raises `InvalidSetting`."""
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _LAST_ORDINAL:
        raise InvalidSetting(setting, f"{shown(value)} is no {kind}; give an integer from 0 up")
    return value


def parse_count(setting: str, value: object, most: int) -> int:
    """A number of things as a caller gave it, 1 to `most`; raises `InvalidSetting`."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidSetting(setting, f"{shown(value)} is not an integer")
    if not 1 <= value <= most:
        raise InvalidSetting(setting, f"{shown(value)} is not within 1..{most}")
    return value


def parse_timeout(value: object) -> float:
    """A timeout in seconds as a caller gave it; raises `InvalidSetting`."""
    return parse_seconds("timeout", value, _LONGEST_TIMEOUT)


def parse_seconds(setting: str, value: object, most: float) -> float:
    """A number of seconds as a caller gave it, 0.001 to `most`; raises `InvalidSetting`."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidSetting(setting, f"{shown(value)} is no number of seconds")
    if not _SHORTEST_TIMEOUT <= value <= most:
        problem = f"{shown(value)} is not within {_SHORTEST_TIMEOUT}..{most} seconds"
        raise InvalidSetting(setting, problem)
    return value


def parse_paths(setting: str, value: object) -> list[Path]:
    """Paths as a caller gave them; raises `InvalidSetting` for what is no list of them."""
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise InvalidSetting(setting, f"{shown(value)} is no list of paths")
    try:
        return [Path(each) for each in value]
    except TypeError as error:
        raise InvalidSetting(setting, f"{shown(value)} holds what is no path") from error


def parse_generation(setting: str, value: object) -> int | None:
    return None if value is None else parse_ordinal(setting, "generation", value)


def is_async(value: object) -> bool:
    """Whether what it returns when it is called would have to be awaited."""
    return iscoroutinefunction(value) or iscoroutinefunction(getattr(value, "__call__", None))  # noqa: B004


def parse_time(name: str, value: object) -> datetime:
    """Return a moment given by application code. Raises `InvalidSetting` where it has no zone."""
    if not isinstance(value, datetime) or value.utcoffset() is None:
        raise InvalidSetting(name, f"{shown(value)} is no datetime with its time zone")
    return value
