"""The reference of export formats has every attribute and column, as the code has them."""

import inspect
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from alloc_es.exchange import Exported, Imported, export, import_, open_export
from alloc_es.exchange.cloudevents import ATTRIBUTES, BEGAN, ENDED
from alloc_es.exchange.decision_columns import DECISION_COLUMNS
from alloc_es.exchange.parquet import MANIFEST
from alloc_es.exchange.run_columns import RUN_COLUMNS
from tests.docs.test_reference import default_of, section

DOCUMENT = "export-formats.md"
GOLDEN = Path(__file__).parents[1] / "exchange" / "golden"


def test_every_member_of_a_line_is_described() -> None:
    """Red when a line gets a member that the table does not have, or they change places."""
    rows = re.findall(r"^\| `(\w+)` \| (.+) \|$", section(DOCUMENT, "Lines of events"), re.M)
    assert rows == list(ATTRIBUTES.items())
    (_, line, *_) = (GOLDEN / "format-1.jsonl").read_text().splitlines()
    assert list(json.loads(line)) == [name for name in ATTRIBUTES if name != "data_base64"]


@pytest.mark.parametrize(
    ("heading", "columns"),
    [("Columns of runs", RUN_COLUMNS), ("Columns of decisions", DECISION_COLUMNS)],
)
def test_every_column_is_described(heading: str, columns: Mapping[str, tuple[str, str]]) -> None:
    """Red when a table gets a column, or another type, that the document does not tell."""
    rows = re.findall(r"^\| `(\w+)` \| (.+?) \| (.+) \|$", section(DOCUMENT, heading), re.M)
    assert {name: (kind, meaning) for name, kind, meaning in rows} == columns
    assert [name for name, *_ in rows] == list(columns)


def test_every_field_beside_the_events_is_described() -> None:
    """Red when the first line, the last line or the manifest gets a field."""
    first, *_, last = (GOLDEN / "format-1.jsonl").read_text().splitlines()
    marks = section(DOCUMENT, "The first line and the last line")
    for line, kind in ((first, BEGAN), (last, ENDED)):
        event = json.loads(line)
        assert event["type"] == kind
        assert {
            name for name in (kind, *event, *event["data"]) if f"`{name}`" not in marks
        } == set()
    manifest = json.loads((GOLDEN / "format-1" / MANIFEST).read_text())
    told = section(DOCUMENT, MANIFEST)
    assert re.findall(r"^\| `(\w+)` ", told, re.M) == list(manifest)
    files = section(DOCUMENT, "Columns of runs")
    assert {name for name in manifest["runs"][0] if f"`{name}`" not in files} == set()


@pytest.mark.parametrize("function", [export, import_, open_export], ids=lambda f: f.__name__)
def test_every_call_is_shown_with_its_arguments_and_defaults(function: Any) -> None:
    """Red when an argument is added, renamed, or gets another default."""
    shown = section(DOCUMENT, function.__name__).split("```")[1]
    for parameter in inspect.signature(function).parameters.values():
        default = parameter.default
        given = "" if default is parameter.empty else f"={default_of(parameter)}"
        assert re.search(rf"\b{parameter.name}{re.escape(given)}[,)]", shown), parameter


@pytest.mark.parametrize("answer", [Exported, Imported], ids=lambda answer: answer.__name__)
def test_every_field_of_an_answer_is_described(answer: Any) -> None:
    """Red when an answer gets a field that is not told."""
    told = section(DOCUMENT, answer.__name__)
    assert {name for name in answer.__dataclass_fields__ if f"`{name}`" not in told} == set()
