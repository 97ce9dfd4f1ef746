"""One log of events, as an application of the `eventsourcing` package with our names and bytes."""

import json
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, NamedTuple, TypeVar, cast

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
from alloc_es.errors import UnreadableEvent
from alloc_es.events import DecisionEvent, Event

E = TypeVar("E", bound=Event, covariant=True)

PAGE = 1_000
"""How many events are read from the store at a time."""

UNLIMITED = 2**63 - 1
"""The largest integer of both databases: no version, position or limit is above it."""


class RunGroup(NamedTuple):
    """Runs to be recorded together, and what they were routed by.

    `streams` are the names of the runs' streams, ascending, so that two groups with the
    same runs never wait for each other in a circle; `states` are their stored bytes as
    text, with `codec.POSITION` where the store is to write the position of the decision
    log. `fences` are the streams of the decisions, each with the digest of the decision that
    must still be its newest. The generation would not do: a store that was restored to an
    earlier state may have come to the same generation by another decision.
    """

    streams: Sequence[str]
    states: Sequence[str]
    fences: Mapping[str, str]


Reroute = Callable[[Sequence[StoredEvent]], RunGroup]
"""Called under the fence with the newest decisions of a group that had become stale."""


@dataclass(frozen=True, slots=True)
class Recorded(Generic[E]):
    """An event and its position in its log. Positions rise in commit order, with gaps.

    `digest` is the SHA-256 of the event's stored bytes, in hexadecimal.
    """

    position: int
    event: E
    digest: str

    @property
    def generation(self) -> int:
        """The generation that a decision made, or that a run was allotted at."""
        return self.event.generation

    @property
    def time(self) -> datetime:
        """When the event was recorded, by the writer's clock; it orders nothing."""
        return self.event.recorded_at

    @property
    def actor(self) -> str:
        """Who sent the command."""
        return self.event.actor

    @property
    def reason(self) -> str:
        """Why, in the sender's words; empty where none was given, and for runs."""
        return getattr(self.event, "reason", "")


Found = Mapping[str, Recorded[E] | UnreadableEvent]
"""What lies in some streams, by their names; the error where it can't be read."""


class LogRecorder(ApplicationRecorder):
    """What an adapter's recorder does beyond the library's.

    `select_events` and the selections here return `Notification`s: events with positions.
    """

    @abstractmethod
    def select_command(self, originator_id: str, command_id: str) -> Sequence[StoredEvent]:
        """The event of a stream that a command made: one, or none."""

    @abstractmethod
    def select_heads(self, prefix: str) -> Sequence[StoredEvent]:
        """The newest event of each stream whose name begins with `prefix`, by stream name."""

    @abstractmethod
    def select_newest(self, originator_ids: Sequence[str]) -> Sequence[StoredEvent]:
        """The newest event of each of these streams that has one, in any order."""

    @abstractmethod
    def insert_runs(self, group: RunGroup, reroute: Reroute) -> int:
        """Record a group of runs behind the fence; return the position it was verified at.

        One transaction: take the fence, which decisions on the same streams wait for; look
        whether each decision is still the newest, and if one is not, ask `reroute` for the
        group that takes its place, which may be empty; insert. Raises the library's
        `IntegrityError`, and records nothing, when a run is known already.
        """


class SqlRecorder(LogRecorder):
    """The selections that the databases' recorders share; a subclass sets the statements."""

    _select_ascending: Any
    _select_descending: Any
    _select_command: Any
    _select_heads: Any
    _select_newest: Any

    @abstractmethod
    def _rows(self, statement: Any, *parameters: object) -> Sequence[Any]:
        """The rows that a statement selects, by the names of their columns."""

    def select_events(
        self,
        originator_id: Any,
        *,
        gt: int | None = None,
        lte: int | None = None,
        desc: bool = False,
        limit: int | None = None,
    ) -> Sequence[StoredEvent]:
        """Events of one stream, with their positions."""
        return self._select(
            self._select_descending if desc else self._select_ascending,
            originator_id,
            gt or 0,
            UNLIMITED if lte is None else lte,
            UNLIMITED if limit is None else limit,
        )

    def select_command(self, originator_id: str, command_id: str) -> Sequence[StoredEvent]:
        """The event of a stream that a command made."""
        return self._select(self._select_command, originator_id, command_id)

    def select_heads(self, prefix: str) -> Sequence[StoredEvent]:
        """The newest event of each stream whose name begins with `prefix`."""
        return self._select(self._select_heads, prefix)

    def select_newest(self, originator_ids: Sequence[str]) -> Sequence[StoredEvent]:
        """The newest event of each of these streams that has one."""
        return self._select(self._select_newest, json.dumps(originator_ids))

    def _select(self, statement: Any, *parameters: object) -> list[Notification]:
        return [notification(row) for row in self._rows(statement, *parameters)]


def notification(row: Any) -> Notification:
    """The event of a row, by the names of its columns."""
    return Notification(
        id=row["notification_id"],
        originator_id=row["originator_id"],
        originator_version=row["originator_version"],
        topic=row["topic"],
        state=bytes(row["state"]),
    )


class StoreFactory(InfrastructureFactory[Any]):
    """What an adapter's factory does beyond the library's; `where` names the store."""

    where: str

    @abstractmethod
    def prepare(self, *, migrate: bool) -> None:
        """Check the schema version; bring an empty or older store up to date if asked to."""

    @abstractmethod
    def log_recorder(self, table: str) -> LogRecorder:
        """A recorder of one of the store's two logs."""


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

    def newest(self, stream: str) -> Recorded[E] | None:
        """The last event of a stream, or None; costs the same however long the stream is."""
        return self._one(self.recorder.select_events(stream, desc=True, limit=1))

    def stream(self, stream: str) -> list[Recorded[E]]:
        """All events of a stream, oldest first."""
        return [self._recorded(row) for row in self.recorder.select_events(stream)]

    def command(self, stream: str, command_id: str) -> Recorded[E] | None:
        """The event of a stream that a command made, or None."""
        return self._one(self.recorder.select_command(stream, command_id))

    def newest_of(self, streams: Sequence[str]) -> dict[str, Recorded[E] | UnreadableEvent]:
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

    def page(self, after: int) -> list[Recorded[E]]:
        """The next events behind a position, in commit order; none at the end of the log."""
        rows = self.notification_log.select(after, PAGE, inclusive_of_start=False)
        return [self._recorded(row) for row in rows]

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
