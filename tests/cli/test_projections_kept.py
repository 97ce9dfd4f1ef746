"""`alloc-es projections`: what needs somebody, what is left out, and what is taken away."""

import json
import re

import pytest

import alloc_es
from alloc_es.errors import InvalidSetting
from alloc_es.projection import installed
from tests.cli.readside import brittle, install, runs
from tests.cli.terminal import Terminal
from tests.cli.test_streams import ESCAPES, on_a_terminal


def break_package(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a package installed whose entry point can't be loaded."""
    error = InvalidSetting("projection acme", "acme:MINE can't be loaded: ImportError: no acme")
    for module in ("app", "cli.projecting"):
        monkeypatch.setattr(
            f"alloc_es.{module}.installed", lambda: (installed()[0], {"acme": error})
        )


def test_a_broken_package_is_told_beside_the_others(
    sqlite: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Red when it hides the other read models, or passes for well."""
    break_package(monkeypatch)
    told = sqlite.run("projections", "status")
    assert (told.returncode, told.stderr) == (6, "")
    assert re.search(r"^acme +broken ", told.stdout, re.M)
    assert "no acme; mend its package, or uninstall it\n" in told.stdout
    caught = sqlite.run("projections", "run", "--catch-up")
    assert caught.returncode == 2
    assert "ImportError: no acme" in caught.stderr
    assert "run_ledger is live" in caught.stdout
    listed = sqlite.run("projections", "list", "--json")
    assert (listed.returncode, len(json.loads(listed.stdout))) == (2, 4)
    assert json.loads(listed.stderr)["error"]["type"] == "InvalidSetting"
    assert sqlite.ok("projections", "verify", "run_ledger")


def test_what_is_not_installed_is_not_to_be_mended(
    sqlite: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Red when somebody is told to mend code that is not there, or that it is a failure."""
    sqlite.ok("start", "acme", "bad", "v1")
    with monkeypatch.context() as patch:
        install(patch, brittle())
        sqlite.run("projections", "run", "--catch-up", "brittle")
    said = sqlite.ok("projections", "status")
    assert "brittle is not installed, and stopped in front of position 5 of the " in said
    assert "or remove it: alloc-es projections remove brittle\n" in said
    assert "mend" not in said
    assert sqlite.ok("projections", "remove", "brittle") == (
        "brittle was removed: its views and its tables; the logs stay\n"
    )
    assert "brittle" not in sqlite.ok("projections", "status")
    assert "'brittle'" in sqlite.fails(2, "projections", "remove", "brittle")


def test_a_read_model_that_was_removed_is_built_again_with_all_tenants(terminal: Terminal) -> None:
    """Red when something of it stays, or nobody is told that tenants come back."""
    runs(terminal.store, 3)
    terminal.ok("projections", "run", "--catch-up")
    assert terminal.json("projections", "purge", "run_ledger", "acme")["rows"] > 0
    document = terminal.json("projections", "verify", "run_ledger")
    assert (document["rows"], document["left_out"]) == (0, ["acme"])
    assert terminal.ok("projections", "remove", "run_ledger") == (
        "run_ledger was removed: its views and its tables, and that it leaves out acme; the logs "
        "stay; alloc-es projections run builds it again\n"
    )
    status = terminal.json("projections", "status")[-1]
    assert (status["name"], status["standing"], status["left_out"]) == (
        "run_ledger",
        "not built",
        [],
    )
    terminal.ok("projections", "run", "--catch-up", "run_ledger")
    assert terminal.json("projections", "verify", "run_ledger")["rows"] > 0
    document = terminal.json("projections", "remove", "run_ledger")
    assert document == {"name": "run_ledger", "is_installed": True, "left_out": []}


def test_a_first_build_is_told_as_far_as_it_is(sqlite: Terminal) -> None:
    """Red when the position of a first build and what it is behind do not fit together."""
    runs(sqlite.store, 1_500)
    with alloc_es.connect(sqlite.store) as allocations:
        projections = allocations.projections()
        rebuilding = projections._rebuilding(projections.known["run_ledger"])
        build = rebuilding.applier.step(rebuilding.begin())
    assert build is not None
    document = sqlite.json("projections", "status")[-1]
    assert (document["standing"], document["positions"]) == ("building", {"runs": 1_000})
    assert document["behind"] == {"runs": 500}
    (line,) = re.findall("^run_ledger  .*$", sqlite.ok("projections", "status"), re.M)
    assert re.search(r" runs 1,000 of 1,500 +500 ", line)


def test_what_moves_is_readable_on_a_narrow_terminal(sqlite: Terminal) -> None:
    """Red when a position is cut where the terminal has 40 columns."""
    seen = ESCAPES.sub("", on_a_terminal(sqlite, "projections", "run", "--catch-up", columns=40))
    assert "…" not in seen
    assert re.search(r"^\W*\s*decisions - of 4, runs - of 0", seen, re.M)
