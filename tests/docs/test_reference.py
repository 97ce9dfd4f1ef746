"""The reference names everything that there is, as it is."""

import ast
import inspect
import re
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest

import alloc_es
from alloc_es import (
    archive_errors,
    cli,
    errors,
    history_errors,
    reader_errors,
    scheduler_errors,
    scheduling,
)
from alloc_es.audit import errors as audit_errors
from alloc_es.codec import EVENT_TYPES, SCHEMA_VERSIONS
from alloc_es.exchange import errors as exchange_errors
from tests.docs.documents import ROOT
from tests.docs.test_blocks import schema_of, server_of

REFERENCE = ROOT / "docs" / "reference"
INTERNAL_ERRORS = {"AllocationError", "AnswerLost", "Refusal"}
FIELDS_OF_A_PYDANTIC_MODEL_ONLY = {"replayed"}
WITH_METHODS = (
    alloc_es.Allocations,
    alloc_es.Workflow,
    alloc_es.Projections,
    alloc_es.Follower,
    alloc_es.Triggers,
    alloc_es.Rows,
)


def read(name: str) -> str:
    return (REFERENCE / name).read_text()


def section(document: str, heading: str) -> str:
    """What stands under a heading of the second or third level, up to the next one."""
    found = re.search(
        rf"^##+ {re.escape(heading)}\n(?P<text>.*?)(?=^(?:##|###) |\Z)",
        read(document),
        re.M | re.S,
    )
    assert found, f"{document} has no heading {heading!r}"
    return found["text"]


def words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text))


def callables() -> list[tuple[str, Any]]:
    methods = [
        (f"{kind.__name__}.{name}", member)
        for kind in WITH_METHODS
        for name, member in vars(kind).items()
        if not name.startswith("_") and inspect.isfunction(member)
    ]
    passes = [(name, getattr(scheduling, name)) for name in ("decide_pass", "adecide_pass")]
    return [("connect", alloc_es.connect), ("bucket_of", alloc_es.bucket_of), *passes, *methods]


def default_of(parameter: inspect.Parameter) -> str:
    """A default as a reader can write it; `…` for a function that has no public name."""
    default = parameter.default
    if not callable(default):
        return repr(default).replace("'", '"')
    named = inspect.isfunction(default) and not default.__name__.startswith(("_", "<"))
    return default.__name__ if named else "…"


def error_classes() -> list[type[alloc_es.AllocationError]]:
    modules = (
        *(archive_errors, audit_errors, errors, history_errors),
        *(exchange_errors, reader_errors, scheduler_errors),
    )
    return [
        kind
        for name, kind in {n: k for module in modules for n, k in vars(module).items()}.items()
        if isinstance(kind, type)
        and issubclass(kind, alloc_es.AllocationError)
        and name not in INTERNAL_ERRORS
    ]


def facts(kind: type) -> set[str]:
    """The fields that an error's class gives its instances, and its properties."""
    tree = ast.parse(inspect.getsource(kind))
    targets = [
        node.targets[0] if isinstance(node, ast.Assign) else node.target
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign | ast.AnnAssign)
    ]
    fields = {t.attr for t in targets if isinstance(t, ast.Attribute)}
    return fields | {name for name, value in vars(kind).items() if isinstance(value, property)}


@pytest.mark.parametrize("name", [*alloc_es.__all__, *scheduling.__all__])
def test_the_api_names_every_public_name(name: str) -> None:
    """Red when a name is exported and `python-api.md` does not mention it."""
    assert f"`{name}`" in read("python-api.md") or section("python-api.md", name)


@pytest.mark.parametrize(("name", "function"), callables(), ids=[c[0] for c in callables()])
def test_the_api_shows_every_call_with_its_arguments_and_defaults(
    name: str, function: object
) -> None:
    """Red when an argument is added, renamed, or gets another default."""
    assert callable(function)
    shown = " ".join(section("python-api.md", name).split("```")[1].split())
    for parameter in inspect.signature(function).parameters.values():
        if parameter.name == "self":
            continue
        if parameter.default is parameter.empty:
            assert re.search(rf"\b{parameter.name}\b[,)]", shown), parameter.name
        else:
            assert f"{parameter.name}={default_of(parameter)}" in shown


@pytest.mark.parametrize(
    "kind",
    [kind for kind in WITH_METHODS if kind is not alloc_es.Workflow],
    ids=lambda k: k.__name__,
)
def test_the_api_describes_every_member(kind: type) -> None:
    """Red when `Allocations`, or one of the read side, gets a property that has no heading."""
    for name in vars(kind):
        if not name.startswith("_"):
            assert section("python-api.md", f"{kind.__name__}.{name}")


