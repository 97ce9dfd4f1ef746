"""Logs of many runs, made up in the server: spawning a million of them would take a minute."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime

import psycopg
from psycopg.sql import SQL, Identifier

from alloc_es import codec
from alloc_es.events import DecisionEvent, RunSpawned
from alloc_es.identity import Actor, RunId, TenantId, Unit, WorkflowId, run_stream
from alloc_es.routing import Router
from tests.bench.ledger import AllocEs, history
from tests.bench.rivals import ACTOR, TENANT
from tests.support.postgres import with_schema

WORKFLOWS = 20
GENERATIONS = 11

_PAGE = 100_000
_ID, _UNIT, _BUCKET, _TIME = "@id", "@unit", "@bucket", "@time"
_BEGAN = datetime(2026, 1, 1, 12, 0, 0, 123_456, tzinfo=UTC)
_KINDS = (
    "CREATE TEMPORARY TABLE kinds"
    " (workflow integer, generation integer, first integer, past integer, form text)"
)
# In the time in which the log grows, each workflow goes through all of its generations.
_INSERT = """
INSERT INTO run_events (originator_id, originator_version, topic, state)
SELECT replace(%(stream)s, '@id', run.id), 1, %(topic)s, convert_to(
    replace(replace(replace(replace(kind.form, '@id', run.id), '@unit', run.id),
        '@bucket', run.bucket::text), '@time', run.time), 'UTF8')
FROM (
    SELECT number, md5(number::text) AS id, number %% %(workflows)s AS workflow,
        2 + number * (%(generations)s - 1) / %(runs)s AS generation,
        number * 7919 %% 10000 AS bucket,
        to_char(timestamp '2026-01-01 12:00:00.123456' + number * interval '1 millisecond',
            'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') AS time
    FROM generate_series(%(first)s::bigint, %(last)s::bigint) AS number
) AS run
JOIN kinds AS kind ON kind.workflow = run.workflow AND kind.generation = run.generation
    AND run.bucket >= kind.first AND run.bucket < kind.past
ORDER BY number
"""


@dataclass
class RunLog:
    """A ledger with so many runs of 20 workflows, made when it is first asked for.

    In a schema of its own on the server at `base`. Every run has a time of its own.
    """

    base: str
    schema: str
    runs: int
    _made: bool = field(default=False, init=False)

    def url(self) -> str:
        """Its URL."""
        if not self._made:
            self._made = True
            _fill_decisions(with_schema(self.base, self.schema))
            with self.connection() as connection:
                _fill_runs(connection, self.runs)
        return with_schema(self.base, self.schema)

    def connection(self) -> psycopg.Connection:
        """A connection by the driver alone, which waits for the disk as little as catching up."""
        connection = psycopg.connect(self.base, autocommit=True)
        connection.execute(SQL("SET search_path TO {0}").format(Identifier(self.schema)))
        connection.execute("SET synchronous_commit = off")
        return connection


def workflow_ids() -> list[str]:
    """The workflows of a log."""
    return [f"workflow-{number}" for number in range(WORKFLOWS)]


def _fill_decisions(url: str) -> None:
    with AllocEs(url) as ledger:
        for workflow_id in workflow_ids():
            ledger.fill(workflow_id, GENERATIONS)


def _fill_runs(connection: psycopg.Connection, runs: int) -> None:
    connection.execute(_KINDS)
    with connection.cursor() as cursor:
        cursor.executemany("INSERT INTO kinds VALUES (%s, %s, %s, %s, %s)", list(_kinds()))
    form = {
        "stream": run_stream(TenantId(TENANT), RunId(_ID)),
        "topic": codec.RUN_SPAWNED,
        "workflows": WORKFLOWS,
        "generations": GENERATIONS,
        "runs": runs,
    }
    for first in range(0, runs, _PAGE):
        page = {"first": first, "last": min(runs, first + _PAGE) - 1}
        connection.execute(_INSERT, {**form, **page})
    # Else the first reader would do it, or the server by itself at any moment.
    connection.execute("VACUUM (ANALYZE) run_events")


def _kinds() -> Iterator[tuple[int, int, int, int, str]]:
    """The runs of each slot of each generation: where they belong, and their JSON."""
    for number, workflow_id in enumerate(workflow_ids()):
        for event in history(workflow_id, GENERATIONS)[1:]:
            position = number * GENERATIONS + event.generation
            for slot, form in _forms(event, position):
                yield number, event.generation, *slot, form


def _forms(event: DecisionEvent, position: int) -> Iterator[tuple[tuple[int, int], str]]:
    for routing in Router(event.allocation).slots:
        run = RunSpawned(
            tenant_id=TenantId(TENANT),
            workflow_id=WorkflowId(event.key.workflow_id),
            run_id=RunId(_ID),
            actor=Actor(ACTOR),
            recorded_at=_BEGAN,
            decision_position=position,
            **{**routing._asdict(), "unit": Unit(_UNIT)},
        )
        form = codec.encode(run)[1].decode()
        form = form.replace(codec.time_text(_BEGAN), _TIME)
        yield routing.slot, form.replace(f'"bucket":{run.bucket},', f'"bucket":{_BUCKET},')
