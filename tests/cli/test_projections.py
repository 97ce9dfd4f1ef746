"""`alloc-es projections`: what it prints, and how it ends."""

import json
import re
from importlib.metadata import version
from typing import Any

import pytest
from rich.cells import cell_len

import alloc_es
from alloc_es.rebuilding import Rebuilding
from tests.cli.readside import brittle, install, runs
from tests.cli.terminal import Terminal
from tests.cli.test_streams import ESCAPES, on_a_terminal

INSTALLED = ["current_split", "decision_history", "generate_triggers", "run_ledger"]


@pytest.fixture
def built(terminal: Terminal) -> Terminal:
    """A store with two workflows whose read models have caught up."""
    terminal.ok("projections", "run", "--catch-up")
    return terminal


def rows(terminal: Terminal, name: str = "run_ledger") -> int:
    return int(terminal.json("projections", "verify", name)["rows"])


def test_what_is_installed_is_listed_without_a_store() -> None:
    """Red when a store is opened for it, or the distribution is not said."""
    nowhere = Terminal("sqlite:////no/such/directory/alloc.db")
    listed = nowhere.json("projections", "list")
    assert [each["name"] for each in listed] == INSTALLED
    assert {each["from"] for each in listed} == {f"alloc-es {version('alloc-es')}"}
    history = listed[1]
    assert history["logs"] == ["decisions", "runs"]
    assert {"decisions", "tenures_open"} < set(history["tables"])
    assert history["views"] == ["decision_history", "tenures"]
    printed = nowhere.ok("projections", "list", "--store", "sqlite:///unused.db")
    assert re.search(r"^run_ledger +1 +runs +run_ledger, run_counts +alloc-es ", printed, re.M)


def test_status_says_what_the_python_api_says(terminal: Terminal) -> None:
    """Red when the position of a log, the end of it or the writer is mixed up."""
    new = terminal.json("projections", "status")
    assert [(each["name"], each["standing"]) for each in new] == [
        (name, "not built") for name in INSTALLED
    ]
    terminal.ok("projections", "run", "--catch-up")
    runs(terminal.store, 3)
    with alloc_es.connect(terminal.store) as allocations:
        expected = allocations.projections().status()
    for shown, known in zip(terminal.json("projections", "status"), expected, strict=True):
        assert shown == {
            **{name: getattr(known, name) for name in known.__dataclass_fields__},
            "behind": known.behind,
            "left_out": list(known.left_out),
            "updated_at": known.updated_at.isoformat() if known.updated_at else None,
        }
    (line,) = re.findall("^run_ledger .*$", terminal.ok("projections", "status"), re.M)
    assert re.search(r"live +1 +runs 0 of 3 +3 +\S+:\d+:\w+ +2\d{3}-", line)


