"""One log of events, as an application of the `eventsourcing` package with our names and bytes."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, cast

from eventsourcing.application import Application
from eventsourcing.domain import DomainEventProtocol
from eventsourcing.persistence import (
    ApplicationRecorder,
    InfrastructureFactory,
    JSONTranscoder,
    Mapper,
    Notification,
    StoredEvent,
)
from eventsourcing.utils import Environment, EnvType

from alloc_es import codec
from alloc_es.errors import AllocationError, UnreadableEvent
from alloc_es.events import DecisionEvent, E, Event, Recorded
from alloc_es.store.recorder import (
    UNLIMITED,
    LogRecorder,
    RunGroup,
    Stored,
    StoreFactory,
    stored_bytes,
)

PAGE = 1_000
"""How many events are read from the store at a time."""

_MOST_PARTS = 256

BLOCK = 10_000
"""How many positions of a log make a block: what is sealed, archived and checked as one."""


Found = Mapping[str, Recorded[E] | AllocationError]
"""What lies in some streams, by their names; the error where it can't be had."""


@dataclass(frozen=True, slots=True)
class Batch(Generic[E]):
    """Events in commit order; `failure` is of the one behind them, at `failed_at`, if any.

    `read_to` is the last position that was looked at.
    """

    events: list[Recorded[E]]
    read_to: int
    failed_at: int | None = None
    failure: UnreadableEvent | None = None


class EventMapper(Mapper[str]):
    """Stores events under their explicit names as canonical JSON."""

    def to_stored_event(self, domain_event: DomainEventProtocol[str]) -> StoredEvent:
        """The event's row; see `codec.encode`."""
        name, state = codec.encode(cast(Event, domain_event))
        return StoredEvent(
            originator_id=domain_event.originator_id,
            originator_version=domain_event.originator_version,
            topic=name,
            state=state,
        )

    def to_domain_event(self, stored_event: StoredEvent) -> DomainEventProtocol[str]:
        """The row's event; see `codec.decode`."""
        event = codec.decode(
            stored_event.topic,
            stored_event.state,
            stream=str(stored_event.originator_id),
            version=stored_event.originator_version,
        )
        return cast(DomainEventProtocol[str], event)


