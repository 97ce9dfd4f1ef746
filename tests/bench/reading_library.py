"""The package's own projection of the same runs: a row and its tracking in one transaction."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from eventsourcing.application import Application
from eventsourcing.persistence import JSONTranscoder, Mapper, Tracking
from eventsourcing.postgres import PostgresDatastore, PostgresTrackingRecorder
from eventsourcing.projection import Projection, ProjectionRunner
from psycopg.sql import SQL, Identifier

from alloc_es.events import RunSpawned
from alloc_es.store.log import EventMapper
from alloc_projections.run_ledger import PROJECTION
from tests.bench.library import on_postgres

ROWS = "bench_library_runs"

_ROLE = "bench_hasty"
_TABLE = PROJECTION.table("run_ledger")


class Runs(Application[str]):
    """Our run log as the package reads it: its recorder on our table, and our decoder."""

    name = "run"

    def construct_mapper(self) -> Mapper[str]:
        """The decoder of our log, which is faster than the package's."""
        return EventMapper(JSONTranscoder())


class RunRows(PostgresTrackingRecorder):
    """The read model; its table is made beforehand, with the columns and indexes of ours."""

    def __init__(self, datastore: PostgresDatastore, **settings: Any) -> None:
        super().__init__(datastore, **settings)
        place = Identifier(datastore.schema), Identifier(ROWS)
        columns = SQL(", ").join(map(Identifier, _TABLE.names))
        values = SQL(", ").join([SQL("%s")] * len(_TABLE.names))
        self._insert = SQL("INSERT INTO {0}.{1} ({2}) VALUES ({3})").format(*place, columns, values)
        self._count = SQL("SELECT count(*) AS rows FROM {0}.{1}").format(*place)

    def insert(self, run: RunSpawned, tracking: Tracking) -> None:
        """A run and how far the model has come."""
        row = (
            run.tenant_id,
            run.workflow_id,
            run.run_id,
            run.version,
            run.arm,
            run.generation,
            run.episode,
            run.unit,
            run.bucket,
            run.actor,
            run.recorded_at,
            tracking.notification_id,
            run.decision_position,
        )
        with self.datastore.transaction(commit=True) as cursor:
            cursor.execute(self._insert, row, prepare=True)
            self._insert_tracking(cursor, tracking)

    def count(self) -> int:
        """How many runs it has."""
        with self.datastore.transaction() as cursor:
            found = cursor.execute(self._count).fetchone()
            assert found is not None
            return int(found["rows"])


class RunRowsProjection(Projection[RunRows]):
    """A row for each run."""

    name = "bench_library"

    def process_event(self, domain_event: Any, tracking: Tracking) -> None:
        """A row for the run."""
        self.view.insert(domain_event, tracking)


def hasty_role(connection: psycopg.Connection) -> None:
    """Who does not wait for the disk at each commit: the package has no setting for it."""
    connection.execute(f"DROP ROLE IF EXISTS {_ROLE}")
    connection.execute(f"CREATE ROLE {_ROLE} SUPERUSER LOGIN")
    connection.execute(f"ALTER ROLE {_ROLE} SET synchronous_commit = off")


@contextmanager
def running(url: str, schema: str) -> Iterator[RunRows]:
    """The model while the package's runner brings it on from where it was, in its thread."""
    settings = {
        **on_postgres(url, schema),
        "POSTGRES_USER": _ROLE,
        "POSTGRES_ORIGINATOR_ID_TYPE": "text",
        "RUN_CREATE_TABLE": "no",
    }
    with ProjectionRunner(
        application_class=Runs,
        projection_class=RunRowsProjection,
        view_class=RunRows,
        env=settings,
    ) as runner:
        yield runner.view
