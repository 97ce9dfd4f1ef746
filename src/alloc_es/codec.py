"""Events to stored bytes and back: explicit names, schema versions and upcasters."""

import json
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import datetime
from functools import lru_cache
from hashlib import sha256
from itertools import chain, repeat
from json.encoder import encode_basestring as _quoted
from typing import Any

from pydantic import ValidationError
from pydantic_core import from_json, to_json

from alloc_es.errors import UnreadableEvent
from alloc_es.events import (
    AllocationCommitted,
    ChallengerRegistered,
    ChallengerRejectedWithoutReplacement,
    Event,
    RunSpawned,
)
from alloc_es.wording import with_article

EVENT_TYPES: Mapping[str, type[Event]] = {
    "AllocationCommitted": AllocationCommitted,
    "ChallengerRegistered": ChallengerRegistered,
    "ChallengerRejectedWithoutReplacement": ChallengerRejectedWithoutReplacement,
    "RunSpawned": RunSpawned,
}
"""Stored name → model. A name is never reused and never derived from a class."""

SCHEMA_VERSIONS: Mapping[str, int] = dict.fromkeys(EVENT_TYPES, 2)
"""Stored name → the schema version that this release writes."""

Upcaster = Callable[[dict[str, Any]], dict[str, Any]]

_DIGESTS = {
    "AllocationCommitted": "previous_digest",
    "ChallengerRegistered": "previous_digest",
    "ChallengerRejectedWithoutReplacement": "previous_digest",
    "RunSpawned": "decision_digest",
}


def _unchained(field: str) -> Upcaster:
    """Events of schema version 1 carry no digest of another one."""

    def upcast(fields: dict[str, Any]) -> dict[str, Any]:
        if field in fields:
            raise ValueError(f"its schema version 1 has no {field}")
        return {**fields, field: None}

    return upcast


UPCASTERS: Mapping[tuple[str, int], Upcaster] = {
    (name, 1): _unchained(field) for name, field in _DIGESTS.items()
}
"""(stored name, schema version) → what makes the next version's fields of that one's."""

RUN_SPAWNED = "RunSpawned"

POSITION = "\x01"
"""Stands for a run's decision position until the store knows it; JSON text never holds it."""