def test_a_projection_that_stopped_is_told_with_its_event_and_is_6(
    built: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Red when the others do not go on, or a stopped one passes for well."""
    install(monkeypatch, brittle())
    built.ok("start", "acme", "bad", "v1")
    built.ok("start", "acme", "good", "v1")
    caught = built.run("projections", "run", "--catch-up")
    assert caught.returncode == 6
    assert caught.stderr.startswith("alloc-es: projection brittle stopped in front of position 5 ")
    assert caught.stderr.count("\n") == 1
    assert "brittle is stopped: decisions 4 of 6\n" in caught.stdout
    assert "current_split is live: decisions 6 of 6\n" in caught.stdout
    told = built.run("projections", "status")
    assert (told.returncode, told.stderr) == (6, "")
    assert "position 5 of the decisions: event 1 of allocation/acme/bad" in told.stdout
    assert "ZeroDivisionError: nothing is divided by it" in told.stdout
    found = json.loads(built.run("projections", "status", "--json").stdout)
    failure = found[0]["failure"]
    assert (failure["log"], failure["position"]) == ("decisions", 5)
    only = built.run("projections", "run", "brittle", "--catch-up", "--json")
    assert (only.returncode, len(json.loads(only.stdout))) == (6, 1)
    assert json.loads(only.stderr)["error"]["position"] == 5


def test_a_projection_that_is_newer_than_its_rows_is_1(
    sqlite: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Red when rows of two versions are mixed, or the others are left where they are."""
    with monkeypatch.context() as patch:
        install(patch, brittle())
        sqlite.ok("projections", "run", "--catch-up", "brittle")
    install(monkeypatch, brittle(version=2))
    caught = sqlite.run("projections", "run", "--catch-up")
    assert caught.returncode == 1
    assert "rebuild it: alloc-es projections rebuild brittle" in caught.stderr
    assert "run_ledger is live" in caught.stdout
    told = sqlite.run("projections", "status")
    assert (told.returncode, told.stderr) == (6, "")
    assert "1, installed 2" in told.stdout
    assert "rebuild it: alloc-es projections rebuild brittle\n" in told.stdout
    assert sqlite.error(1, "projections", "verify", "brittle")["type"] == "ProjectionOutdated"
    sqlite.ok("projections", "rebuild", "brittle")
    assert sqlite.json("projections", "status")[0]["built"] == 2


def test_a_rebuild_is_summed_up(built: Terminal) -> None:
    """Red when nothing is rebuilt, or a whole one is taken for a tenant's."""
    runs(built.store, 2)
    said = built.ok("projections", "rebuild", "run_ledger")
    assert re.fullmatch(r"run_ledger was rebuilt: 2 positions in \d+\.\d s, [\d,]+/s\n", said)
    document = built.json("projections", "rebuild", "run_ledger")
    assert (document["name"], document["tenant_id"], document["positions"]) == (
        "run_ledger",
        None,
        2,
    )
    assert rows(built) == 3


def test_a_purged_tenant_stays_out_until_it_is_rebuilt(built: Terminal) -> None:
    """Red when a purge is lost, or `--tenant` rebuilds all and leaves the tenant out."""
    runs(built.store, 2)
    built.ok("projections", "run", "--catch-up")
    assert rows(built) == 3
    said = built.ok("projections", "purge", "run_ledger", "acme")
    command = "projections rebuild run_ledger --tenant acme"
    back = f"; to bring it back: alloc-es {command}\n"
    assert said == f"acme was removed from run_ledger: 3 rows{back}"
    assert built.ok("projections", "purge", "run_ledger", "nosuch") == (
        f"nosuch had no rows in run_ledger and will be left out{back.replace('acme', 'nosuch')}"
    )
    assert "run_ledger leaves out: acme, nosuch\n" in built.ok("projections", "status")
    verified = built.ok("projections", "verify", "run_ledger")
    assert verified.endswith(" 2 of the runs; leaves out: acme, nosuch\n")
    assert rows(built) == 0
    built.ok("projections", "rebuild", "run_ledger")
    assert rows(built) == 0
    assert built.ok(*command.split()).startswith("run_ledger was rebuilt for acme: 2 positions")
    assert rows(built) == 3
    assert built.json("projections", "purge", "run_ledger", "acme") == {
        "name": "run_ledger",
        "tenant_id": "acme",
        "rows": 3,
    }


def test_a_rebuild_that_stops_leaves_the_model_and_is_6(
    sqlite: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Red when it is told as done."""
    install(monkeypatch, brittle())
    sqlite.ok("projections", "run", "--catch-up", "brittle")
    sqlite.ok("start", "acme", "bad", "v1")
    assert sqlite.error(6, "projections", "rebuild", "brittle")["position"] == 5
    assert rows(sqlite, "brittle") == 2


def test_what_differs_from_the_logs_is_shown_and_is_6(
    built: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Red when a difference is only told, or found and expected are mixed up."""
    runs(built.store, 2)
    with monkeypatch.context() as patch:
        patch.setattr("alloc_projections.run_ledger._row", of_nobody)
        built.ok("projections", "run", "--catch-up", "run_ledger")
    said = built.fails(6, "projections", "verify", "run_ledger")
    assert said.startswith("alloc-es: run_ledger is not as the logs say, up to position 2 of the ")
    assert "actor is nobody, not application" in said
    assert "rebuild it: alloc-es projections rebuild run_ledger\n" in said
    error = built.error(6, "projections", "verify", "run_ledger")
    assert (error["table"], error["rows"]) == ("run_ledger", 0)
    assert error["key"] == {"tenant_id": "acme", "run_id": "run-0"}
    assert error["found"] == {**error["expected"], "actor": "nobody"}
    built.ok("projections", "rebuild", "run_ledger")
    assert built.ok("projections", "verify", "run_ledger") == (
        "run_ledger: 3 rows are as the logs say, up to position 2 of the runs\n"
    )


def of_nobody(position: int, run: Any) -> tuple[object, ...]:
    """The row of a run that claims that nobody spawned it."""
    return (
        *(run.tenant_id, run.workflow_id, run.run_id, run.version, run.arm, run.generation),
        *(run.episode, run.unit, run.bucket, "nobody", run.recorded_at, position),
        run.decision_position,
    )


def test_a_model_that_was_never_built_has_nothing_to_verify(sqlite: Terminal) -> None:
    """Red when a missing model is told as one without rows."""
    assert "was never built here" in sqlite.fails(1, "projections", "verify", "run_ledger")
    rebuilt = ("projections", "rebuild", "run_ledger", "--tenant", "acme")
    assert sqlite.error(1, *rebuilt)["type"] == "ProjectionNotBuilt"


@pytest.mark.parametrize(
    "command",
    [
        ["run", "nope"],
        ["run", "--catch-up", "run_ledger", "nope"],
        ["rebuild", "nope"],
        ["verify", "nope"],
        ["purge", "nope", "acme"],
    ],
)
def test_a_name_of_no_projection_is_told_with_those_there_are(
    sqlite: Terminal, command: list[str]
) -> None:
    said = sqlite.fails(2, "projections", *command)
    assert f"'nope' is not installed; there is {', '.join(INSTALLED)}" in said


def test_options_may_stand_before_a_group_and_inside_of_it(sqlite: Terminal) -> None:
    """Red when `--store` in front is given to the group, which has none."""
    elsewhere = Terminal("sqlite:////no/such/directory/alloc.db")
    status = ["projections", "status"]
    store = ["--store", sqlite.store]
    expected = sqlite.json(*status)
    for given in (
        [*store, "--json", *status],
        [*store, "projections", "--json", "status"],
        ["--json", *status, f"--store={sqlite.store}"],
    ):
        assert json.loads(elsewhere.ok(*given)) == expected


@pytest.mark.parametrize("given", ["projections", "--json projections", "projections --json"])
def test_a_group_alone_is_helped(sqlite: Terminal, given: str) -> None:
    done = sqlite.run(*given.split())
    assert (done.returncode, done.stderr) == (2, "")
    assert done.stdout.startswith("Usage: alloc-es projections ")
    assert "verify" in done.stdout


@pytest.mark.parametrize("command", ["status", "list"])
def test_what_does_not_fit_a_terminal_is_folded(sqlite: Terminal, command: str) -> None:
    """Red when a table is cropped, or drawn for another width."""
    seen = ESCAPES.sub("", on_a_terminal(sqlite, "projections", command, columns=30))
    assert max(cell_len(line) for line in seen.splitlines()) <= 30
    assert "…" not in seen
    assert set(INSTALLED) <= set(re.findall(r"\w+", seen))


def test_an_unfinished_rebuild_is_shown_with_how_far_it_is(
    built: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Red when nobody can see that there is one."""
    runs(built.store, 1_500)
    built.ok("projections", "run", "--catch-up")
    original, steps = Rebuilding.step, 0

    def step(self: Rebuilding, build: Any) -> Any:
        nonlocal steps
        steps += 1
        if steps == 2:
            raise ZeroDivisionError("the machine was switched off")
        return original(self, build)

    with monkeypatch.context() as patch:
        patch.setattr(Rebuilding, "step", step)
        built.fails(70, "projections", "rebuild", "run_ledger")
    said = built.ok("projections", "status").splitlines()[-1]
    assert said == "run_ledger: its rebuild is at 1,000 of 1,500 positions, 67%"
    assert built.json("projections", "status")[-1]["rebuilding"] == {"runs": 1_000}
    assert built.json("projections", "rebuild", "run_ledger")["positions"] == 500
