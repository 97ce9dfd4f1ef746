"""A line of an export in CloudEvents 1.0: how it is written, and what is in it."""

import base64
import json
import re
from collections.abc import Mapping, Sequence
from json.encoder import encode_basestring as _quoted
from typing import Any, NamedTuple, cast

from alloc_es import codec
from alloc_es.errors import UnreadableEvent
from alloc_es.events import Event, Recorded, RunSpawned
from alloc_es.store.recorder import LOGS, UNLIMITED, LogName, Stored
from alloc_es.wording import shown

FORMAT_VERSION = 1
"""Counts the forms that exports have had."""

BEGAN, ENDED = "alloc_es.export.began", "alloc_es.export.ended"
EXPORT_SOURCE = "/alloc-es/export"
SOURCES: Mapping[LogName, str] = {log: f"/alloc-es/{log}" for log in LOGS}

ATTRIBUTES: Mapping[str, str] = {
    "specversion": "`1.0`",
    "id": "the position, and the first 16 digits of `digest`",
    "source": "the log: `/alloc-es/decisions`, `/alloc-es/runs`",
    "type": "`alloc_es.` and the stored type name",
    "subject": "the name of the event's stream",
    "time": "when it was recorded, by the writer's clock; absent where the event can't be read",
    "datacontenttype": "`application/json`",
    "sequence": "the position in the log, as 20 digits",
    "streamversion": "the place in the stream: of a decision, its generation",
    "digest": "the SHA-256 of the stored bytes, in hexadecimal",
    "data": "the stored bytes themselves, which are JSON",
    "data_base64": "the stored bytes, in place of `data`, where that would not give them again",
}
"""Member of an event's line → what it holds, in the order in which they are written."""

_TYPE = "alloc_es."
_SEQUENCE, _NUMBER = re.compile("[0-9]{20}"), re.compile("[1-9][0-9]{0,18}")
_LINE = re.compile(
    rb'\{"specversion":"1\.0","id":"([^"\\]*)","source":"/alloc-es/(decisions|runs)"'
    rb',"type":"alloc_es\.([^"\\]*)","subject":"([^"\\]*)"'
    rb'(?:,"time":"([^"\\]*)")?,"datacontenttype":"application/json"'
    rb',"sequence":"(\d{20})","streamversion":"(\d+)"'
    rb',"digest":"([0-9a-f]{64})","data":'
)
_LOG, _POSITION, _DIGEST = 2, 6, 8


class NotALine(ValueError):
    """A line is not as an export has it; the text says why."""


class EventLine(NamedTuple):
    """An event as its line has it, checked as far as it goes by itself."""

    log: LogName
    stored: Stored
    digest: str
    time: str | None


class Mark(NamedTuple):
    """The first line of an export, or its last one."""

    type: str
    data: Mapping[str, Any]


class LineWriter:
    """Writes lines; runs that have most in common share the work."""

    def __init__(self) -> None:
        self._runs = codec.RunReader()

    def line(self, log: LogName, stored: Stored) -> bytes:
        """The line of an event, with a line feed."""
        state = bytes(stored.state)
        event, canonical = self._read(stored, state)
        time = codec.time_text(event.recorded_at) if event else None
        return event_line(EventLine(log, stored, codec.digest(state), time), canonical=canonical)

    def _read(self, stored: Stored, state: bytes) -> tuple[Event | None, bool]:
        """The event of a row, if it can be read, and whether it lies there as canonical JSON."""
        known = self._runs.read(state) if stored.topic == codec.RUN_SPAWNED else None
        if known is not None and (known.originator_id, stored.version) == (stored.stream, 1):
            return known, True
        try:
            event = codec.decode(stored.topic, state, stream=stored.stream, version=stored.version)
        except UnreadableEvent:
            return None, is_canonical(state)
        if isinstance(event, RunSpawned):
            self._runs.learn(state, event)
        return event, is_canonical(state)


def event_line(event: EventLine, *, canonical: bool) -> bytes:
    """The line of an event, with a line feed; `canonical` if its bytes are that sort of JSON."""
    log, (position, stream, version, topic, state), digest, time = event
    when = f',"time":{_quoted(time)}' if time is not None else ""
    name = "data" if canonical else "data_base64"
    head = (
        f'{{"specversion":"1.0","id":"{position}-{digest[:16]}","source":"{SOURCES[log]}",'
        f'"type":{_quoted(_TYPE + topic)},"subject":{_quoted(stream)}{when},'
        f'"datacontenttype":"application/json","sequence":"{position:020}",'
        f'"streamversion":"{version}","digest":"{digest}","{name}":'
    )
    data = state if canonical else b'"%s"' % base64.b64encode(state)
    return b"%s%s}\n" % (head.encode(), data)


def began_line(ends: Mapping[LogName, int]) -> bytes:
    """The first line of an export, with a line feed; `ends` are the last positions it goes to."""
    data = {"format": FORMAT_VERSION, "ends": {log: ends[log] for log in LOGS}}
    return _mark_line(BEGAN, data)


def ended_line(counts: Mapping[LogName, int], digest: str) -> bytes:
    """The last line of an export, with a line feed; `digest` is that of all lines before it."""
    return _mark_line(ENDED, {**{log: counts[log] for log in LOGS}, "sha256": digest})


def _mark_line(kind: str, data: Mapping[str, Any]) -> bytes:
    members = {
        "specversion": "1.0",
        "id": _mark_id(kind, data),
        "source": EXPORT_SOURCE,
        "type": kind,
        "datacontenttype": "application/json",
        "data": data,
    }
    return f"{json.dumps(members, separators=(',', ':'))}\n".encode()


