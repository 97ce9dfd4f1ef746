"""The store `memory:`: for tests and trials, gone when it is closed."""

import json
from collections.abc import Mapping, Sequence
from threading import RLock
from typing import Any

from eventsourcing.persistence import IntegrityError, Notification, StoredEvent
from eventsourcing.popo import POPOApplicationRecorder, POPOFactory

from alloc_es.codec import POSITION, RUN_SPAWNED, digest
from alloc_es.store.recorder import Archive, LogRecorder, Reroute, RunGroup, Stored, StoreFactory
from alloc_es.store.sqlite_desk import LookingWatch, Scratch, SQLiteDesk


class MemoryRecorder(POPOApplicationRecorder, LogRecorder):
    """A log in a list, with the rules that the databases' constraints hold."""

    def __init__(self, fence: RLock, decisions: "MemoryRecorder | None" = None) -> None:
        super().__init__()
        # Both logs have the same lock: that is the fence.
        self._database_lock = fence
        self._decisions = decisions or self
        self._commands: dict[tuple[str, str], int] = {}

    def _assert_uniqueness(self, stored_events: Sequence[StoredEvent], **kwargs: Any) -> None:
        super()._assert_uniqueness(stored_events, **kwargs)
        for event in stored_events:
            newest = len(self._stored_events_index[str(event.originator_id)])
            if event.originator_version != newest + 1:
                raise IntegrityError(f"{event.originator_id} is at {newest}, not before this event")
            if _command(event) in self._commands:
                raise IntegrityError(f"command id taken in {event.originator_id}")

    def _update_table(
        self, stored_events: Sequence[StoredEvent], **kwargs: Any
    ) -> Sequence[int] | None:
        positions = super()._update_table(stored_events, **kwargs)
        for event in stored_events:
            if command := _command(event):
                self._commands[command] = event.originator_version
        return positions

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
        with self._database_lock:
            places = self._stored_events_index.get(originator_id, {})
            first = 0 if gt is None else max(gt, 0)
            last = len(places) if lte is None else min(lte, len(places))
            versions = range(first + 1, last + 1)
            chosen = (versions[::-1] if desc else versions)[:limit]
            return [self._notification(places[version]) for version in chosen]

    def select_command(self, originator_id: str, command_id: str) -> Sequence[StoredEvent]:
        """The event of a stream that a command made."""
        with self._database_lock:
            version = self._commands.get((originator_id, command_id))
            if version is None:
                return []
            return self.select_events(originator_id, gt=version - 1, lte=version)

    def select_heads(self, prefix: str) -> Sequence[StoredEvent]:
        """The newest event of each stream whose name begins with `prefix`."""
        with self._database_lock:
            streams = sorted(s for s in self._stored_events_index if s.startswith(prefix))
            return [
                event for stream in streams for event in self.select_events(stream, desc=True)[:1]
            ]

    def select_newest(self, originator_ids: Sequence[str]) -> Sequence[StoredEvent]:
        """The newest event of each of these streams that has one."""
        with self._database_lock:
            return [
                event
                for stream in originator_ids
                for event in self.select_events(stream, desc=True, limit=1)
            ]

    def select_batch(self, after: int, up_to: int, limit: int) -> Sequence[Stored]:
        """Events behind a position, which counts them from 1."""
        with self._database_lock:
            after = max(after, 0)
            events = self._stored_events[after : min(up_to, after + limit)]
            return [
                Stored(position, str(e.originator_id), e.originator_version, e.topic, e.state)
                for position, e in enumerate(events, start=after + 1)
            ]

    def archived_to(self) -> int:
        """None are: nothing lasts here that could be moved."""
        return 0

    def select_archives(self) -> Sequence[Archive]:
        """There are none."""
        return []

    def select_archived(self, originator_ids: Sequence[str]) -> Mapping[str, int]:  # noqa: ARG002
        """None are."""
        return {}

    def insert_runs(self, group: RunGroup, reroute: Reroute) -> int:
        """Record a group while nobody decides."""
        with self._database_lock:
            newest = self._decisions.select_newest(list(group.fences))
            if {str(e.originator_id): digest(e.state) for e in newest} != group.fences:
                group = reroute(newest)
            position = self._decisions.max_notification_id() or 0
            written = str(position)
            self.insert_events(
                [
                    StoredEvent(stream, 1, RUN_SPAWNED, state.replace(POSITION, written).encode())
                    for stream, state in zip(group.streams, group.states, strict=True)
                ]
            )
        return position

    def _notification(self, index: int) -> Notification:
        event = self._stored_events[index]
        return Notification(
            id=index + 1,
            originator_id=event.originator_id,
            originator_version=event.originator_version,
            topic=event.topic,
            state=event.state,
        )


class Factory(POPOFactory, StoreFactory):
    """Makes the two logs of a store in memory."""

    where = "memory"

    def __init__(self) -> None:
        super().__init__(env={})
        self._fence = RLock()
        self._decisions = MemoryRecorder(self._fence)
        self._runs = MemoryRecorder(self._fence, self._decisions)

        self._tables = Scratch()

    def desk(self) -> SQLiteDesk:
        """Sessions on the tables beside the logs, which SQLite holds in memory."""
        return self._tables.desk()

    def watch(self) -> LookingWatch:
        """Word of what is appended."""
        logs = (self._decisions, self._runs)
        return LookingWatch(lambda: [log.max_notification_id() for log in logs], lambda: None)

    def close(self) -> None:
        """Forget everything."""
        self._tables.close()
        super().close()

    def prepare(self, *, migrate: bool) -> None:
        """Nothing to prepare: a store in memory begins empty."""

    def log_recorder(self, table: str) -> MemoryRecorder:
        """The recorder of the decisions, or one of runs."""
        return self._decisions if table == "decision_events" else self._runs


def _command(event: StoredEvent) -> tuple[str, str] | None:
    command_id = json.loads(event.state).get("command_id")
    return command_id and (str(event.originator_id), command_id)
