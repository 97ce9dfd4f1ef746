"""Who is handed which trigger: the deliveries of one consumer, as the store keeps them."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import count
from typing import TypeVar

from alloc_es.errors import StoreUnavailable, UnreadableEvent
from alloc_es.events import ChallengerRejectedWithoutReplacement
from alloc_es.store import Store
from alloc_es.store.session import Joined, Session

T = TypeVar("T")

_CANDIDATES = 20
_COLUMNS = "position, generation, tenant_id, workflow_id, attempts"
# Those that were tried least often come first, so that one which nobody can handle does not
# keep the others waiting.
_FREE = (
    f"SELECT {_COLUMNS} FROM trigger_deliveries"
    " WHERE consumer = ? AND acknowledged_at IS NULL AND worker IS NULL"
    " ORDER BY attempts, position LIMIT ?"
)
_MINE = (
    f"SELECT {_COLUMNS} FROM trigger_deliveries"
    " WHERE consumer = ? AND acknowledged_at IS NULL AND worker = ? ORDER BY position"
)
_TAKE = (
    "UPDATE trigger_deliveries SET worker = ?, attempts = attempts + 1"
    " WHERE consumer = ? AND position = ? AND attempts = ?"
    " AND acknowledged_at IS NULL AND worker IS NULL"
)
_RELEASE = (
    "UPDATE trigger_deliveries SET worker = NULL, attempts = attempts - ?"
    " WHERE consumer = ? AND position = ? AND attempts = ? AND worker = ?"
    " AND acknowledged_at IS NULL"
)
_ACKNOWLEDGE = (
    "UPDATE {0}trigger_deliveries SET acknowledged_at = ?"
    " WHERE consumer = ? AND position = ? AND attempts = ? AND worker = ?"
    " AND acknowledged_at IS NULL"
)
_ACKNOWLEDGED = (
    "SELECT 1 FROM trigger_deliveries WHERE consumer = ? AND position = ? AND attempts = ?"
    " AND worker = ? AND acknowledged_at IS NOT NULL"
)
_HOLDERS = (
    "SELECT DISTINCT worker FROM trigger_deliveries WHERE consumer = ?"
    " AND acknowledged_at IS NULL AND worker <> ?"
)


@dataclass(frozen=True, slots=True)
class Delivery:
    """A trigger that a worker was handed, for the `attempts`th time that anybody was."""

    position: int
    generation: int
    tenant_id: str
    workflow_id: str
    attempts: int

    @property
    def place(self) -> "Place":
        """What tells it from every other delivery to the consumer."""
        return self.position, self.attempts


Place = tuple[int, int]
"""A delivery: the trigger's position, and the how manieth delivery of it."""


@dataclass(frozen=True, slots=True)
class _Seen:
    """The beat of a worker, since when it was seen there, and whether it ever moved."""

    beat: int
    since: float
    moved: bool


