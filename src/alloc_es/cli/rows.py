"""Rows of runs, as JSON lines or CSV, parsed one by one: a bad one does not harm the others."""

import csv
import json
from collections.abc import Callable, Iterator, Sequence
from enum import StrEnum
from typing import Any, NoReturn

from alloc_es.cli.lines import LONGEST_LINE, Lines
from alloc_es.errors import InvalidSetting
from alloc_es.spawning import SpawnRequest
from alloc_es.wording import shown

FIELDS = ("run_id", "unit", "tenant_id", "workflow_id", "actor")
"""What a row may hold, by the names of `SpawnRequest`."""

_KNOWN = frozenset(FIELDS)
_ASKED = ", ".join(FIELDS)
_STRING = frozenset({str})
_HINT = (
    " (it was taken for CSV, as it does not begin with {; "
    "for JSON lines, an object a line, give --format jsonl)"
)
_KINDS: dict[type, str] = {bool: "true or false", list: "a list", dict: "an object"}


class RowFormat(StrEnum):
    """How rows are written."""

    JSONL = "jsonl"
    CSV = "csv"


class InvalidRow(Exception):
    """A row that names no run; the message says why."""


Row = tuple[int, SpawnRequest | InvalidRow]
"""The number of the line on which a row begins, and what stands there."""


class Rows:
    """The rows of an input.

    `tenant_id` and `workflow_id` are for rows that leave them out. Without a format the
    first byte that is no blank decides: `{` is JSON lines.
    """

    def __init__(
        self,
        lines: Lines,
        form: RowFormat | None,
        *,
        tenant_id: str | None = None,
        workflow_id: str | None = None,
    ) -> None:
        self._lines = lines
        self._form = form
        self._tenant_id = tenant_id
        self._workflow_id = workflow_id
        self._columns: Sequence[str] = ()
        self._parse: Callable[[bytes], SpawnRequest] | None = None

    def take(self) -> Row | None:
        """The row that begins on the next line; None for an empty line, and at the end.

        Raises `InvalidSetting` when the first line is a header that can't be one.
        """
        line = self._lines.take()
        if not line or line.isspace():
            return None
        number = self._lines.number
        try:
            if self._parse is None:
                self._parse = self._begin(line)
                if self._columns:
                    return None
            return number, self._parse(line)
        except InvalidRow as problem:
            return number, problem

    def _begin(self, first: bytes) -> Callable[[bytes], SpawnRequest]:
        form = self._form or (RowFormat.JSONL if first.lstrip().startswith(b"{") else RowFormat.CSV)
        if form is RowFormat.JSONL:
            return self._json
        try:
            self._columns = self._cells(first)
        except InvalidRow as problem:
            self._refuse_header(f"the header is no CSV: {problem}")
        self._check_header()
        return self._csv

    def _check_header(self) -> None:
        columns = self._columns
        problem = None
        if unknown := [name for name in columns if name not in _KNOWN]:
            names = ", ".join(shown(name) for name in unknown)
            problem = f"unknown column {names}; known are {_ASKED}"
        elif twice := sorted({name for name in columns if columns.count(name) > 1}):
            problem = f"column {', '.join(twice)} twice"
        elif "run_id" not in columns:
            problem = "no column run_id"
        elif self._tenant_id is None and "tenant_id" not in columns:
            problem = "no column tenant_id; name a TENANT for all rows, or add the column"
        elif self._workflow_id is None and "workflow_id" not in columns:
            problem = "no column workflow_id; name a WORKFLOW for all rows, or add the column"
        if problem:
            self._refuse_header(f"the CSV header has {problem}")

    def _refuse_header(self, problem: str) -> NoReturn:
        guessed = self._form is None and "run_id" not in self._columns
        raise InvalidSetting("--from", f"{problem}{_HINT if guessed else ''}") from None

    def _csv(self, line: bytes) -> SpawnRequest:
        cells = self._cells(line)
        if len(cells) != len(self._columns):
            count = f"{len(cells)} cell{'' if len(cells) == 1 else 's'}"
            raise InvalidRow(f"it has {count}, the header has {len(self._columns)}")
        # An empty cell is a field that is left out: CSV has no other way to say so.
        return self._request(
            {name: cell for name, cell in zip(self._columns, cells, strict=True) if cell}
        )

    def _cells(self, line: bytes) -> list[str]:
        if b'"' not in line:
            return _text(line).removesuffix("\r").split(",")
        further: list[bytes] = []
        reader = csv.reader(self._quoted(_text(line), further), strict=True)
        try:
            return next(reader)
        except (csv.Error, InvalidRow) as error:
            # A quote that is never closed costs its own line, not all that follow.
            self._lines.give_back(further)
            raise InvalidRow(f"its quotes are wrong: {error}") from None

    def _quoted(self, first: str, further: list[bytes]) -> Iterator[str]:
        """A line and, while csv asks for them, those that its quotes reach over."""
        yield f"{first}\n"
        size = len(first)
        while (following := self._lines.take()) is not None:
            further.append(following)
            size += len(following)
            if size > LONGEST_LINE:
                return
            yield f"{_text(following)}\n"

    def _json(self, line: bytes) -> SpawnRequest:
        text = _text(line).strip()
        try:
            fields, end = _DECODER.raw_decode(text)
        except json.JSONDecodeError as error:
            raise InvalidRow(f"it is not JSON: {error.msg} at character {error.pos + 1}") from None
        except (RecursionError, ValueError):
            # Python reads no integer of more than 4,300 digits.
            raise InvalidRow("it is JSON that is nested too deeply or too large") from None
        if end != len(text):
            raise InvalidRow(f"it is not one JSON object: more begins at character {end + 1}")
        if not isinstance(fields, dict):
            raise InvalidRow("it is no JSON object")
        if not fields.keys() <= _KNOWN:
            unknown = ", ".join(shown(name) for name in fields if name not in _KNOWN)
            raise InvalidRow(f"it has an unknown field {unknown}; known are {_ASKED}")
        if not _STRING.issuperset(map(type, fields.values())):
            _check_types(fields)
        return self._request(fields)

    def _request(self, fields: dict[str, str]) -> SpawnRequest:
        run_id, tenant_id, workflow_id = map(fields.get, ("run_id", "tenant_id", "workflow_id"))
        if tenant_id is None:
            tenant_id = self._tenant_id
        if workflow_id is None:
            workflow_id = self._workflow_id
        if run_id is None:
            raise InvalidRow("it has no run_id")
        if tenant_id is None or workflow_id is None:
            missing = "tenant_id" if tenant_id is None else "workflow_id"
            raise InvalidRow(f"it has no {missing}, and the command line names none")
        return SpawnRequest(tenant_id, workflow_id, run_id, fields.get("unit"), fields.get("actor"))


def _text(line: bytes) -> str:
    if len(line) > LONGEST_LINE:
        raise InvalidRow(f"it is longer than {LONGEST_LINE:,} bytes")
    try:
        return line.decode()
    except UnicodeDecodeError as error:
        raise InvalidRow(f"it is not UTF-8: {error.reason} at byte {error.start + 1}") from None


def _check_types(fields: dict[str, Any]) -> None:
    for name, value in fields.items():
        if value is not None and not isinstance(value, str):
            kind = _KINDS.get(type(value), "a number")
            raise InvalidRow(f"its {name} is {kind}, not a string")


def _fields(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) != len(pairs):
        raise InvalidRow("it has a field twice")
    return fields


_DECODER = json.JSONDecoder(object_pairs_hook=_fields)
