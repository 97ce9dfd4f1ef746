"""The reference of export formats has every attribute and column, as the code has them."""

import json
import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from alloc_es.exchange.cloudevents import ATTRIBUTES, BEGAN, ENDED
from alloc_es.exchange.decision_columns import DECISION_COLUMNS
from alloc_es.exchange.parquet import MANIFEST
from alloc_es.exchange.run_columns import RUN_COLUMNS
from tests.docs.test_reference import section

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
