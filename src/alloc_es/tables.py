"""Tables of read models, described once for every kind of store."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from alloc_es.errors import InvalidSetting
from alloc_es.wording import shown, with_article

Kind = Literal["text", "integer", "time"]
"""What a column holds: a string, a signed 64-bit integer, or an aware `datetime`.

In PostgreSQL `text` in the order of its bytes, `bigint` and `timestamptz`; in SQLite `TEXT`,
`INTEGER` and `TEXT` in ISO 8601 with six digits and `Z`, which sorts as time does.
"""

KINDS: tuple[Kind, ...] = ("text", "integer", "time")

# A double underscore parts a table from the number of its build, and PostgreSQL cuts a name
# off behind 63 characters.
_SYSTEM_COLUMNS = frozenset({"cmax", "cmin", "ctid", "oid", "rowid", "tableoid", "xmax", "xmin"})
_TYPES: Mapping[Kind, type] = {"text": str, "integer": int, "time": datetime}
_NAME = re.compile(r"(?!.*__|sqlite_|pg_)[a-z][a-z0-9_]{0,47}")


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its name, what it holds, and what that means in words."""

    name: str
    kind: Kind
    meaning: str
    optional: bool = False

    def __post_init__(self) -> None:
        parse_name("column", self.name)
        if self.kind not in KINDS:
            raise InvalidSetting(self.name, f"{shown(self.kind)} is no kind of column")


@dataclass(frozen=True, slots=True)
class Table:
    """A table of a read model.

    Its columns hold the tenant and the workflow of each row as `tenant_id` and
    `workflow_id`; `key` names the columns that tell rows apart, the tenant first, so that
    one tenant's rows never stand for another's. `indexes` are further ones to look up by.
    Raises `InvalidSetting` for what can't be a table.
    """

    name: str
    meaning: str
    columns: tuple[Column, ...]
    key: tuple[str, ...]
    indexes: tuple[tuple[str, ...], ...] = ()

    def __post_init__(self) -> None:
        parse_name("table", self.name)
        names = self.names
        if len(set(names)) < len(names):
            raise InvalidSetting(self.name, "two of its columns have the same name")
        required = {column.name: column.kind for column in self.columns if not column.optional}
        if not {"tenant_id", "workflow_id", *self.key} <= required.keys():
            problem = "it needs the columns tenant_id, workflow_id and its key, none optional"
            raise InvalidSetting(self.name, problem)
        if (required["tenant_id"], required["workflow_id"]) != ("text", "text"):
            raise InvalidSetting(self.name, "its columns tenant_id and workflow_id must be text")
        if self.key[:1] != ("tenant_id",) or len(set(self.key)) < len(self.key):
            raise InvalidSetting(self.name, "its key must begin with tenant_id, each column once")
        if not all(index and len(set(index)) == len(index) for index in self.indexes):
            raise InvalidSetting(self.name, "an index needs columns, each once")
        if unknown := {name for index in self.indexes for name in index} - set(names):
            raise InvalidSetting(self.name, f"it has no column {sorted(unknown)[0]} to index")

    @property
    def names(self) -> tuple[str, ...]:
        """The names of its columns, in order."""
        return tuple(column.name for column in self.columns)

    @property
    def rest(self) -> tuple[str, ...]:
        """The names of the columns outside of the key."""
        return tuple(name for name in self.names if name not in self.key)

    def places(self, kind: Kind) -> tuple[int, ...]:
        """Where in a row the columns of a kind are."""
        return tuple(i for i, column in enumerate(self.columns) if column.kind == kind)

    def check(self, rows: Iterable[Sequence[object]]) -> None:
        """Raise `ValueError` for what no store may be given as a row of it."""
        # What nearly every row is made of, at a glance.
        usual = [_TYPES[column.kind] for column in self.columns]
        times, texts = self.places("time"), self.places("text")
        for row in rows:
            if len(row) != len(self.columns):
                raise ValueError(f"a row has {len(row)} values for {len(self.columns)} columns")
            if [*map(type, row)] != usual:
                self._check_kinds(row)
            for place in times:
                if row[place] is not None and row[place].utcoffset() is None:  # type: ignore[attr-defined]
                    raise ValueError(f"{self._said(row, place)}, not one with its time zone")
            for place in texts:
                if row[place] and "\0" in row[place]:  # type: ignore[operator]
                    raise ValueError(f"{self._said(row, place)}, with a NUL character")

    def _check_kinds(self, row: Sequence[object]) -> None:
        for place, (column, value) in enumerate(zip(self.columns, row, strict=True)):
            if value is None and column.optional:
                continue
            if not isinstance(value, _TYPES[column.kind]) or isinstance(value, bool):
                raise ValueError(f"{self._said(row, place)}, not {with_article(column.kind)}")

    def _said(self, row: Sequence[object], place: int) -> str:
        return f"{self.columns[place].name} is {shown(row[place])}"

    def key_of(self, row: Sequence[object]) -> tuple[object, ...]:
        """The key of a row."""
        return tuple(row[self.names.index(name)] for name in self.key)


def listed(names: Iterable[str]) -> str:
    """Names as they stand in SQL, whatever words they are there."""
    return ", ".join(f'"{name}"' for name in names)


def parse_name(what: str, name: object) -> str:
    """The name of a projection, table, view or column, as all stores take it."""
    if not isinstance(name, str) or not _NAME.fullmatch(name) or name in _SYSTEM_COLUMNS:
        problem = f"{shown(name)} can't be one; use a-z, 0-9 and single _, up to 48"
        raise InvalidSetting(f"name of a {what}", problem)
    return name