@pytest.mark.parametrize(
    "answer",
    [
        alloc_es.Column,
        alloc_es.Committed,
        alloc_es.Difference,
        alloc_es.Explanation,
        alloc_es.Incarnation,
        alloc_es.Projection,
        alloc_es.ProjectionStatus,
        alloc_es.Recorded,
        alloc_es.Routing,
        alloc_es.SpawnCounts,
        alloc_es.SpawnRequest,
        alloc_es.Table,
        alloc_es.Trigger,
        alloc_es.Verified,
        scheduling.Failure,
        scheduling.Goal,
        scheduling.PassReport,
        scheduling.PassResult,
    ],
    ids=lambda answer: answer.__name__,
)
def test_the_api_describes_every_field_of_an_answer(answer: Any) -> None:
    """Red when an answer gets a field that its table does not have."""
    properties = {name for name, value in vars(answer).items() if isinstance(value, property)}
    fields = answer._fields if issubclass(answer, tuple) else answer.__dataclass_fields__
    assert {*fields, *properties} <= words(section("python-api.md", answer.__name__))


@pytest.mark.parametrize("model", [alloc_es.Allocation, alloc_es.Arm], ids=lambda m: m.__name__)
def test_the_api_describes_every_field_of_an_allocation(model: Any) -> None:
    """Red when the allocation or an arm gets a field that its table does not have."""
    properties = {name for name, value in vars(model).items() if isinstance(value, property)}
    assert {*model.model_fields, *properties} <= words(section("python-api.md", model.__name__))


@pytest.mark.parametrize("kind", error_classes(), ids=lambda kind: kind.__name__)
def test_every_error_is_described_with_its_facts(kind: type[alloc_es.AllocationError]) -> None:
    """Red when an error is added, or gets a fact that `errors.md` does not name."""
    text = section("errors.md", kind.__name__)
    assert {fact for fact in facts(kind) if f"`{fact}`" not in text} == set()


def test_the_exit_codes_are_those_of_the_command_line() -> None:
    """Red when an error gets another exit code than the table in `errors.md` says."""
    rows = re.findall(r"^\| (\d) \|[^|]+\|([^|]*)\|$", read("errors.md"), re.M)
    documented = {name: int(code) for code, kinds in rows for name in re.findall(r"`(\w+)`", kinds)}
    assert documented == cli.EXIT_CODES
    assert [code for code, _ in rows] == ["0", "1", "2", "3", "4", "5", "6"]


@pytest.mark.parametrize("name", EVENT_TYPES)
def test_every_event_is_described_with_its_fields(name: str) -> None:
    """Red when an event gets a field, or a schema version, that `events.md` does not tell."""
    text = section("events.md", name)
    if name != "RunSpawned":
        text += section("events.md", "What every decision holds")
    fields = set(EVENT_TYPES[name].model_fields) - FIELDS_OF_A_PYDANTIC_MODEL_ONLY
    assert {field for field in fields if f"`{field}`" not in text} == set()
    assert f"| `schema_version` | integer | {SCHEMA_VERSIONS[name]}. |" in text or (
        f"| `schema_version` | {SCHEMA_VERSIONS[name]}. |" in text
    )


def test_every_argument_of_connect_is_described_with_its_default() -> None:
    """Red when `connect` gets an argument or a default that `configuration.md` does not tell."""
    text = section("configuration.md", "Arguments of connect")
    for parameter in inspect.signature(alloc_es.connect).parameters.values():
        default = getattr(parameter.default, "__name__", repr(parameter.default))
        assert f"| `{parameter.name}` | `{default}` |".replace("'", '"') in text


def test_every_part_of_the_sqlite_schema_is_described(tmp_path: Path) -> None:
    """Red when a table, column, index or trigger is made that `stores.md` does not name."""
    path = tmp_path / "alloc.db"
    alloc_es.connect(f"sqlite:///{path}").close()
    with closing(sqlite3.connect(path)) as connection:
        made = "SELECT name FROM sqlite_master WHERE name NOT LIKE 'sqlite_%'"
        names = {name for (name,) in connection.execute(made)}
        for table in ("decision_events", "run_events", "alloc_es_schema"):
            names |= {row[1] for row in connection.execute(f"PRAGMA table_info({table})")}
    assert names <= words(read("stores.md"))


def test_every_part_of_the_postgresql_schema_is_described(postgres_url: str) -> None:
    """Red when a table, column, index, trigger or function is made that `stores.md` lacks."""
    alloc_es.connect(postgres_url).close()
    parts = """
        SELECT relname FROM pg_class
        WHERE relnamespace = %(schema)s::regnamespace AND relkind IN ('r', 'i')
        UNION SELECT proname FROM pg_proc WHERE pronamespace = %(schema)s::regnamespace
        UNION SELECT tgname FROM pg_trigger JOIN pg_class ON pg_class.oid = tgrelid
        WHERE relnamespace = %(schema)s::regnamespace AND NOT tgisinternal
        UNION SELECT attname FROM pg_attribute JOIN pg_class ON pg_class.oid = attrelid
        WHERE relnamespace = %(schema)s::regnamespace AND relkind = 'r' AND attnum > 0
    """
    with psycopg.connect(server_of(postgres_url)) as connection:
        rows = connection.execute(parts, {"schema": schema_of(postgres_url)}).fetchall()
    names = {name for (name,) in rows if not name.endswith("_pkey")}
    assert names <= words(read("stores.md")) | words(read("read-models.md"))
