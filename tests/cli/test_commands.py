"""Each command: what it prints, what it leaves in the store."""

import getpass
import json
from pathlib import Path

import pytest

import alloc_es
from alloc_es.cli import deciding
from tests.cli.terminal import Terminal


@pytest.fixture
def terminal(durable_url: str) -> Terminal:
    return Terminal(durable_url)


@pytest.fixture
def sqlite(sqlite_url: str) -> Terminal:
    return Terminal(sqlite_url)


def test_every_command_does_what_the_python_api_does(terminal: Terminal) -> None:
    """Red when a command calls another method, or drops an argument on its way."""
    assert terminal.ok("start", "acme", "triage", "v1").startswith("acme/triage is at generation 1")
    terminal.ok("register", "acme", "triage", "v2", "--share", "2.5%", "--reason", "a try")
    terminal.ok("commit", "acme", "triage", "v2=1000bp", "--expected-generation", "2")
    terminal.ok("reject", "acme", "triage", "v2", "--replacement", "v3")
    terminal.ok("promote", "acme", "triage", "v3", "--actor", "night-shift")
    terminal.ok("register", "acme", "triage", "v4")
    terminal.ok("rollback", "acme", "triage", "--to-generation", "1", "--drop", "v4")
    terminal.ok("register", "acme", "triage", "v5", "--command-id", "once")
    terminal.ok("reject", "acme", "triage", "v5", "--reason", "worse")
    with alloc_es.connect(terminal.store) as allocations:
        entries = allocations.workflow("acme", "triage").history()
    events = [entry.event for entry in entries]
    assert [type(event).__name__ for event in events] == [
        "AllocationCommitted",
        "ChallengerRegistered",
        "AllocationCommitted",
        "AllocationCommitted",
        "AllocationCommitted",
        "ChallengerRegistered",
        "AllocationCommitted",
        "ChallengerRegistered",
        "ChallengerRejectedWithoutReplacement",
    ]
    assert events[1].allocation.split == {"v1": 9750, "v2": 250}
    assert events[2].allocation.split == {"v1": 9000, "v2": 1000}
    assert events[3].allocation.split == {"v1": 9000, "v3": 1000}
    assert events[6].allocation.split == {"v1": 10000}
    assert events[7].command_id == "once"
    assert [entry.reason for entry in entries if entry.reason] == ["a try", "worse"]
    assert {entry.actor for entry in entries} == {"operator", "night-shift"}


def test_json_has_the_names_of_the_python_api(terminal: Terminal) -> None:
    terminal.ok("start", "acme", "triage", "v1")
    committed = terminal.json("register", "acme", "triage", "v2", "--command-id", "c1")
    assert set(committed) == {"generation", "allocation", "event", "attempts", "replayed"}
    assert committed["event"]["type"] == "ChallengerRegistered"
    again = terminal.json("register", "acme", "triage", "v2", "--command-id", "c1")
    assert (again["replayed"], again["generation"]) == (True, 2)
    shown = terminal.json("show", "acme", "triage")
    assert shown == committed["allocation"]
    assert shown["split"] == {"v1": 9500, "v2": 500}
    assert (shown["challenger"], shown["challengers"]) == ("v2", ["v2"])
    assert terminal.json("list") == [shown]
    assert terminal.json("list", "nobody") == []
    history = terminal.json("history", "acme", "triage")["decisions"]
    assert [(e["generation"], e["actor"]) for e in history] == [(1, "operator"), (2, "operator")]
    assert history[1]["allocation"] == shown
    run = terminal.json("spawn", "acme", "triage", "run-1", "--unit", "customer-17")
    routing = terminal.json("peek", "acme", "triage", "customer-17")
    assert {name: run[name] for name in routing} == routing
    assert terminal.json("spawn", "acme", "triage", "run-1")["replayed"] is True


def test_nothing_to_do_is_said_and_appends_nothing(sqlite: Terminal) -> None:
    sqlite.ok("start", "acme", "triage", "v1")
    sqlite.ok("register", "acme", "triage", "v2")
    assert "generation 2 (nothing to do)" in sqlite.ok("commit", "acme", "triage", "v2=5%")
    assert sqlite.json("commit", "acme", "triage", "v2=5%")["event"] is None


def test_show_draws_the_split(sqlite: Terminal) -> None:
    """Red when the bar ignores the shares, or drops an arm with a small share."""
    sqlite.ok("start", "acme", "triage", "v1")
    sqlite.ok("register", "acme", "triage", "v2", "--share", "20%", "--reason", "try it")
    title, bar, control, challenger, last = sqlite.ok("show", "acme", "triage").splitlines()
    assert title.split() == ["acme/triage", "generation", "2"]
    assert bar.strip() == "█" * 40 + "▓" * 10
    assert control.split()[:4] == ["█", "v1", "control", "80%"]
    assert challenger.split()[:4] == ["▓", "v2", "challenger", "20%"]
    assert "registered v2, by operator" in last
    assert last.rstrip().endswith("try it")
    sqlite.ok("commit", "acme", "triage", "v2=1bp")
    assert "▓" in sqlite.ok("show", "acme", "triage").splitlines()[1]