class EventLog(Application[str], Generic[E]):
    """One of the two logs of a store: the decisions', or the runs'.

    `append` is *atomic*. Readers see positions *in commit order*: no event appears behind
    one that was already readable.
    """

    recorder: LogRecorder
    log_section_size = PAGE

    def __init__(self, factory: StoreFactory, recorder: LogRecorder) -> None:
        self._factory = factory
        self._recorder = recorder
        super().__init__()

    def construct_env(self, name: str, env: EnvType | None = None) -> Environment:
        """Empty: a store is what its URL says, whatever the process's environment holds."""
        return Environment(name, env or {})

    def construct_factory(self, env: Environment) -> InfrastructureFactory[Any]:  # noqa: ARG002
        """The factory of the store that the log belongs to."""
        return self._factory

    def construct_recorder(self) -> ApplicationRecorder:
        """The recorder of the log's own table."""
        return self._recorder

    def construct_mapper(self) -> Mapper[str]:
        """The mapper that writes canonical JSON."""
        return EventMapper(JSONTranscoder())

    def append(self, event: Event) -> Recorded[E]:
        """Record an event at its place.

        Raises the library's `RecordConflictError` when the place, or the command id, is
        taken; `StoreUnavailable` when nothing was recorded; `AnswerLost` when that can't
        be told.
        """
        (recording,) = self.save(cast(DomainEventProtocol[str], event))
        notification = recording.notification
        return Recorded(notification.id, cast(E, event), codec.digest(notification.state))

    def at(self, stream: str, version: int) -> Recorded[E] | None:
        """The event at one place of a stream, or None."""
        return self._one(self.recorder.select_events(stream, gt=version - 1, lte=version))

    def between(self, stream: str, first: int, last: int) -> list[Recorded[E]]:
        """The events of a stream at the places `first` to `last`, oldest first."""
        rows = self.recorder.select_events(stream, gt=first - 1, lte=last)
        return [self._recorded(row) for row in rows]

    def newest(self, stream: str) -> Recorded[E] | None:
        """The last event of a stream, or None; costs the same however long the stream is."""
        return self._one(self.recorder.select_events(stream, desc=True, limit=1))

    def stream(self, stream: str) -> list[Recorded[E]]:
        """All events of a stream, oldest first."""
        return [self._recorded(row) for row in self.recorder.select_events(stream)]

    def command(self, stream: str, command_id: str) -> Recorded[E] | None:
        """The event of a stream that a command made, or None."""
        return self._one(self.recorder.select_command(stream, command_id))

    def newest_of(self, streams: Sequence[str]) -> dict[str, Recorded[E] | AllocationError]:
        """The last event of each of these streams that has one, by stream.

        One that can't be read is given as the error, so that it does not hide the others.
        """
        return {
            str(r.originator_id): self._readable(r) for r in self.recorder.select_newest(streams)
        }

    def record(self, group: RunGroup, reroute: Callable[[Found[DecisionEvent]], RunGroup]) -> int:
        """Record runs behind the fence; return the position at which it was verified.

        *Atomic*. Where a decision has come in between, `reroute` is given the newest ones
        under the fence and answers with the group to record instead. Raises the library's
        `IntegrityError` when a run is known, `StoreUnavailable` when nothing was recorded,
        `AnswerLost` when that can't be told.
        """
        return self.recorder.insert_runs(group, lambda rows: reroute(self._by_stream(rows)))

    def heads(self, prefix: str) -> list[Recorded[E]]:
        """The newest event of each stream whose name begins with `prefix`."""
        return [self._recorded(row) for row in self.recorder.select_heads(prefix)]

    def batch(self, after: int, *, up_to: int = UNLIMITED, limit: int = PAGE) -> Batch[E]:
        """The next events behind a position, in commit order; none at the end of the log."""
        events: list[Recorded[E]] = []
        for row in self.recorder.select_batch(after, up_to, limit):
            try:
                event = codec.decode(row[3], row[4], stream=row[1], version=row[2])
            except UnreadableEvent as failure:
                return Batch(events, after, row[0], failure)
            after = row[0]
            events.append(Recorded(after, cast(E, event), codec.digest(row[4])))
        return Batch(events, after)

    def stored(self, after: int, *, up_to: int = UNLIMITED, limit: int = PAGE) -> Sequence[Stored]:
        """The next rows behind a position as they are stored; none at the end of the log."""
        return [_in_bytes(row) for row in self.recorder.select_batch(after, up_to, limit)]

    def end(self) -> int:
        """The last position of the log, 0 when it is empty."""
        return self.recorder.max_notification_id() or 0

    def _one(self, rows: Sequence[StoredEvent]) -> Recorded[E] | None:
        return self._recorded(rows[0]) if rows else None

    def _by_stream(self, rows: Sequence[StoredEvent]) -> dict[str, Any]:
        return {str(row.originator_id): self._readable(row) for row in rows}

    def _readable(self, row: StoredEvent) -> Any:
        try:
            return self._recorded(row)
        except UnreadableEvent as error:
            return error

    def _recorded(self, row: StoredEvent) -> Recorded[E]:
        event = cast(E, self.mapper.to_domain_event(row))
        return Recorded(cast(Notification, row).id, event, codec.digest(row.state))


def _in_bytes(row: Sequence[Any]) -> Stored:
    """A row as it is stored, also where other hands have put text: SQLite takes it."""
    position, stream, version, topic, state = row
    return Stored(position, stream, version, topic, stored_bytes(state))


def parts_up_to(end: int, size: int = 5 * BLOCK) -> list[tuple[int, int]]:
    """The positions up to `end` in parts `(after, up_to]`, with borders at multiples of `BLOCK`.

    Parts are larger where there would be more than 256: positions have gaps, and one that
    other hands have written may be anywhere.
    """
    size *= -(-end // (size * _MOST_PARTS)) or 1
    return [(first, min(first + size, end)) for first in range(0, end, size)]
