"""Runs by the thousand, written past the library in no time."""

from alloc_es import Allocations
from alloc_es.codec import encode
from tests.support.raw import RUNS, Raw

KEY = ("acme", "triage")
_MARK = "run-that-is-copied"


class Filler:
    """Appends runs of one workflow, which differ in their ids only."""

    def __init__(self, allocations: Allocations) -> None:
        workflow = allocations.workflow(*KEY)
        workflow.start("v1")
        run = workflow.spawn_run(_MARK)
        self._stream = run.originator_id
        self._topic, state = encode(run)
        self._state = state.decode()
        self._made = 0

    def fill(self, database: Raw, count: int) -> None:
        """Append so many, in one transaction."""
        first, self._made = self._made, self._made + count
        statement = {
            "postgresql": (
                f"INSERT INTO {RUNS} (originator_id, originator_version, topic, state)"
                " SELECT replace(?, ?, 'run-' || n), 1, ?,"
                " convert_to(replace(?, ?, 'run-' || n), 'UTF8')"
                " FROM generate_series(?::bigint, ?::bigint) AS n"
            ),
            "sqlite": (
                f"INSERT INTO {RUNS} (originator_id, originator_version, topic, state)"
                " WITH RECURSIVE numbers (n, stop) AS (SELECT ?6, ?7 UNION ALL"
                " SELECT n + 1, stop FROM numbers WHERE n < stop)"
                " SELECT replace(?1, ?2, 'run-' || n), 1, ?3,"
                " CAST(replace(?4, ?5, 'run-' || n) AS BLOB) FROM numbers"
            ),
        }[database.kind]
        values = (self._stream, _MARK, self._topic, self._state, _MARK, first, self._made - 1)
        database.execute(statement, *values)
