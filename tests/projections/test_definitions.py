"""What can't be a column, a table or a projection is refused before it comes near a store."""

from collections.abc import Callable
from dataclasses import replace
from importlib.metadata import EntryPoint, entry_points
from typing import Any

import pytest

from alloc_es import Allocations, Column, InvalidSetting, Projection, connect
from alloc_es import projection as projection_module
from alloc_es.projection import GROUP, by_name, installed
from tests.projections.models import SEEN, note, seen

NAMES = ("", "A", "1a", "a-b", "a b", "a__b", '"a"', "a;b", "a.b", "é", "a" * 49, 7, None)

COLUMN = Column("note", "text", "A note.")
OPTIONAL = Column("note", "text", "A note.", optional=True)

REFUSED: dict[str, tuple[Callable[[], object], str]] = {
    "an unknown kind": (lambda: Column("n", "float", ""), "note no kind"),  # type: ignore[arg-type]
    "no tenant": (lambda: replace(SEEN, columns=SEEN.columns[1:]), "it needs the columns"),
    "no workflow": (
        lambda: replace(SEEN, columns=(SEEN.columns[0], SEEN.columns[2]), key=("tenant_id",)),
        "it needs the columns",
    ),
    "a key that is no column": (
        lambda: replace(SEEN, key=("tenant_id", "run_id")),
        "it needs the columns",
    ),
    "an optional key": (
        lambda: replace(SEEN, columns=(*SEEN.columns, OPTIONAL), key=("tenant_id", "note")),
        "it needs the columns",
    ),
    "a tenant that is a number": (
        lambda: replace(SEEN, columns=(Column("tenant_id", "integer", ""), *SEEN.columns[1:])),
        "must be text",
    ),
    "a key without the tenant first": (
        lambda: replace(SEEN, key=("workflow_id", "tenant_id")),
        "must begin with tenant_id",
    ),
    "no key": (lambda: replace(SEEN, key=()), "must begin with tenant_id"),
    "two columns of a name": (
        lambda: replace(SEEN, columns=(*SEEN.columns, COLUMN, COLUMN)),
        "two of its columns",
    ),
    "an index on nothing": (lambda: replace(SEEN, indexes=(("note",),)), "no column note"),
    "version 0": (lambda: seen(version=0), "is not from 1 up"),
    "a version in words": (lambda: seen(version="1"), "is not from 1 up"),
    "a version that is true": (lambda: seen(version=True), "is not from 1 up"),
    "no logs": (lambda: seen(logs=()), "its logs are"),
    "an unknown log": (lambda: seen(logs=("decisions", "costs")), "its logs are"),
    "a log twice": (lambda: seen(logs=("runs", "runs")), "its logs are"),
    "no tables": (lambda: seen(tables=()), "it needs tables"),
    "a table twice": (lambda: seen(tables=(SEEN, SEEN)), "it needs tables"),
    "a view by a table's name": (
        lambda: seen(views={"seen": "SELECT 1"}),
        "each with its own name",
    ),
    "a view with a blank": (lambda: seen(views={"a b": "SELECT 1"}), "can't be one"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_can_be_no_projection_is_refused(what: str) -> None:
    """Red when a check of `Column`, `Table` or `Projection` is left out."""
    make, problem = REFUSED[what]
    with pytest.raises(InvalidSetting) as raised:
        make()
    assert problem.removeprefix("note ") in str(raised.value)


@pytest.mark.parametrize("name", NAMES)
def test_a_name_that_sql_or_a_build_would_misread_is_refused(name: Any) -> None:
    """Red when a name goes into SQL that is more than one word, or is cut off there."""
    for make in (
        lambda: seen(name=name),
        lambda: replace(SEEN, name=name),
        lambda: Column(name, "text", ""),
        lambda: seen(views={name: "SELECT 1"}),
    ):
        with pytest.raises(InvalidSetting, match="can't be one"):
            make()


def test_two_projections_of_one_name_or_with_one_table_are_refused() -> None:
    """Red when the second of them takes the place, or the table, of the first."""
    other = replace(SEEN, name="others")
    with pytest.raises(InvalidSetting, match=r"projection seen: there are two of that name"):
        by_name([seen(), seen(tables=(other,))])
    with pytest.raises(InvalidSetting, match=r"projection too: seen has a table or view seen too"):
        by_name([seen(), seen(name="too")])
    with pytest.raises(InvalidSetting, match=r"seen has a table or view seen too"):
        by_name([seen(), seen(name="too", tables=(other,), views={"seen": "SELECT 1"})])
    for name in ("run_events", "projection_builds", "trigger_deliveries"):
        with pytest.raises(InvalidSetting, match="the store has a table"):
            by_name([seen(tables=(replace(SEEN, name=name),))])
    assert by_name([seen(), seen(name="too", tables=(other,))]).keys() == {"seen", "too"}


def test_a_users_projection_may_not_have_an_installed_ones_table() -> None:
    """Red when `Allocations.projections` looks at those it is given alone."""
    with connect("memory:") as allocations:
        with pytest.raises(InvalidSetting, match="run_ledger has a table"):
            allocations.projections(seen(tables=(replace(SEEN, name="run_ledger"),)))
        assert "seen" in allocations.projections(seen()).known


def test_each_installed_projection_is_found_by_its_name() -> None:
    """Red when an entry point is left out, misspelt or leads elsewhere."""
    names = [point.name for point in entry_points(group=GROUP)]
    assert {"current_split", "decision_history", "generate_triggers", "run_ledger"} <= {*names}
    found, broken = installed()
    assert not broken
    assert [projection.name for projection in found] == sorted(names)
    assert by_name(found).keys() == {*names}
    assert all(isinstance(projection, Projection) for projection in found)
    for projection in found:
        assert projection.meaning.endswith(".")
        for table in projection.tables:
            assert all(column.meaning.endswith(".") for column in table.columns)


MINE = seen()
NO_PROJECTION = note

BROKEN = {
    "tests.projections.no_such_module:MINE": "can't be loaded: ModuleNotFoundError",
    "tests.projections.test_definitions:THEIRS": "can't be loaded: AttributeError",
    "tests.projections.test_definitions:NO_PROJECTION": "not a Projection of that name",
    "tests.projections.test_definitions:MINE": "not a Projection of that name",
}


@pytest.mark.parametrize("value", BROKEN)
def test_a_broken_entry_point_is_refused_by_its_name(
    monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    """Red when what can't be loaded is passed over: its read model would stand still unseen."""
    point = EntryPoint(name="mine", value=value, group=GROUP)
    monkeypatch.setattr(projection_module, "entry_points", lambda **_: [point])
    found, broken = installed()
    assert (found, [*broken]) == ([], ["mine"])
    assert str(broken["mine"]).startswith(f"projection mine: {value} ")
    assert BROKEN[value] in str(broken["mine"])


def test_a_broken_package_stops_its_own_projection_only(
    allocations: Allocations, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Red when nothing of the read side can be had for one entry point, or nobody is told."""
    point = EntryPoint(name="mine", value="tests.projections.nowhere:MINE", group=GROUP)
    monkeypatch.setattr(projection_module, "entry_points", lambda **_: [point])
    allocations.workflow("acme", "triage").start("v1")
    projections = allocations.projections(seen())
    with pytest.raises(InvalidSetting, match="can't be loaded"):
        projections.catch_up()
    with pytest.raises(InvalidSetting, match="can't be loaded"):
        projections.rebuild("mine")
    said: list[str] = []
    projections.follow(tell=said.append).close()
    assert [sentence for sentence in said if "can't be loaded" in sentence]
    broken, sound = projections.status()
    assert (broken.name, broken.standing) == ("mine", "broken")
    assert "can't be loaded" in broken.problem
    assert (sound.name, sound.standing, sound.problem) == ("seen", "live", "")


def test_a_sound_entry_point_of_another_package_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Red when only the projections that come with alloc-es are loaded."""
    value = "tests.projections.test_definitions:MINE"
    point = EntryPoint(name="seen", value=value, group=GROUP)
    monkeypatch.setattr(projection_module, "entry_points", lambda **_: [point])
    assert installed() == ([MINE], {})


def test_a_table_that_it_does_not_have_is_refused_by_name() -> None:
    """Red when a misspelt table goes into SQL."""
    with pytest.raises(InvalidSetting, match="seen has no table 'sen'; it has seen"):
        seen().table("sen")