def test_a_tournament_is_a_setting(sqlite: Terminal) -> None:
    sqlite.ok("start", "acme", "triage", "v1")
    sqlite.ok("register", "acme", "triage", "v2")
    sqlite.fails(1, "register", "acme", "triage", "v3")
    sqlite.ok("register", "acme", "triage", "v3", "--max-challengers", "2")
    done = sqlite.run("register", "acme", "triage", "v4", ALLOC_ES_MAX_CHALLENGERS="3")
    assert done.returncode == 0
    assert sqlite.json("show", "acme", "triage")["challengers"] == ["v2", "v3", "v4"]


def test_init_is_idempotent_and_reading_never_creates(terminal: Terminal) -> None:
    """Red when a command that reads connects with migrate=True."""
    assert "run `alloc-es init`" in terminal.fails(4, "list")
    assert terminal.ok("init").endswith("is ready: its tables were made\n")
    assert terminal.ok("init").endswith("is ready: nothing to do\n")
    assert terminal.json("init")["done"] == "unchanged"
    assert terminal.ok("list") == "no workflow was started yet\n"


def test_a_refused_start_makes_no_file(tmp_path: Path) -> None:
    path = tmp_path / "alloc.db"
    Terminal(f"sqlite:///{path}").fails(2, "start", "", "triage", "v1")
    assert not path.exists()


def test_the_error_of_a_json_command_is_json(sqlite: Terminal) -> None:
    sqlite.ok("start", "acme", "triage", "v1")
    sqlite.ok("register", "acme", "triage", "v2")
    error = sqlite.error(1, "register", "acme", "triage", "v3")
    assert (error["type"], error["incumbent"]) == ("ChallengerAlreadyLive", "v2")
    assert error["key"] == {"tenant_id": "acme", "workflow_id": "triage"}
    assert [arm["share_bps"] for arm in error["incumbents"]] == [500]
    error = sqlite.error(3, "register", "acme", "triage", "v3", "--expected-generation", "1")
    assert (error["type"], error["expected"], error["actual"]) == ("GenerationConflict", 1, 2)
    assert error["winner"]["type"] == "ChallengerRegistered"
    assert error["refusal"]["type"] == "ChallengerAlreadyLive"


def test_store_and_json_are_taken_before_the_command_too(sqlite: Terminal) -> None:
    """Red when the options are not moved behind the command, or win over those there."""
    sqlite.ok("start", "acme", "triage", "v1")
    elsewhere = Terminal("sqlite:////no/such/directory/alloc.db")
    done = elsewhere.run("--json", "--store", sqlite.store, "list")
    assert json.loads(done.stdout)[0]["current"] == "v1"
    done = elsewhere.run(
        f"--store={elsewhere.store}", "show", "acme", "triage", "--store", sqlite.store
    )
    assert done.returncode == 0


def test_a_replay_does_not_say_that_it_is_the_newest(sqlite: Terminal) -> None:
    """Red when the sentence of a replay claims that the workflow is at its generation."""
    command = ["start", "acme", "triage", "v1", "--command-id", "c1"]
    sqlite.ok(*command)
    sqlite.ok("register", "acme", "triage", "v2")
    assert sqlite.ok(*command) == (
        "acme/triage was brought to generation 1 by an earlier call (started with v1): v1 100%\n"
    )


def test_the_limit_that_held_is_recorded_with_every_decision(sqlite: Terminal) -> None:
    """Red when a command that decides takes no `--max-challengers`."""
    many = {"ALLOC_ES_MAX_CHALLENGERS": "3"}
    for command in (
        ["start", "acme", "triage", "v1"],
        ["register", "acme", "triage", "v2"],
        ["register", "acme", "triage", "v3"],
        ["commit", "acme", "triage", "v2=1%"],
        ["reject", "acme", "triage", "v3", "--replacement", "v4"],
        ["promote", "acme", "triage", "v4"],
        ["rollback", "acme", "triage", "--drop", "v2"],
    ):
        assert sqlite.run(*command, **many).returncode == 0
    entries = sqlite.json("history", "acme", "triage")["decisions"]
    assert [entry["max_challengers"] for entry in entries] == [3] * 7


def test_init_says_that_it_has_upgraded(sqlite: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    sqlite.ok("init")
    monkeypatch.setattr(deciding, "_schema_version", lambda _: 0.5)
    assert "is ready: it was upgraded from schema version 0.5" in sqlite.ok("init")


def test_the_actor_is_the_user_and_reading_needs_none(
    sqlite: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Red when a command that only reads fails at a user name that can't be an actor."""
    monkeypatch.setattr(getpass, "getuser", lambda: "ada")
    assert sqlite.run("start", "acme", "triage", "v1", ALLOC_ES_ACTOR="").returncode == 0
    assert sqlite.json("history", "acme", "triage")["decisions"][0]["actor"] == "ada"
    monkeypatch.setattr(getpass, "getuser", lambda: " ")
    assert sqlite.run("show", "acme", "triage", ALLOC_ES_ACTOR="").returncode == 0
    done = sqlite.run("promote", "acme", "triage", "v1", ALLOC_ES_ACTOR="")
    assert (done.returncode, "actor" in done.stderr) == (2, True)


def _no_user() -> str:
    raise KeyError("getpwuid(): uid not found: 4711")


def test_a_container_without_a_user_has_an_actor(
    sqlite: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(getpass, "getuser", _no_user)
    assert sqlite.run("start", "acme", "triage", "v1", ALLOC_ES_ACTOR="").returncode == 0
    assert sqlite.json("history", "acme", "triage")["decisions"][0]["actor"] == "operator"
