"""The rival that the `eventsourcing` package offers: its own application and aggregate."""

import sqlite3
from collections.abc import Mapping
from typing import Any, ClassVar
from uuid import NAMESPACE_URL, UUID, uuid5

import eventsourcing.persistence as es
from eventsourcing.application import Application
from eventsourcing.domain import Aggregate, event
from psycopg.conninfo import conninfo_to_dict

from tests.bench.rivals import ACTOR, CHALLENGER, CURRENT, REASON, TENANT, LostRace, Rival

SNAPSHOT_EVERY = 10
_PAGE = 500
_SALT = "5f2b8c2e9d6a4f0e8f4f6f5d0a9b7c31"


class AllocationAggregate(Aggregate):
    """An allocation as the package's tutorial would write it."""

    @event("Started")
    def __init__(self, key: str, current: str, actor: str, reason: str) -> None:
        self.key = key
        self.current = current
        self.challenger: str | None = None
        self.share_bps = 0
        self.actor = actor
        self.reason = reason

    @staticmethod
    def create_id(key: str) -> UUID:
        """The id that belongs to a key."""
        return uuid5(NAMESPACE_URL, f"{TENANT}/{key}")

    @event("Registered")
    def register(self, challenger: str, share_bps: int, actor: str, reason: str) -> None:
        """A challenger takes the slot."""
        self.challenger = challenger
        self.share_bps = share_bps
        self.actor = actor
        self.reason = reason

    @event("Committed")
    def commit(self, share_bps: int, actor: str, reason: str) -> None:
        """The challenger's share changes."""
        self.share_bps = share_bps
        self.actor = actor
        self.reason = reason


class RunAggregate(Aggregate):
    """A run as the package's tutorial would write it: its one event says what it got."""

    @event("Spawned")
    def __init__(
        self,
        key: str,
        run_id: str,
        unit: str,
        version: str,
        arm: str,
        generation: int,
        bucket: int,
        slot: tuple[int, int],
        salt: str,
        actor: str,
    ) -> None:
        self.key = key
        self.run_id = run_id
        self.unit = unit
        self.version_name = version
        self.arm = arm
        self.generation = generation
        self.bucket = bucket
        self.slot = slot
        self.salt = salt
        self.actor = actor


class Plain(Application[UUID]):
    """Replays the whole stream at each load."""


class Snapshotting(Application[UUID]):
    """Replays what came after the newest snapshot."""

    snapshotting_intervals: ClassVar[dict[Any, int]] = {AllocationAggregate: SNAPSHOT_EVERY}


class Library(Rival):
    """The package's application on the package's own recorders and tables."""

    def __init__(self, settings: Mapping[str, str], *, snapshots: bool) -> None:
        self._application = (Snapshotting if snapshots else Plain)(dict(settings))

    def fill(self, key: str, generations: int) -> None:
        """Store a made-up history, many events to a transaction, and one snapshot at its end."""
        aggregate = AllocationAggregate(key, CURRENT, ACTOR, REASON)
        aggregate.register(CHALLENGER, 500, ACTOR, REASON)
        while aggregate.version < generations:
            aggregate.commit(500 + aggregate.version % 2, ACTOR, REASON)
        events = aggregate.collect_events()
        for first in range(0, len(events), _PAGE):
            self._application.events.put(events[first : first + _PAGE])
        if self._application.snapshots is not None:
            self._application.take_snapshot(aggregate.id)

    def commit(self, key: str, share_bps: int, expected: int) -> int:
        """Get the aggregate, compare its version, trigger an event and save."""
        aggregate = self._load(key)
        if aggregate.version != expected:
            raise LostRace
        self._save(aggregate, share_bps)
        return aggregate.version

    def contend(self, key: str, share_bps: int) -> None:
        """Get, trigger, save; after a conflict again from the start."""
        while True:
            try:
                return self._save(self._load(key), share_bps)
            except LostRace:
                continue

    def read(self, key: str) -> int:
        """`repository.get`."""
        return self._load(key).version

    def insert_run(self, key: str, run_id: str) -> None:
        """Trigger the one event of a run, told what it got, and save."""
        run = RunAggregate(
            key=f"{TENANT}/{key}",
            run_id=run_id,
            unit=run_id,
            version=CURRENT,
            arm="control",
            generation=2,
            bucket=4_711,
            slot=(500, 10_000),
            salt=_SALT,
            actor=ACTOR,
        )
        self._application.save(run)

    def close(self) -> None:
        """Close the application."""
        self._application.close()

    def _load(self, key: str) -> AllocationAggregate:
        found: AllocationAggregate = self._application.repository.get(
            AllocationAggregate.create_id(key)
        )
        return found

    def _save(self, aggregate: AllocationAggregate, share_bps: int) -> None:
        aggregate.commit(share_bps, ACTOR, REASON)
        try:
            self._application.save(aggregate)
        except es.IntegrityError as error:
            raise LostRace from error
        except es.OperationalError as error:
            # The package begins deferred transactions, which SQLite can't let wait.
            if not isinstance(error.__cause__, sqlite3.OperationalError):
                raise
            raise LostRace from error


def on_postgres(url: str, schema: str) -> dict[str, str]:
    """The package's settings for its own schema on a server."""
    parts = conninfo_to_dict(url)
    return {
        "PERSISTENCE_MODULE": "eventsourcing.postgres",
        "POSTGRES_DBNAME": str(parts["dbname"]),
        "POSTGRES_HOST": str(parts["host"]),
        "POSTGRES_PORT": str(parts["port"]),
        "POSTGRES_USER": str(parts["user"]),
        "POSTGRES_PASSWORD": str(parts.get("password", "")),
        "POSTGRES_SCHEMA": schema,
    }


def on_sqlite(path: str) -> dict[str, str]:
    """The package's settings for a file."""
    return {
        "PERSISTENCE_MODULE": "eventsourcing.sqlite",
        "SQLITE_DBNAME": path,
        "SQLITE_LOCK_TIMEOUT": "60",
    }
