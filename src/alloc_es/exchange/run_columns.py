"""A run as a row of flat columns, and back to the very bytes that were stored."""

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from json.encoder import encode_basestring as _quoted
from typing import Any, NamedTuple, cast

from pydantic import ValidationError

from alloc_es import codec
from alloc_es.codec import RUN_SPAWNED, SCHEMA_VERSIONS
from alloc_es.errors import UnreadableEvent
from alloc_es.events import Recorded, RunSpawned
from alloc_es.identity import run_stream
from alloc_es.store.recorder import Stored

RUN_COLUMNS: Mapping[str, tuple[str, str]] = {
    "position": ("int64", "the run's position in the run log"),
    "tenant_id": ("string", "the tenant"),
    "workflow_id": ("string", "the workflow"),
    "run_id": ("string", "the run's id, unique in its tenant"),
    "unit": ("string", "what was routed"),
    "version": ("string", "the workflow version that the run got"),
    "arm": ("string", "`control` or `challenger`"),
    "generation": ("int64", "the generation that it was allotted at"),
    "bucket": ("int64", "the bucket that the unit fell into"),
    "slot_first": ("int64", "the first bucket of the slot that the bucket fell into"),
    "slot_end": ("int64", "the first bucket behind that slot"),
    "episode": ("int64", "the episode, which pins salt and hash version"),
    "salt": ("string", "what the unit was hashed with"),
    "hash_version": ("int64", "how it was hashed"),
    "actor": ("string", "who spawned it"),
    "recorded_at": ("timestamp[us, tz=UTC]", "when, by the spawner's clock"),
    "decision_position": (
        "int64",
        "where in the decision log its generation was the newest; null for release 0.1",
    ),
    "decision_digest": (
        "string",
        "the digest of the decision that allotted it; null before release 0.5",
    ),
    "schema_version": ("int64", "the schema version of the stored bytes"),
    "digest": ("string", "the SHA-256 of the stored bytes, in hexadecimal"),
    "stream": ("string", "the stream's name, only where the columns do not give it"),
    "topic": ("string", "the stored type name, only where it is not a run that can be read"),
    "state": ("binary", "the stored bytes, only where the columns do not give them"),
}
"""Column → its type, as Arrow spells it, and what it holds."""

_COMMON = (
    "tenant_id",
    "workflow_id",
    "version",
    "arm",
    "generation",
    "slot_first",
    "slot_end",
    "episode",
    "salt",
    "hash_version",
    "decision_digest",
    "schema_version",
)
_OWN = ("actor", "bucket", "decision_position", "recorded_at", "run_id", "unit")
_EPOCH = datetime.fromtimestamp(0, UTC)
_MICROSECOND = timedelta(microseconds=1)
_LARGEST = 2**63
_MOST_FORMS = 4_096


class RunRow(NamedTuple):
    """A row of a run log as it was stored, and the run that it is, or why it is none."""

    stored: Stored
    digest: str
    entry: Recorded[RunSpawned] | UnreadableEvent


class NotAsWritten(ValueError):
    """The columns of a row do not belong together."""


class RunForms:
    """Runs and their bytes, by their columns; those with most in common share the work."""

    def __init__(self) -> None:
        self._kept: dict[tuple[object, ...], tuple[RunSpawned, tuple[str, ...]]] = {}

    def run(self, common: tuple[Any, ...], own: tuple[Any, ...]) -> tuple[RunSpawned, bytes]:
        """The run of its columns, and its bytes. Raises `ValueError` for columns of no run."""
        sample, parts = self._kept.get(common) or self._learn(common, own)
        return sample.stamped(dict(zip(_OWN, own, strict=True))), _filled(parts, own)

    def state(self, common: tuple[Any, ...], own: tuple[Any, ...]) -> bytes:
        """The bytes alone."""
        _, parts = self._kept.get(common) or self._learn(common, own)
        return _filled(parts, own)

    def _learn(
        self, common: tuple[Any, ...], own: tuple[Any, ...]
    ) -> tuple[RunSpawned, tuple[str, ...]]:
        fields = dict(zip(_COMMON, common, strict=True)) | dict(zip(_OWN, own, strict=True))
        schema_version = fields.pop("schema_version")
        slot = (fields.pop("slot_first"), fields.pop("slot_end"))
        sample = RunSpawned.model_validate({**fields, "slot": slot}, strict=True)
        if len(self._kept) >= _MOST_FORMS:
            self._kept.clear()
        self._kept[common] = kept = sample, _parts(sample, schema_version)
        return kept


