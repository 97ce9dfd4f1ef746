"""Logs of many runs, made up in the server: spawning a million of them would take a minute."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import cast

import psycopg
from eventsourcing.domain import DomainEventProtocol
from psycopg.sql import SQL, Identifier

from alloc_es import codec, connect
from alloc_es.events import DecisionEvent, Recorded, RunSpawned
from alloc_es.identity import Actor, RunId, TenantId, Unit, WorkflowId, run_stream
from alloc_es.routing import Router
from tests.bench.ledger import history
from tests.bench.rivals import ACTOR, TENANT
from tests.support.postgres import with_schema

WORKFLOWS = 20
GENERATIONS = 11

_PAGE = 100_000
_ID, _UNIT, _BUCKET, _TIME = "@id", "@unit", "@bucket", "@time"
_BEGAN = datetime(2026, 1, 1, 12, 0, 0, 123_456, tzinfo=UTC)
_KINDS = (
    "CREATE TEMPORARY TABLE kinds"
    " (workflow integer, generation integer, seed bytea, first integer, past integer, form text)"
)
# In the time in which the log grows, each workflow goes through all of its generations. The
# bucket is as in the reference of bucketing; a kind's seed has all of its fields but the unit.
_INSERT = """
INSERT INTO run_events (originator_id, originator_version, topic, state)
SELECT replace(%(stream)s, '@id', run.id), 1, %(topic)s, convert_to(
    replace(replace(replace(replace(kind.form, '@id', run.id), '@unit', run.id),
        '@bucket', run.bucket::text), '@time', run.time), 'UTF8')
FROM (
    SELECT number, id, time, workflow, generation, mod(
        ('x' || encode(substring(digest FROM 1 FOR 4), 'hex'))::bit(32)::bigint::numeric
        * 4294967296
        + ('x' || encode(substring(digest FROM 5 FOR 4), 'hex'))::bit(32)::bigint,
        10000
    ) AS bucket
    FROM (
        SELECT number, md5(number::text) AS id, number %% %(workflows)s AS workflow,
            2 + number * (%(generations)s - 1) / %(runs)s AS generation,
            to_char(timestamp '2026-01-01 12:00:00.123456' + number * interval '1 millisecond',
                'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') AS time
        FROM generate_series(%(first)s::bigint, %(last)s::bigint) AS number
    ) AS numbered
    JOIN (SELECT DISTINCT workflow, generation, seed FROM kinds) AS seeds
        USING (workflow, generation)
    CROSS JOIN LATERAL (
        SELECT sha256(seed || int4send(length(id)) || convert_to(id, 'UTF8')) AS digest
    ) AS hashed
) AS run
JOIN kinds AS kind ON kind.workflow = run.workflow AND kind.generation = run.generation
    AND run.bucket >= kind.first AND run.bucket < kind.past
ORDER BY number
"""


@dataclass
class RunLog:
    """A ledger with so many runs of 20 workflows, made when it is first asked for.

    In a schema of its own on the server at `base`. Every run has a time of its own, and an
    audit finds nothing.
    """

    base: str
    schema: str
    runs: int
    _made: bool = field(default=False, init=False)

    def url(self) -> str:
        """Its URL."""
        if not self._made:
            self._made = True
            decisions = _fill_decisions(with_schema(self.base, self.schema))
            with self.connection() as connection:
                _fill_runs(connection, decisions, self.runs)
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


def _fill_decisions(url: str) -> list[Recorded[DecisionEvent]]:
    """Decide on one workflow after the other, in turns: a run is verified behind a whole turn."""
    with connect(url) as allocations:
        histories = [history(workflow_id, GENERATIONS) for workflow_id in workflow_ids()]
        for turn in zip(*histories, strict=True):
            allocations._store.decisions.save(*cast(list[DomainEventProtocol[str]], turn))
        return list(allocations.decisions())


def _fill_runs(
    connection: psycopg.Connection, decisions: list[Recorded[DecisionEvent]], runs: int
) -> None:
    connection.execute(_KINDS)
    with connection.cursor() as cursor:
        kinds = list(_kinds(decisions))
        cursor.executemany("INSERT INTO kinds VALUES (%s, %s, %s, %s, %s, %s)", kinds)
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


def _kinds(
    decisions: list[Recorded[DecisionEvent]],
) -> Iterator[tuple[int, int, bytes, int, int, str]]:
    """The runs of each slot of each generation: where they belong, and their JSON."""
    numbers = {workflow_id: number for number, workflow_id in enumerate(workflow_ids())}
    ends = {each.generation: each.position for each in decisions}
    for each in decisions:
        number = numbers[each.event.key.workflow_id]
        for slot, form in _forms(each, ends[each.generation]):
            yield number, each.generation, _seed(each.event), *slot, form


def _seed(event: DecisionEvent) -> bytes:
    fields = (str(event.allocation.hash_version), event.allocation.salt)
    return b"".join(len(f.encode()).to_bytes(4) + f.encode() for f in fields)


def _forms(
    decision: Recorded[DecisionEvent], verified_at: int
) -> Iterator[tuple[tuple[int, int], str]]:
    for routing in Router(decision.event.allocation).slots:
        run = RunSpawned(
            tenant_id=TenantId(TENANT),
            workflow_id=WorkflowId(decision.event.key.workflow_id),
            run_id=RunId(_ID),
            actor=Actor(ACTOR),
            recorded_at=_BEGAN,
            decision_position=verified_at,
            decision_digest=decision.digest,
            **{**routing._asdict(), "unit": Unit(_UNIT)},
        )
        form = codec.encode(run)[1].decode()
        form = form.replace(codec.time_text(_BEGAN), _TIME)
        yield routing.slot, form.replace(f'"bucket":{run.bucket},', f'"bucket":{_BUCKET},')
