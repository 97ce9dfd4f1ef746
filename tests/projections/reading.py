"""What is read of read models, and what they should hold by the plainest of folds."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from alloc_es import Allocations, Projection, WorkflowKey
from alloc_es.store.session import Row, Session

Model = dict[str, list[Row]]
"""The rows of a read model's tables, by the tables' names, in the order of their keys."""


def plain(row: Iterable[Any]) -> Row:
    """A row with its times as text, as SQLite holds them."""
    return tuple(_plain(value) for value in row)


def rows(allocations: Allocations, relation: str, order: str = "") -> list[Row]:
    """The rows of a table or view, in an order, or in that of all columns."""
    with allocations._store.desk.reading() as session:
        found = session.rows(f"SELECT * FROM {relation} {order and f'ORDER BY {order}'}")
    plainly = [plain(row) for row in found]
    return plainly if order else sorted(plainly, key=repr)


def query(allocations: Allocations, statement: str, *values: object) -> list[Row]:
    """What a statement selects."""
    with allocations._store.desk.reading() as session:
        return [plain(row) for row in session.rows(statement, *values)]


def execute(allocations: Allocations, statement: str, *values: object) -> None:
    """Change a store past everything that alloc-es checks."""
    with allocations._store.desk.writing() as session:
        session.run(statement, *values)


def columns(allocations: Allocations, relation: str) -> list[str]:
    """The names of the columns of a table or view, in order."""
    with allocations._store.desk.reading() as session:
        return [name for (name,) in session.rows(_columns_query(session), relation)]


def relations(allocations: Allocations) -> set[str]:
    """The names of all tables and views of a store."""
    with allocations._store.desk.reading() as session:
        if _is_postgres(session):
            query = (
                "SELECT relname FROM pg_class WHERE relkind IN ('r', 'v')"
                " AND relnamespace = current_schema()::regnamespace"
            )
        else:
            query = "SELECT name FROM sqlite_master WHERE type IN ('table', 'view')"
        return {name for (name,) in session.rows(query)}


def builds(allocations: Allocations, name: str) -> list[tuple[int, str]]:
    """The numbers and states of a projection's builds."""
    statement = "SELECT build, state FROM projection_builds WHERE name = ? ORDER BY build"
    return [(build, state) for build, state in query(allocations, statement, name)]


def model(allocations: Allocations, projection: Projection) -> Model:
    """What the views of a read model show."""
    return {
        table.name: rows(allocations, table.name, ", ".join(table.key))
        for table in projection.tables
    }


def folded(allocations: Allocations, projection: Projection) -> Model:
    """What a read model should hold: each log applied as one batch, in memory."""
    fold = Fold(projection)
    for log in projection.logs:
        events = list(allocations.decisions() if log == "decisions" else allocations.runs())
        if events:
            projection.apply(events, fold)
    return fold.model()


class Fold:
    """Rows of a read model in memory, for one batch of each log: so `of` finds nothing yet."""

    def __init__(self, projection: Projection) -> None:
        self._projection = projection
        self._held: dict[str, dict[Row, Row]] = {table.name: {} for table in projection.tables}

    def of(self, table: str, keys: Iterable[WorkflowKey]) -> list[Row]:  # noqa: ARG002
        return []

    def insert(self, table: str, rows: Iterable[Row]) -> None:
        known = self._projection.table(table)
        for row in rows:
            assert known.key_of(row) not in self._held[table]
            self._held[table][known.key_of(row)] = tuple(row)

    def put(self, table: str, rows: Iterable[Row]) -> None:
        known = self._projection.table(table)
        self._held[table] |= {known.key_of(row): tuple(row) for row in rows}

    def add(self, table: str, sums: Mapping[Row, Row]) -> None:
        known = self._projection.table(table)
        for key, more in sums.items():
            before = self._held[table].get(key)
            held = dict(zip(known.names, before, strict=True)) if before else {}
            held |= dict(zip(known.key, key, strict=True))
            for name, number in zip(known.rest, more, strict=True):
                held[name] = held.get(name, 0) + number
            self._held[table][key] = tuple(held[name] for name in known.names)

    def remove(self, table: str, keys: Iterable[WorkflowKey]) -> None:
        gone, known = set(keys), self._projection.table(table)
        tenant, workflow = known.names.index("tenant_id"), known.names.index("workflow_id")
        self._held[table] = {
            key: row
            for key, row in self._held[table].items()
            if WorkflowKey(row[tenant], row[workflow]) not in gone
        }

    def model(self) -> Model:
        return {
            table: [
                plain(held[key])
                for key in sorted(held, key=lambda key: [_in_bytes(part) for part in key])
            ]
            for table, held in self._held.items()
        }


def _plain(value: Any) -> Any:
    if not isinstance(value, datetime):
        return value
    return f"{value.astimezone(UTC).replace(tzinfo=None).isoformat(timespec='microseconds')}Z"


def _in_bytes(part: Any) -> Any:
    return part.encode() if isinstance(part, str) else part


def _is_postgres(session: Session) -> bool:
    return session.types["integer"] == "bigint"


def _columns_query(session: Session) -> str:
    if _is_postgres(session):
        return (
            "SELECT attname FROM pg_attribute WHERE attrelid = CAST(? AS text)::regclass"
            " AND attnum > 0 ORDER BY attnum"
        )
    return "SELECT name FROM pragma_table_info(?) ORDER BY cid"