def _parts(sample: RunSpawned, schema_version: int) -> tuple[str, ...]:
    """The canonical JSON of a run, in seven parts around what is its own."""
    fields: dict[str, object] = json.loads(codec.encode_as(sample, schema_version))
    parts, separator = [""], "{"
    for name in sorted(fields):
        parts[-1] += f'{separator}"{name}":'
        separator = ","
        if name in _OWN:
            parts.append("")
        else:
            parts[-1] += json.dumps(fields[name], ensure_ascii=False, separators=(",", ":"))
    return (*parts[:-1], parts[-1] + "}")


def _filled(parts: tuple[str, ...], own: tuple[Any, ...]) -> bytes:
    first, second, third, fourth, fifth, sixth, last = parts
    actor, bucket, position, recorded_at, run_id, unit = own
    verified_at = "null" if position is None else position
    text = (
        f"{first}{_quoted(actor)}{second}{bucket}{third}{verified_at}"
        f'{fourth}"{codec.time_text(recorded_at)}"{fifth}{_quoted(run_id)}'
        f"{sixth}{_quoted(unit)}{last}"
    )
    return text.encode()


class RunWriter:
    """Makes rows of columns of what is stored, of which `RunColumns` makes the same again."""

    def __init__(self) -> None:
        self._forms = RunForms()
        self._versions = list(range(SCHEMA_VERSIONS[RUN_SPAWNED], 0, -1))

    def row(self, stored: Stored) -> tuple[object, ...]:
        """The columns of a stored row, in the order of `RUN_COLUMNS`."""
        state = bytes(stored.state)
        digest = codec.digest(state)
        columns = self._columns(stored, state)
        if columns is None:
            nothing = (None,) * (len(RUN_COLUMNS) - 5)
            return (stored.position, *nothing, digest, stored.stream, stored.topic, state)
        return (stored.position, *columns, digest, None, None, None)

    def _columns(self, stored: Stored, state: bytes) -> tuple[object, ...] | None:
        """What is between position and digest; None where that would not give the bytes."""
        try:
            run = codec.decode(stored.topic, state, stream=stored.stream, version=stored.version)
        except UnreadableEvent:
            return None
        if not isinstance(run, RunSpawned) or not _fits(run):
            return None
        for place, version in enumerate(self._versions):
            common, own = _parted(run, version)
            if self._gives(common, own, state):
                if place:
                    # The next one was most often written by the same release.
                    self._versions.insert(0, self._versions.pop(place))
                return _laid_out(common, own)
        return None

    def _gives(self, common: tuple[object, ...], own: tuple[object, ...], state: bytes) -> bool:
        try:
            return self._forms.state(common, own) == state
        except ValueError:
            return False


def _parted(run: RunSpawned, version: int) -> tuple[tuple[object, ...], tuple[object, ...]]:
    """What a run has in common with others, by `_COMMON`, and its own, by `_OWN`."""
    common = (
        *(run.tenant_id, run.workflow_id, run.version, run.arm, run.generation, *run.slot),
        *(run.episode, run.salt, run.hash_version, run.decision_digest, version),
    )
    own = (run.actor, run.bucket, run.decision_position, run.recorded_at, run.run_id, run.unit)
    return common, own


