"""What is told of the audit is what it does: its rules, its JSON, its seals, its Python API."""

import inspect
import re
from dataclasses import asdict, fields
from datetime import UTC, datetime
from typing import Any

import pytest

import alloc_es
from alloc_es import audit as audits
from alloc_es.audit import AuditReport, Head, RuleReport, Seal, SealedLog, make_seal
from alloc_es.audit.report import NUMBERS
from alloc_es.cli.audit_report import audit_document
from alloc_es.evidence import Evidence, Unreadable, open_evidence
from alloc_es.rules import RULES, Finding
from tests.docs.documents import ROOT
from tests.docs.test_reference import default_of, read, section, words

PAGE = "audit.md"
CALLS = [
    *((name, getattr(audits, name)) for name in ("audit", "make_seal", "read_seal")),
    ("usable_cores", audits.usable_cores),
    ("open_evidence", open_evidence),
]
Row = tuple[str, str]


@pytest.fixture(scope="module")
def audited() -> tuple[AuditReport, Seal]:
    """An audit of a log with a challenger, whose runs have a sample ratio, and a seal of it."""
    with alloc_es.connect("memory:") as allocations:
        workflow = allocations.workflow("acme", "triage")
        workflow.start("v1")
        workflow.register_challenger("v2")
        workflow.spawn_run("run-1")
        with open_evidence(allocations) as evidence:
            seal = make_seal(
                evidence, datetime(2026, 11, 30, tzinfo=UTC), previous=None, report=_unheard
            )
        return audits.audit(allocations, seals=[seal]), seal


def _unheard(done: int, goal: int) -> None:
    """Nobody asks how far it is."""


def table(heading: str, number: int = 0) -> dict[str, Row]:
    """A table under a heading: each name that its first column has, with the other cells."""
    tables = re.findall(r"(?:^\|.*\n)+", section(PAGE, heading), re.M)
    rows = (line.strip("|").split("|") for line in tables[number].splitlines()[2:])
    return {
        name: (cells[1].strip(), cells[-1].strip())
        for cells in rows
        for name in re.findall(r"`(\w+)`", cells[0])
    }


def test_the_rules_are_told_with_their_numbers_names_and_texts_in_their_order() -> None:
    """Red when a rule gets another number, name or text, or is left out of the explanation."""
    page = (ROOT / "docs" / "explanation" / "audit.md").read_text()
    told = re.findall(r"^\| (\d+) \| `(\w+)` \| (.+?) \| (.+?) \|$", page, re.M)
    assert [row[:3] for row in told] == [
        (str(number), name, RULES[name]) for name, number in NUMBERS.items()
    ]
    assert sorted(set(NUMBERS.values())) == list(range(1, 13))


def test_every_field_of_the_json_of_an_audit_is_told(audited: tuple[AuditReport, Seal]) -> None:
    """Red when the JSON gets a field that the page does not have, or the other way round."""
    heading = "The JSON of an audit"
    document = audit_document(audited[0], 1.0)
    (sample,) = document["samples"]
    finding = {field.name for field in fields(Finding)} | {"text"}
    shown = (document, document["rules"][0], finding, sample)
    assert [set(table(heading, number)) for number in range(4)] == [set(each) for each in shown]
    assert set(document["ends"]) <= words(table(heading)["ends"][1])
    assert set(sample["versions"][0]) <= words(table(heading, 3)["versions"][1])


def test_every_field_of_a_seals_file_is_told(audited: tuple[AuditReport, Seal]) -> None:
    """Red when a seal gets a field, or another name of its format, that the page does not have."""
    seal = asdict(audited[1])
    heading = "The file of a seal"
    assert set(table(heading)) == set(seal)
    assert set(table(heading, 1)) == set(seal["runs"])
    assert set(seal["heads"][0]) <= words(table(heading)["heads"][1])
    assert f"`{seal['format']}`" in table(heading)["format"][1]


def test_the_page_has_what_is_public_of_audits_and_nothing_else() -> None:
    """Red when a name is exported, or not any more, and the page does not follow."""
    page = read(PAGE)
    told = set(re.findall(r"^### (\w+)$", page[page.index("## Python API") :], re.M))
    assert told == {*audits.__all__, "open_evidence", "Evidence", "Unreadable"} - {"AuditorLost"}
    assert section("errors.md", "AuditorLost")


@pytest.mark.parametrize(("name", "function"), CALLS, ids=[name for name, _ in CALLS])
def test_the_page_shows_every_call_with_its_arguments_and_defaults(
    name: str, function: Any
) -> None:
    """Red when an argument is added, renamed, or gets another default."""
    shown = " ".join(section(PAGE, name).split("```")[1].split())
    for parameter in inspect.signature(function).parameters.values():
        if parameter.default is parameter.empty:
            assert re.search(rf"\b{parameter.name}\b[,)]", shown), parameter.name
        else:
            assert f"{parameter.name}={default_of(parameter)}" in shown


@pytest.mark.parametrize(
    "kind", [AuditReport, RuleReport, Seal, SealedLog, Head, Unreadable], ids=lambda k: k.__name__
)
def test_the_page_has_every_field_and_property_of_an_answer(kind: Any) -> None:
    """Red when an answer gets a field or a property that is not told."""
    names = kind._fields if issubclass(kind, tuple) else [field.name for field in fields(kind)]
    properties = {name for name, value in vars(kind).items() if isinstance(value, property)}
    assert {*names, *properties} <= words(section(PAGE, kind.__name__))


def test_the_page_has_every_method_of_evidence() -> None:
    """Red when evidence gets a method that is not told."""
    methods = {name for name in vars(Evidence) if not name.startswith("_")}
    assert methods <= set(re.findall(r"`(\w+)\(", section(PAGE, "Evidence")))
