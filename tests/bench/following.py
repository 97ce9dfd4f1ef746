"""How long a decision takes until a read model shows it."""

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from itertools import count
from pathlib import Path
from time import perf_counter
from typing import Any

import psycopg

import alloc_es
from tests.bench.flat_out import Samples, decider, of_the_same
from tests.bench.goals import Goal, Within
from tests.bench.measuring import Case, Contender, Measure
from tests.bench.rivals import TENANT
from tests.bench.scale import Scale
from tests.bench.spawning import open_ledger, started
from tests.bench.stores import Stores
from tests.support.postgres import with_schema

_ROUNDS = 3
_SCHEMA = "bench_following"
_PATIENCE_SECONDS = 60.0

Look = Callable[[str], int]
"""The generation of a workflow that the view shows."""


def visible(stores: Stores, scale: Scale) -> Case:
    """From the answer to a decision to the moment at which `current_split` shows it."""
    goals: tuple[Goal, ...] = ()
    if stores.kind == "PostgreSQL":
        goals = (Within("p99", 50, "ms"),)
    samples = Samples()
    return Case(
        f"A decision until current_split shows it, {stores.kind}",
        "ms",
        (
            Contender("p50", partial(_seeing, stores, scale.seen_decisions, samples)),
            Contender("p99", partial(of_the_same, samples)),
        ),
        goals,
        note=(
            f"{scale.seen_decisions} decisions a round, one after another, nobody else at work; "
            "from the return of the call that commits to the first SELECT on the view, of many "
            "on another connection, that shows it; a follower runs in a thread of the same process"
        ),
        rounds=_ROUNDS,
    )


@contextmanager
def _seeing(stores: Stores, decisions: int, samples: Samples) -> Iterator[Measure]:
    url, looking = _place(stores)
    with open_ledger(url) as allocations, open_ledger(url) as beside, looking() as look:
        workflow_ids = started(allocations)
        projections = beside.projections()
        with projections.follow("current_split", tell=lambda _: None):
            projections.wait_for("current_split", timeout=_PATIENCE_SECONDS)
            see = _seer(allocations, workflow_ids, look)

            def measured() -> float:
                samples.milliseconds = [see() for _ in range(decisions)]
                return samples.quantile(0.5)

            yield measured


def _seer(
    allocations: alloc_es.Allocations, workflow_ids: Sequence[str], look: Look
) -> Callable[[], float]:
    """Decides on the next workflow at each call, and returns the milliseconds until it is seen."""
    decide = decider(allocations, workflow_ids)
    numbers = count()

    def see() -> float:
        workflow_id = workflow_ids[next(numbers) % len(workflow_ids)]
        generation = allocations.workflow(TENANT, workflow_id).allocation().generation
        decide()
        began = perf_counter()
        while look(workflow_id) <= generation:
            if perf_counter() > began + _PATIENCE_SECONDS:
                raise TimeoutError(f"generation {generation + 1} of {workflow_id} is not shown")
        return (perf_counter() - began) * 1_000

    return see


def _place(stores: Stores) -> tuple[str, Callable[[], Any]]:
    """A ledger with nothing else in it, and what looks at its view."""
    if stores.kind == "PostgreSQL":
        return with_schema(stores.base, _SCHEMA), partial(_by_psycopg, stores.base)
    path = Path(stores.base) / f"{_SCHEMA}.db"
    return f"sqlite:///{path}", partial(_by_sqlite3, path)


@contextmanager
def _by_psycopg(url: str) -> Iterator[Look]:
    with psycopg.connect(url, autocommit=True) as connection:
        select = f"SELECT generation FROM {_SCHEMA}.current_split WHERE workflow_id = %s"

        def look(workflow_id: str) -> int:
            (generation,) = connection.execute(select, (workflow_id,)).fetchone() or (0,)
            return int(generation)

        yield look


@contextmanager
def _by_sqlite3(path: Path) -> Iterator[Look]:
    with closing(sqlite3.connect(path)) as connection:
        select = "SELECT generation FROM current_split WHERE workflow_id = ?"

        def look(workflow_id: str) -> int:
            (generation,) = connection.execute(select, (workflow_id,)).fetchone() or (0,)
            return int(generation)

        yield look