def _laid_out(common: tuple[Any, ...], own: tuple[Any, ...]) -> tuple[object, ...]:
    """The columns between position and digest."""
    tenant_id, workflow_id, version, arm, generation, first, end, *rest = common
    episode, salt, hash_version, decision_digest, schema_version = rest
    actor, bucket, position, recorded_at, run_id, unit = own
    microseconds = (recorded_at - _EPOCH) // _MICROSECOND
    return (
        *(tenant_id, workflow_id, run_id, unit, version, arm, generation, bucket, first, end),
        *(episode, salt, hash_version, actor, microseconds, position),
        *(decision_digest, schema_version),
    )


def _fits(run: RunSpawned) -> bool:
    """Whether columns hold its numbers, and its time, which is UTC there, without loss."""
    low, high = run.slot
    position = run.decision_position or 0
    numbers = (run.generation, run.bucket, low, high, run.episode, run.hash_version, position)
    in_range = min(numbers) >= -_LARGEST and max(numbers) < _LARGEST
    return in_range and not run.recorded_at.utcoffset()


class RunColumns:
    """Reads rows of columns as `RunWriter` makes them."""

    def __init__(self) -> None:
        self._forms = RunForms()

    def rows(self, columns: Mapping[str, Sequence[Any]]) -> Iterator[RunRow]:
        """The rows, in order. Raises `NotAsWritten` at one whose columns do not belong together.

        `recorded_at` is in microseconds since 1970.
        """
        common = zip(*(columns[name] for name in _COMMON), strict=True)
        times = map(_time, columns["recorded_at"])
        own = zip(
            *(times if name == "recorded_at" else columns[name] for name in _OWN), strict=True
        )
        kept = zip(columns["stream"], columns["topic"], columns["state"], strict=True)
        for position, digest, *parts in zip(
            columns["position"], columns["digest"], common, own, kept, strict=True
        ):
            yield self._row(position, digest, *parts)

    def _row(
        self, position: int, digest: str, common: Any, own: Any, kept: tuple[Any, Any, Any]
    ) -> RunRow:
        stream, topic, state = kept
        if state is None:
            try:
                run, state = self._forms.run(common, own)
            except (AttributeError, TypeError, ValueError) as error:
                raise NotAsWritten(f"its columns are those of no run: {_one_line(error)}") from None
            stored = Stored(position, run_stream(run.tenant_id, run.run_id), 1, RUN_SPAWNED, state)
            return RunRow(stored, digest, Recorded(position, run, _checked(state, digest)))
        if stream is None or topic is None or set(common) | set(own) != {None}:
            raise NotAsWritten("it has both the columns of a run and bytes as they were stored")
        return whole_row(Stored(position, stream, 1, topic, state), digest)


def whole_row(stored: Stored, digest: str) -> RunRow:
    """A row that is kept as it was stored. Raises `NotAsWritten` where `digest` is not its."""
    _checked(stored.state, digest)
    try:
        run = codec.decode(stored.topic, stored.state, stream=stored.stream, version=1)
    except UnreadableEvent as error:
        return RunRow(stored, digest, error)
    return RunRow(stored, digest, Recorded(stored.position, cast(RunSpawned, run), digest))


def _checked(state: bytes, digest: str) -> str:
    found = codec.digest(state)
    if found != digest:
        raise NotAsWritten(f"the SHA-256 of its bytes is {found}, not {digest}")
    return found


@lru_cache(maxsize=16)
def _time(microseconds: int | None) -> datetime | None:
    try:
        return None if microseconds is None else _EPOCH + timedelta(microseconds=microseconds)
    except OverflowError:
        raise NotAsWritten(f"no time is {microseconds} microseconds from 1970") from None


def _one_line(error: Exception) -> str:
    if isinstance(error, ValidationError):
        first = error.errors()[0]
        return f"{'.'.join(str(part) for part in first['loc'])}: {first['msg']}"
    return str(error)