def _mark_id(kind: str, data: Mapping[str, Any]) -> str:
    return f"{kind.rpartition('.')[2]}-{codec.digest(_canonical(data))[:16]}"


def parse(line: bytes) -> EventLine | Mark:
    """What is in a line, without its line feed. Raises `NotALine`.

    A line in the form that is written here is taken apart by its bytes. Another one, which
    some other program has written, is read as JSON and gives the same.
    """
    found = _LINE.match(line)
    if found is not None and line[-1:] == b"}":
        state = line[found.end() : -1]
        digest = found[_DIGEST].decode()
        if codec.digest(state) == digest:
            return _of_bytes(found, digest, state)
    return _parsed(line)


def place(line: bytes) -> tuple[LogName, int]:
    """The log and the position of an event's line, at whose data nobody looks if it is one of
    ours. Raises `NotALine`."""
    found = _LINE.match(line)
    if found is not None:
        return cast(LogName, found[_LOG].decode()), int(found[_POSITION])
    parsed = parse(line)
    if isinstance(parsed, Mark):
        raise NotALine(f"a line of the type {parsed.type} stands between events")
    return parsed.log, parsed.stored.position


def entry(line: EventLine) -> Recorded[Any] | UnreadableEvent:
    """The event of a line, or why it can't be read. Raises `NotALine` where its time differs."""
    position, stream, version, topic, state = line.stored
    try:
        event = codec.decode(topic, state, stream=stream, version=version)
    except UnreadableEvent as error:
        return error
    time = codec.time_text(event.recorded_at)
    if line.time != time:
        raise NotALine(f"its time is {line.time}, and its data says {time}")
    return Recorded(position, event, line.digest)


def is_canonical(state: bytes) -> bool:
    """Whether bytes are JSON as `codec.encode` writes it, so that JSON gives them again."""
    try:
        return _canonical(_loaded(state)) == state
    except (RecursionError, ValueError):
        return False


def _parsed(line: bytes) -> EventLine | Mark:
    try:
        members = _loaded(line)
    except (RecursionError, ValueError) as error:
        raise NotALine(f"it is no JSON: {error}") from None
    if not isinstance(members, dict) or members.get("specversion") != "1.0":
        raise NotALine("it is no event of CloudEvents 1.0")
    if members.get("source") != EXPORT_SOURCE:
        return _of_json(members)
    kind, data = members.get("type"), members.get("data")
    if kind not in (BEGAN, ENDED) or not isinstance(data, dict):
        raise NotALine("it is neither an event nor the beginning or the end of an export")
    if members.get("id") != _mark_id(kind, data):
        raise NotALine("its id is not made of its data")
    return Mark(kind, data)


def _of_bytes(found: re.Match[bytes], digest: str, state: bytes) -> EventLine:
    """The event of a line that was written here."""
    try:
        event_id, log, topic, *place = (each.decode() for each in found.group(1, 2, 3, 4, 6, 7))
        time = None if found[5] is None else found[5].decode()
    except UnicodeDecodeError:
        raise NotALine("it is no UTF-8") from None
    return _event(cast(LogName, log), event_id, topic, place, digest, time, state)


def _of_json(members: dict[str, Any]) -> EventLine:
    """The event of a line that some other program has written."""
    names = ("id", "source", "type", "subject", "sequence", "streamversion", "digest")
    event_id, source, kind, *place, digest = (_text(members, name) for name in names)
    time = None if members.get("time") is None else _text(members, "time")
    log = next((log for log, known in SOURCES.items() if known == source), None)
    if log is None or not kind.startswith(_TYPE):
        raise NotALine(f"no export has events of the type {kind} from {source}")
    state = _state(members)
    if (found := codec.digest(state)) != digest:
        raise NotALine(f"the SHA-256 of its data is {found}, not {digest}")
    return _event(log, event_id, kind.removeprefix(_TYPE), place, digest, time, state)


def _text(members: dict[str, Any], name: str) -> str:
    value = members.get(name)
    if not isinstance(value, str):
        raise NotALine(f"its {name} is {shown(value)}")
    return value


def _state(members: dict[str, Any]) -> bytes:
    """The stored bytes of a line that was read as JSON."""
    if ("data" in members) == ("data_base64" in members):
        raise NotALine("it has not one of data and data_base64")
    try:
        if "data" in members:
            return _canonical(members["data"])
        return base64.b64decode(members["data_base64"], validate=True)
    except (TypeError, ValueError) as error:
        raise NotALine(f"its data can't be read: {error}") from None


def _event(
    log: LogName,
    event_id: str,
    topic: str,
    place: Sequence[str],
    digest: str,
    time: str | None,
    state: bytes,
) -> EventLine:
    stream, sequence, version = place
    if not _SEQUENCE.fullmatch(sequence) or not _NUMBER.fullmatch(version):
        raise NotALine(f"its sequence and streamversion are {sequence} and {version}")
    position = int(sequence)
    if max(position, int(version)) > UNLIMITED:
        raise NotALine(f"no store has the place {version} of a stream at position {position}")
    if event_id != f"{position}-{digest[:16]}":
        raise NotALine(f"its id {event_id} is not made of its sequence and digest")
    return EventLine(log, Stored(position, stream, int(version), topic, state), digest, time)


def _canonical(value: object) -> bytes:
    text = json.dumps(
        value, ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=False
    )
    return text.encode()


def _loaded(text: bytes) -> Any:
    """What a JSON text says. Raises `ValueError`, also where a name stands twice in an object."""
    return json.loads(text.decode(), object_pairs_hook=_unique, parse_constant=_no_number)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name stands twice in an object")
    return found


def _no_number(text: str) -> object:
    raise ValueError(f"{text} is no number in JSON")