_NAMES = {model: name for name, model in EVENT_TYPES.items()}
_FILLED = frozenset({"actor", "bucket", "recorded_at", "run_id", "unit"})
_LEFT_OPEN = "decision_position"
_TEXT = rb"[^\"\\\x00-\x1f]*"
_ANY_TEXT = rb'[^"\\]*(?:\\.[^"\\]*)*'
_NUMBER = rb"(?:0|[1-9]\d*)"
_TIME = rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{6})?Z"
# The names are sorted, as they are stored. Between what each run has of its own is what those
# of a kind have in common, which is compared as it is.
_RUN = re.compile(
    rb'(\{"actor":")(%(own)s)(","arm":"[a-z]*","bucket":)(%(number)s)'
    rb'(,(?:"decision_digest":(?:null|"[0-9a-f]*"),)?"decision_position":)(null|%(number)s)'
    rb'(,"episode":[^"]*"generation":[^"]*"hash_version":[^"]*"recorded_at":")'
    rb'(%(time)s)","run_id":"(%(own)s)(","salt":"%(any)s","schema_version":[^"]*"slot":[^"]*'
    rb'"tenant_id":"%(any)s","unit":")(%(own)s)(","version":"%(any)s","workflow_id":"%(any)s"\})'
    % {b"own": _TEXT, b"any": _ANY_TEXT, b"number": _NUMBER, b"time": _TIME}
)
_canonical = json.JSONEncoder(ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode


def encode(event: Event) -> tuple[str, bytes]:
    """The stored name of an event and its fields as canonical JSON.

    Canonical: UTF-8, keys sorted, no blanks, non-ASCII characters as themselves, times in
    ISO 8601 with `Z`. The same event is always the same bytes.
    """
    name = _NAMES[type(event)]
    return name, _canonical(_fields(name, event)).encode()


def stored_name(event: Event) -> str:
    """The name that an event is stored under."""
    return _NAMES[type(event)]


def encode_as(event: Event, schema_version: int) -> bytes:
    """The canonical JSON that an event had in a schema version that it can have been read from.

    Raises `ValueError` for one that no release has written.
    """
    name = _NAMES[type(event)]
    fields = _fields(name, event) | {"schema_version": schema_version}
    match schema_version:
        case 1:
            del fields[_DIGESTS[name]]
        case 2:
            pass
        case _:
            raise ValueError(f"no release writes schema version {schema_version} of {name}")
    return _canonical(fields).encode()


def digest(stored: bytes) -> str:
    """The SHA-256 of an event's stored bytes, in hexadecimal."""
    return sha256(stored).hexdigest()


class RunForm:
    """The canonical JSON of runs that differ in five fields only.

    It writes what `encode` would, in a tenth of the time: runs are spawned by the
    thousand, and those of one slot of a split have everything else in common.
    """

    __slots__ = ("_parts",)

    def __init__(self, sample: RunSpawned) -> None:
        fields = _fields(RUN_SPAWNED, sample)
        parts = [""]
        for separator, name in zip(chain("{", repeat(",")), sorted(fields), strict=False):
            parts[-1] += f'{separator}"{name}":'
            if name in _FILLED:
                parts.append("")
            else:
                parts[-1] += POSITION if name == _LEFT_OPEN else _canonical(fields[name])
        self._parts = (*parts[:-1], parts[-1] + "}")

    def fill(self, *, actor: str, bucket: int, recorded_at: str, run_id: str, unit: str) -> str:
        """A run's JSON, with `POSITION` for its decision position; `recorded_at` as stored."""
        first, second, third, fourth, fifth, last = self._parts
        return (
            f"{first}{_quoted(actor)}{second}{bucket}{third}{_quoted(recorded_at)}"
            f"{fourth}{_quoted(run_id)}{fifth}{_quoted(unit)}{last}"
        )


class RunReader:
    """Reads runs that differ from one it has read in a few fields only.

    It answers what `decode` would, in a fifth of the time, or None for what it leaves to
    `decode`: bytes of another form than `encode` writes, or the first run of its kind.
    """

    _MOST_KEPT = 4_096

    def __init__(self) -> None:
        self._kept: dict[tuple[bytes, ...], RunSpawned] = {}

    def read(self, stored: bytes) -> RunSpawned | None:
        """The run of its stored bytes, if one like it was learnt."""
        try:
            common, own = _parted(stored)
            sample = self._kept.get(common)
            return sample and sample.stamped(_own_fields(own))
        except ValueError:
            return None

    def learn(self, stored: bytes, run: RunSpawned) -> None:
        """Keep a run that `decode` has read, to read others by, if it is as `encode` writes it.

        Else it may say a field twice, of which the last one counts.
        """
        with suppress(ValueError):
            common, _ = _parted(stored)
            if common in self._kept or encode_as(run, _schema_version(stored)) != stored:
                return
            if len(self._kept) >= self._MOST_KEPT:
                self._kept.clear()
            # Of its own: who was given the other one may do with it what they should not.
            self._kept[common] = run.stamped({})


def _parted(stored: bytes) -> tuple[tuple[bytes, ...], tuple[bytes, ...]]:
    """What a run has in common with others of its kind, and what it has of its own.

    Raises `ValueError` for bytes that are not in the form that runs are written in. Both
    together are all the bytes, so what agrees in the one differs in the other only.
    """
    found = _RUN.fullmatch(stored)
    if found is None:
        raise ValueError(stored)
    head, actor, arm, bucket, decided, position, episode, time, run_id, salt, unit, end = (
        found.groups()
    )
    return (head, arm, decided, episode, salt, end), (actor, bucket, position, time, run_id, unit)


def _schema_version(stored: bytes) -> int:
    version: int = from_json(stored)["schema_version"]
    return version


def _own_fields(own: tuple[bytes, ...]) -> dict[str, object]:
    """The fields that runs of a kind differ in. Raises `ValueError` for what is none of theirs."""
    actor, bucket, position, time, run_id, unit = own
    return {
        "actor": actor.decode(),
        "bucket": int(bucket),
        "decision_position": None if position == b"null" else int(position),
        "recorded_at": datetime.fromisoformat(time.decode()),
        "run_id": run_id.decode(),
        "unit": unit.decode(),
    }


@lru_cache(maxsize=16)
def time_text(time: datetime) -> str:
    """A time in UTC as it is stored."""
    return time.isoformat().replace("+00:00", "Z")


def decode(name: str, stored: bytes, *, stream: str, version: int) -> Event:
    """The event of a stored name and its bytes, upcast to today's schema.

    Raises `UnreadableEvent` for an unknown name, a schema version from the future, bytes
    that do not fit, and an event that belongs to another place than the one it lies in.
    """
    model = EVENT_TYPES.get(name)
    if model is None:
        raise UnreadableEvent(stream, version, name, "its type is not known here")
    if type(stored) is not bytes or type(version) is not int:
        # SQLite takes values of any type into any column.
        problem = "its bytes or its place are of another type than the store writes"
        raise UnreadableEvent(stream, version, name, problem)
    known = _RUNS.read(stored) if model is RunSpawned else None
    event = known or _parsed(name, model, stored, stream, version)
    if (event.originator_id, event.originator_version) != (stream, version):
        problem = f"it says that it is event {event.originator_version} of {event.originator_id}"
        raise UnreadableEvent(stream, version, name, problem)
    return event


def _parsed(name: str, model: type[Event], stored: bytes, stream: str, version: int) -> Event:
    try:
        fields = _upcast(name, from_json(stored))
        _refuse_repeats(stored)
        event = model.model_validate_json(to_json(fields), strict=True)
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise UnreadableEvent(stream, version, name, _one_line(error)) from error
    if isinstance(event, RunSpawned):
        _RUNS.learn(stored, event)
    return event


def _refuse_repeats(stored: bytes) -> None:
    """Refuse a field that is said twice: readers would not agree on which one counts."""

    def once(pairs: list[tuple[str, Any]]) -> None:
        names = [name for name, _ in pairs]
        if repeated := next((name for name in names if names.count(name) > 1), None):
            raise ValueError(f"it says {repeated} twice")

    json.loads(stored.decode(), object_pairs_hook=once)


def _fields(name: str, event: Event) -> dict[str, Any]:
    return event.model_dump(mode="json") | {"schema_version": SCHEMA_VERSIONS[name]}


def _upcast(name: str, stored: Any) -> dict[str, Any]:
    if not isinstance(stored, dict):
        raise ValueError(f"it is {with_article(type(stored).__name__)}, not an object")
    fields: dict[str, Any] = stored
    version = fields.pop("schema_version", None)
    if type(version) is not int or version < 1:
        raise ValueError(f"its schema version is {version!r}, not a number from 1 up")
    if version > SCHEMA_VERSIONS[name]:
        raise ValueError(f"its schema version is {version}, known is {SCHEMA_VERSIONS[name]}")
    while version < SCHEMA_VERSIONS[name]:
        upcast = UPCASTERS.get((name, version))
        if upcast is None:
            raise ValueError(f"nothing upcasts its schema version {version}")
        fields = upcast(fields)
        version += 1
    return fields


_RUNS = RunReader()


def _one_line(error: Exception) -> str:
    if isinstance(error, ValidationError):
        first = error.errors()[0]
        return f"{'.'.join(str(part) for part in first['loc'])}: {first['msg']}"
    kind = "" if isinstance(error, ValueError) else f"{type(error).__name__} "
    return (f"{kind}{error}".splitlines() or [type(error).__name__])[0]
