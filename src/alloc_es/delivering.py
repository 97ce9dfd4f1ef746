"""Who is handed which trigger: the deliveries of one consumer, as the store keeps them."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from alloc_es.events import ChallengerRejectedWithoutReplacement
from alloc_es.store import Store
from alloc_es.store.session import Session

_CANDIDATES = 20
# Those that were tried least often come first, so that one which nobody can handle does not
# keep the others waiting.
_FREE = (
    "SELECT position, generation, tenant_id, workflow_id, attempts FROM trigger_deliveries"
    " WHERE consumer = ? AND acknowledged_at IS NULL AND worker IS NULL"
    " ORDER BY attempts, position LIMIT ?"
)
_MINE = (
    "SELECT position, generation, tenant_id, workflow_id, attempts FROM trigger_deliveries"
    " WHERE consumer = ? AND acknowledged_at IS NULL AND worker = ? ORDER BY position"
)
_TAKE = (
    "UPDATE trigger_deliveries SET worker = ?, attempts = attempts + 1"
    " WHERE consumer = ? AND position = ? AND acknowledged_at IS NULL AND worker IS NULL"
)
_ACKNOWLEDGE = (
    "UPDATE {0}trigger_deliveries SET acknowledged_at = ?"
    " WHERE consumer = ? AND position = ? AND worker = ? AND acknowledged_at IS NULL"
)
_ACKNOWLEDGED = (
    "SELECT 1 FROM {0}trigger_deliveries WHERE consumer = ? AND position = ? AND worker = ?"
    " AND acknowledged_at IS NOT NULL"
)


@dataclass(frozen=True, slots=True)
class Delivery:
    """A trigger that a worker was handed, for the `attempts`th time that anybody was."""

    position: int
    generation: int
    tenant_id: str
    workflow_id: str
    attempts: int


@dataclass(slots=True)
class Deliveries:
    """The deliveries of one consumer to one worker."""

    store: Store
    consumer: str
    worker: str
    lease: float
    _seen: dict[str, tuple[int, float]] = field(default_factory=dict)
    """When the beat of each other worker was first seen where it is, by our own clock."""

    def begin(self, after: int, now: datetime) -> None:
        """Enter the consumer, to begin behind a position, if it is not known."""
        with self.store.desk.writing() as session:
            session.run(
                "INSERT INTO trigger_consumers (consumer, begins_after, scanned_to, created_at)"
                " VALUES (?, ?, ?, ?) ON CONFLICT (consumer) DO NOTHING",
                self.consumer,
                after,
                after,
                now,
            )

    def scan(self) -> None:
        """Enter the triggers that were appended since the last scan of any worker."""
        with self.store.desk.reading() as session:
            (found,) = session.rows(
                "SELECT scanned_to FROM trigger_consumers WHERE consumer = ?", self.consumer
            )
        scanned_to: int = found[0]
        while True:
            batch = self.store.decisions.batch(scanned_to)
            if batch.read_to == scanned_to:
                if batch.failure is not None:
                    raise batch.failure
                return
            triggers = [
                (self.consumer, entry.position, *entry.event.key, entry.generation)
                for entry in batch.events
                if isinstance(entry.event, ChallengerRejectedWithoutReplacement)
            ]
            if not self._enter(triggers, scanned_to, batch.read_to):
                return
            scanned_to = batch.read_to

    def _enter(self, triggers: Sequence[tuple[object, ...]], after: int, up_to: int) -> bool:
        with self.store.desk.writing() as session:
            moved = session.run(
                "UPDATE trigger_consumers SET scanned_to = ? WHERE consumer = ? AND scanned_to = ?",
                up_to,
                self.consumer,
                after,
            )
            for trigger in triggers if moved else ():
                session.run(
                    "INSERT INTO trigger_deliveries"
                    " (consumer, position, tenant_id, workflow_id, generation)"
                    " VALUES (?, ?, ?, ?, ?)",
                    *trigger,
                )
        return moved == 1

    def mine(self) -> list[Delivery]:
        """What this worker was handed and has not acknowledged, also if it was not told so."""
        with self.store.desk.reading() as session:
            return [Delivery(*row) for row in session.rows(_MINE, self.consumer, self.worker)]

    def take(self) -> Delivery | None:
        """Be handed one more trigger; None if none is free."""
        with self.store.desk.reading() as session:
            free = [Delivery(*row) for row in session.rows(_FREE, self.consumer, _CANDIDATES)]
        for delivery in free:
            with self.store.desk.writing() as session:
                self._beat(session)
                taken = session.run(_TAKE, self.worker, self.consumer, delivery.position)
            if taken:
                attempts = delivery.attempts + 1
                return Delivery(
                    delivery.position,
                    delivery.generation,
                    delivery.tenant_id,
                    delivery.workflow_id,
                    attempts,
                )
        return None

    def beat(self) -> None:
        """Say that this worker lives."""
        with self.store.desk.writing() as session:
            self._beat(session)

    def _beat(self, session: Session) -> None:
        session.run(
            "INSERT INTO trigger_workers AS live (consumer, worker, beat, lease_seconds)"
            " VALUES (?, ?, 1, ?)"
            " ON CONFLICT (consumer, worker) DO UPDATE SET beat = live.beat + 1",
            self.consumer,
            self.worker,
            self.lease,
        )

    def free_the_dead(self, monotonic: float) -> None:
        """Take away what is held by workers whose beat stood still for their lease."""
        with self.store.desk.reading() as session:
            others = session.rows(
                "SELECT worker, beat, lease_seconds FROM trigger_workers"
                " WHERE consumer = ? AND worker <> ?",
                self.consumer,
                self.worker,
            )
        seen, self._seen = self._seen, {}
        for worker, beat, lease in others:
            held = seen.get(worker)
            since = held[1] if held and held[0] == beat else monotonic
            if monotonic - since >= lease:
                self._free(worker, beat)
            else:
                self._seen[worker] = (beat, since)

    def _free(self, worker: str, beat: int) -> None:
        with self.store.desk.writing() as session:
            gone = session.run(
                "DELETE FROM trigger_workers WHERE consumer = ? AND worker = ? AND beat = ?",
                self.consumer,
                worker,
                beat,
            )
            if gone:
                self._release_all(session, worker)

    def release(self, position: int) -> None:
        """Give a trigger back, for any worker to take."""
        with self.store.desk.writing() as session:
            session.run(
                "UPDATE trigger_deliveries SET worker = NULL WHERE consumer = ?"
                " AND position = ? AND worker = ? AND acknowledged_at IS NULL",
                self.consumer,
                position,
                self.worker,
            )

    def leave(self) -> None:
        """Give back everything."""
        with self.store.desk.writing() as session:
            session.run(
                "DELETE FROM trigger_workers WHERE consumer = ? AND worker = ?",
                self.consumer,
                self.worker,
            )
            self._release_all(session, self.worker)

    def _release_all(self, session: Session, worker: str) -> None:
        session.run(
            "UPDATE trigger_deliveries SET worker = NULL"
            " WHERE consumer = ? AND worker = ? AND acknowledged_at IS NULL",
            self.consumer,
            worker,
        )

    def acknowledge(self, position: int, now: datetime, session: Session, schema: str = "") -> bool:
        """Note that a trigger is dealt with; False where this worker does not hold it.

        `schema` goes before the names of tables, in a session that does not look there.
        """
        done = session.run(_ACKNOWLEDGE.format(schema), now, self.consumer, position, self.worker)
        return bool(done) or bool(
            # The answer to an earlier one may have been lost.
            session.rows(_ACKNOWLEDGED.format(schema), self.consumer, position, self.worker)
        )
