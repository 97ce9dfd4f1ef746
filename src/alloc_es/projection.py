"""What a projection is, and where installed ones are found."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Protocol

from alloc_es.errors import InvalidSetting
from alloc_es.events import Recorded
from alloc_es.identity import WorkflowKey
from alloc_es.store.recorder import LOGS, LogName
from alloc_es.store.session import Row
from alloc_es.tables import Column, Table, parse_name
from alloc_es.wording import shown

__all__ = ["Column", "Projection", "Rows", "Table", "installed"]

GROUP = "alloc_es.projections"
"""The entry-point group: each entry point leads to one `Projection` of the same name."""

_STORE_TABLES = (
    "alloc_es_schema",
    *LOGS.values(),
    "decision_log",
    "run_log",
    "run_archives",
    "archived_runs",
    "participants",
    "projection_builds",
    "projection_purges",
    "trigger_consumers",
    "trigger_deliveries",
    "trigger_workers",
)


class Rows(Protocol):
    """The rows of a read model, while a batch of events is applied to it.

    Changes are made together with the checkpoint, in one transaction, in the order in which
    they were asked for.
    """

    def of(self, table: str, keys: Iterable[WorkflowKey]) -> list[Row]:
        """The rows of some workflows, as the batch before left them, in no order."""

    def insert(self, table: str, rows: Iterable[Row]) -> None:
        """Add rows, none of whose keys may be there; values in the order of the columns."""

    def put(self, table: str, rows: Iterable[Row]) -> None:
        """Add rows, or replace those with the same key."""

    def add(self, table: str, sums: Mapping[Row, Row]) -> None:
        """Add what belongs to a key to the columns outside of the key, from 0 on.

        Both in the order of the columns; the columns outside of the key are integers.
        """

    def remove(self, table: str, keys: Iterable[WorkflowKey]) -> None:
        """Remove the rows of some workflows."""


Apply = Callable[[Sequence[Recorded[Any]], Rows], None]


@dataclass(frozen=True, slots=True)
class Projection:
    """A read model: its tables, and how events change their rows.

    `apply` is given events of one log, in commit order and each once, up to 1,000 at a
    time. What it does must depend on the events and the rows only, and not on how they
    are divided into batches; between the two logs there is no order. `version` goes up
    with each change of the tables or of what `apply` does: a model that an older version
    has built is then not mixed with, but rebuilt. `views` are more SELECTs, by their names,
    from the tables' names, in SQL that the stores in use understand. Raises
    `InvalidSetting` for what can't be a projection.
    """

    name: str
    version: int
    meaning: str
    logs: tuple[LogName, ...]
    tables: tuple[Table, ...]
    apply: Apply
    views: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        parse_name("projection", self.name)
        if type(self.version) is not int or self.version < 1:
            raise InvalidSetting(self.name, f"version {shown(self.version)} is not from 1 up")
        if not self.logs or set(self.logs) - LOGS.keys() or len(set(self.logs)) < len(self.logs):
            raise InvalidSetting(self.name, f"its logs are {shown(self.logs)}; use {sorted(LOGS)}")
        if not self.tables or len(set(self.relations)) < len(self.relations):
            raise InvalidSetting(self.name, "it needs tables and views, each with its own name")
        for view in self.views:
            parse_name("view", view)

    @property
    def relations(self) -> tuple[str, ...]:
        """The names of its tables and of its views, in the order in which views build on them."""
        return (*(table.name for table in self.tables), *self.views)

    def table(self, name: str) -> Table:
        """One of its tables; raises `InvalidSetting` for a name that none has."""
        for table in self.tables:
            if table.name == name:
                return table
        known = ", ".join(table.name for table in self.tables)
        raise InvalidSetting("table", f"{self.name} has no table {shown(name)}; it has {known}")


def installed() -> tuple[list[Projection], dict[str, InvalidSetting]]:
    """The projections of all installed packages, and why others can't be had, by their names."""
    found: list[Projection] = []
    broken: dict[str, InvalidSetting] = {}
    for point in sorted(entry_points(group=GROUP), key=lambda point: point.name):
        try:
            found.append(_loaded(point))
        except InvalidSetting as error:
            broken[point.name] = error
    return found, broken


def by_name(projections: Iterable[Projection]) -> dict[str, Projection]:
    """Projections by their names.

    Raises `InvalidSetting` where two have a name, or a table's or view's name, in common.
    """
    found: dict[str, Projection] = {}
    owners = dict.fromkeys(_STORE_TABLES, "the store")
    for projection in projections:
        if not isinstance(projection, Projection):
            raise InvalidSetting("projection", f"{shown(projection)} is no Projection")
        if projection.name in found:
            raise InvalidSetting(f"projection {projection.name}", "there are two of that name")
        found[projection.name] = projection
        for relation in projection.relations:
            owner = owners.setdefault(relation, projection.name)
            if owner != projection.name:
                problem = f"{owner} has a table or view {relation} too; rename one of them"
                raise InvalidSetting(f"projection {projection.name}", problem)
    return found


def _loaded(point: EntryPoint) -> Projection:
    try:
        loaded = point.load()
    except Exception as error:
        problem = f"{point.value} can't be loaded: {type(error).__name__}: {error}"
        raise InvalidSetting(f"projection {point.name}", problem) from error
    if not isinstance(loaded, Projection) or loaded.name != point.name:
        problem = f"{point.value} is {shown(loaded)}, not a Projection of that name"
        raise InvalidSetting(f"projection {point.name}", problem)
    return loaded
