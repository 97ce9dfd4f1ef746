"""Catching up with a log of runs, beside the package's runner and beside one SQL statement."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from time import perf_counter, sleep
from typing import Any

import psycopg

from alloc_es.projection import Column, Projection, Rows, Table
from alloc_es.store import Recorded
from alloc_es.store.postgres_desk import PostgresSession
from alloc_projections.run_ledger import PROJECTION as RUN_LEDGER
from tests.bench import reading_library, reading_sql
from tests.bench.goals import AsFast
from tests.bench.measuring import Case, Contender, Measure, own_garbage
from tests.bench.reading_logs import RunLog
from tests.bench.scale import Scale
from tests.bench.spawning import RUNS_PER_SECOND, open_ledger

_ROUNDS = 5
_TENTH = 10

_NOTE = (
    "{0:,} runs of 20 workflows in 10 generations, each with a time of its own; nobody waits for "
    "the disk at a commit (synchronous_commit off), as a batch and its checkpoint are applied "
    "again after a crash"
)

_LEDGER = RUN_LEDGER.table("run_ledger")
_COUNTS = Table(
    "bench_counts",
    "How many runs each arm got.",
    (
        Column("tenant_id", "text", "The tenant."),
        Column("workflow_id", "text", "The workflow."),
        Column("episode", "integer", "The episode."),
        Column("generation", "integer", "The generation."),
        Column("arm", "text", "The arm."),
        Column("runs", "integer", "How many runs."),
    ),
    key=("tenant_id", "workflow_id", "episode", "generation", "arm"),
)

Statement = Callable[[Table, str], str]


def count(events: Sequence[Recorded[Any]], rows: Rows) -> None:
    """Add runs to the counts."""
    runs = Counter(
        (run.tenant_id, run.workflow_id, run.episode, run.generation, run.arm)
        for run in (entry.event for entry in events)
    )
    rows.add(_COUNTS.name, {place: (number,) for place, number in runs.items()})


COUNTS_ONLY = Projection(
    name="bench_counts",
    version=1,
    meaning="How many runs each arm got, in each generation of each workflow.",
    logs=("runs",),
    tables=(_COUNTS,),
    apply=count,
)


def ledger(log: RunLog, scale: Scale) -> Case:
    """`run_ledger`: a row for each run, and the counts."""
    own, library = "alloc-es, rebuild of run_ledger", "library, ProjectionRunner"
    once, record = "one SQL statement, operators", "one SQL statement, json_to_record"
    by_sql = partial(_by_sql, log, _LEDGER)
    part = max(1, log.runs // _TENTH)
    return Case(
        "Catching up with runs, PostgreSQL",
        RUNS_PER_SECOND,
        (
            Contender(own, partial(_by_rebuild, log, RUN_LEDGER)),
            Contender(library, partial(_by_library, log, scale.seconds)),
            Contender(once, partial(by_sql, reading_sql.once_a_row)),
            Contender(record, partial(by_sql, reading_sql.as_a_record)),
            Contender(
                "one SQL statement, operators on JSON parsed for each column",
                partial(by_sql, partial(reading_sql.once_a_column, runs=part)),
            ),
        ),
        (AsFast(own, [library], 50), AsFast(own, [once, record], 0.4)),
        note=(
            f"{_NOTE.format(log.runs)}. The others write the rows of the runs alone, with the same "
            f"columns and indexes; the package's runner for {scale.seconds:g} s a round, and the "
            f"last statement {part:,} of the runs"
        ),
        rounds=_ROUNDS,
    )


def counts(log: RunLog) -> Case:
    """The counts alone: what is left where nearly nothing is written."""
    own = "alloc-es, rebuild of the counts"
    once, record = "one SQL statement, operators", "one SQL statement, json_to_record"
    by_sql = partial(_by_sql, log, _COUNTS)
    return Case(
        "Counting runs, PostgreSQL",
        RUNS_PER_SECOND,
        (
            Contender(own, partial(_by_rebuild, log, COUNTS_ONLY)),
            Contender(once, partial(by_sql, reading_sql.counts_once_a_row)),
            Contender(record, partial(by_sql, reading_sql.counts_as_a_record)),
        ),
        (AsFast(own, [once, record], 0.6),),
        note=(
            f"{_NOTE.format(log.runs)}. The model holds only how many runs each workflow had by "
            "episode, generation and arm; the statements are INSERT … SELECT … GROUP BY"
        ),
        rounds=_ROUNDS,
    )


@contextmanager
def _by_rebuild(log: RunLog, projection: Projection) -> Iterator[Measure]:
    with open_ledger(log.url()) as allocations:
        more = [] if projection is RUN_LEDGER else [projection]
        projections = allocations.projections(*more)
        yield lambda: _rate(log.runs, lambda: projections.rebuild(projection.name))
        _check_whole(log, projection)


def _check_whole(log: RunLog, projection: Projection) -> None:
    """Demand that our model counts all runs."""
    table = "run_counts" if projection is RUN_LEDGER else _COUNTS.name
    with log.connection() as connection:
        found = connection.execute(f"SELECT sum(runs) FROM {table}").fetchone()
    assert found == (log.runs,), f"{found} runs are counted"


def _check_rows(connection: psycopg.Connection, table: Table, name: str) -> None:
    """Demand that somebody else has made no row that our model, which was built before, has not."""
    columns = ", ".join(table.names)
    other = f"SELECT {columns} FROM {name} EXCEPT SELECT {columns} FROM {table.name} LIMIT 1"
    found = connection.execute(other.encode()).fetchone()
    assert found is None, f"{name} has {found}"


@contextmanager
def _by_sql(log: RunLog, table: Table, statement: Statement) -> Iterator[Measure]:
    name = f"bench_sql_{table.name}"
    log.url()
    with log.connection() as connection:
        text = statement(table, name).encode()

        def measured() -> float:
            connection.execute(f"DROP TABLE IF EXISTS {name}")
            PostgresSession(connection).create(table, name)
            began = perf_counter()
            connection.execute(text)
            taken = perf_counter() - began
            _check_rows(connection, table, name)
            counted = "count(*)" if table is _LEDGER else "sum(runs)"
            (runs,) = connection.execute(f"SELECT {counted} FROM {name}").fetchone() or (0,)
            return float(runs) / taken

        yield measured


@contextmanager
def _by_library(log: RunLog, seconds: float) -> Iterator[Measure]:
    log.url()
    with log.connection() as connection:
        reading_library.hasty_role(connection)
        PostgresSession(connection).create(_LEDGER, reading_library.ROWS)

        def measured() -> float:
            connection.execute(f"TRUNCATE {reading_library.ROWS}")
            connection.execute("DROP TABLE IF EXISTS bench_library_tracking")
            with reading_library.running(log.base, log.schema) as view:
                rate = _rate_of_runner(view, seconds)
            _check_rows(connection, _LEDGER, reading_library.ROWS)
            return rate

        yield measured


def _rate_of_runner(view: reading_library.RunRows, seconds: float) -> float:
    """The runs per second of a runner that has begun."""
    while not (before := view.count()):
        sleep(0.001)
    with own_garbage():
        began = perf_counter()
        sleep(seconds)
        after, ended = view.count(), perf_counter()
    return (after - before) / (ended - began)


def _rate(runs: int, work: Callable[[], object]) -> float:
    with own_garbage():
        began = perf_counter()
        work()
        return runs / (perf_counter() - began)