@dataclass(slots=True)
class Deliveries:
    """The deliveries of one consumer to one worker.

    One thread at a time scans, looks and takes.
    """

    store: Store
    consumer: str
    worker: str
    lease: float
    # Each beat is another number than all before, so that one which was taken for dead and
    # comes back is not found where it was.
    _beats: Iterator[int] = field(default_factory=lambda: count(1))
    _seen: dict[str, _Seen] = field(default_factory=dict)

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

    def scan(self) -> UnreadableEvent | None:
        """Enter the triggers that were appended since the last scan of any worker.

        Return the error of a decision that can't be read, in front of which it stays.
        """
        scanned_to = self._scanned_to()
        while True:
            batch = self.store.decisions.batch(scanned_to)
            if batch.read_to == scanned_to:
                return batch.failure
            triggers = [
                (self.consumer, entry.position, *entry.event.key, entry.generation)
                for entry in batch.events
                if isinstance(entry.event, ChallengerRejectedWithoutReplacement)
            ]
            moved = self._enter(triggers, scanned_to, batch.read_to)
            scanned_to = batch.read_to if moved else self._scanned_to()

    def _scanned_to(self) -> int:
        with self.store.desk.reading() as session:
            found = session.rows(
                "SELECT scanned_to FROM trigger_consumers WHERE consumer = ?", self.consumer
            )
        if not found:
            problem = f"{self.store.where}: consumer {self.consumer} was removed; begin again"
            raise StoreUnavailable(problem, retryable=False)
        position: int = found[0][0]
        return position

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

    def take(self, read: Callable[[Delivery], T]) -> T | None:
        """Be handed one more trigger, as `read` makes it of the delivery; None if none is free.

        It is read first: who can't read it does not keep it from the others.
        """
        while free := self._free():
            unreadable: list[UnreadableEvent] = []
            for delivery in free:
                handed = replace(delivery, attempts=delivery.attempts + 1)
                try:
                    trigger = read(handed)
                except UnreadableEvent as error:
                    unreadable.append(error)
                    continue
                if self._take(delivery):
                    return trigger
            if unreadable:
                raise unreadable[0]
        return None

    def _free(self) -> list[Delivery]:
        with self.store.desk.reading() as session:
            return [Delivery(*row) for row in session.rows(_FREE, self.consumer, _CANDIDATES)]

    def _take(self, delivery: Delivery) -> bool:
        with self.store.desk.writing() as session:
            # In this order everywhere: a worker's row, then what it holds.
            self._beat(session)
            return session.run(_TAKE, self.worker, self.consumer, *delivery.place) == 1

    def beat(self) -> None:
        """Say that this worker lives."""
        with self.store.desk.writing() as session:
            self._beat(session)

    def _beat(self, session: Session) -> None:
        session.run(
            "INSERT INTO trigger_workers (consumer, worker, beat, lease_seconds)"
            " VALUES (?, ?, ?, ?)"
            " ON CONFLICT (consumer, worker) DO UPDATE SET beat = excluded.beat",
            self.consumer,
            self.worker,
            next(self._beats),
            self.lease,
        )

    def look(self, monotonic: Callable[[], float]) -> None:
        """Take away what is held by workers whose beat stood still for their lease.

        A beat that was seen was made before the answer came; one that stood still did so at
        least until the question was sent.
        """
        asked = monotonic()
        with self.store.desk.reading() as session:
            others = session.rows(
                "SELECT worker, beat, lease_seconds FROM trigger_workers"
                " WHERE consumer = ? AND worker <> ?",
                self.consumer,
                self.worker,
            )
        answered = monotonic()
        self._seen = {worker: self._noted(worker, beat, answered) for worker, beat, _ in others}
        for worker, beat, lease in others:
            if asked - self._seen[worker].since >= lease:
                self._free_all_of(worker, beat)

    def _noted(self, worker: str, beat: int, now: float) -> _Seen:
        seen = self._seen.get(worker)
        if seen is not None and seen.beat == beat:
            return seen
        return _Seen(beat, now, moved=seen is not None)

    def undecided(self) -> bool:
        """Whether triggers are held by a worker that may live, or may be dead."""
        with self.store.desk.reading() as session:
            holders = session.rows(_HOLDERS, self.consumer, self.worker)
        seen = (self._seen.get(worker) for (worker,) in holders)
        return any(each is None or not each.moved for each in seen)

    def _free_all_of(self, worker: str, beat: int) -> None:
        with self.store.desk.writing() as session:
            gone = session.run(
                "DELETE FROM trigger_workers WHERE consumer = ? AND worker = ? AND beat = ?",
                self.consumer,
                worker,
                beat,
            )
            if gone:
                self._release_all(session, worker)

    def release(self, place: Place) -> None:
        """Give a trigger back, for any worker to take."""
        with self.store.desk.writing() as session:
            session.run(_RELEASE, 0, self.consumer, *place, self.worker)

    def put_back(self, place: Place) -> None:
        """Give a trigger back that nobody was told of: it does not count as a delivery."""
        with self.store.desk.writing() as session:
            session.run(_RELEASE, 1, self.consumer, *place, self.worker)

    def settle(self, place: Place) -> None:
        """Give a trigger back unless the transaction that acknowledges it has been committed.

        One that nobody has ended yet is not waited for.
        """
        with self.store.desk.writing() as session:
            session.take_time()
            session.run(_RELEASE, 0, self.consumer, *place, self.worker)

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

    def acknowledge(self, place: Place, now: datetime) -> bool:
        """Note that a trigger is dealt with; False where this worker does not hold it."""
        with self.store.desk.writing() as session:
            held = (self.consumer, *place, self.worker)
            done = session.run(_ACKNOWLEDGE.format(""), now, *held) == 1
            # The answer to an earlier one may have been lost.
            return done or bool(session.rows(_ACKNOWLEDGED, *held))

    def acknowledge_in(self, caller: Joined, place: Place, now: datetime) -> bool:
        """The same in a caller's transaction; False also where it was noted before.

        Then what else that transaction does was done before, too.
        """
        held = (self.consumer, *place, self.worker)
        return caller.session.run(_ACKNOWLEDGE.format(caller.schema), now, *held) == 1
