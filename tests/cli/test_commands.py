"""Each command, as a process: what it prints, what it leaves in the store."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import alloc_es
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
    history = terminal.json("history", "acme", "triage")
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


def test_what_is_printed_can_not_move_the_cursor(sqlite: Terminal) -> None:
    """Red when a reason is printed as it is."""
    sqlite.ok("start", "acme", "triage", "v1", "--reason", "line\nbreak \u202e turned")
    for command in (("history", "acme", "triage"), ("show", "acme", "triage")):
        assert "\u202e" not in sqlite.ok(*command)
        assert "line\\nbreak \\u202e turned" in sqlite.ok(*command)


def test_output_survives_a_terminal_that_knows_only_ascii(sqlite: Terminal) -> None:
    sqlite.ok("start", "acme", "триаж", "v1")
    done = sqlite.process("show", "acme", "триаж", PYTHONIOENCODING="ascii", PYTHONUTF8="0")
    assert done.returncode == 0
    assert "Traceback" not in done.stderr


def test_a_closed_pipe_is_no_error_to_read_about(sqlite: Terminal) -> None:
    sqlite.ok("start", "acme", "triage", "v1")
    for share in range(1, 40):
        with alloc_es.connect(sqlite.store) as allocations:
            workflow = allocations.workflow("acme", "triage")
            if share == 1:
                workflow.register_challenger("v2", 0)
            workflow.commit_allocation({"v2": share})
    command = f"{sys.executable} -m alloc_es.cli history acme triage --json | head -n 1"
    done = subprocess.run(
        ["bash", "-c", command],
        env={"ALLOC_ES_STORE": sqlite.store, "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert (done.stdout, done.stderr) == ("[\n", "")


def test_init_is_idempotent_and_reading_never_creates(terminal: Terminal) -> None:
    """Red when a command that reads connects with migrate=True."""
    for command in (
        ["list"],
        ["show", "a", "b"],
        ["spawn", "a", "b", "r"],
        ["promote", "a", "b", "c"],
    ):
        assert "run `alloc-es init`" in terminal.fails(4, *command)
    assert "ready" in terminal.ok("init")
    assert terminal.json("init")["ready"] is True
    assert terminal.ok("list") == "no workflow was started yet\n"


def test_a_refused_start_makes_no_file(tmp_path: Path) -> None:
    path = tmp_path / "alloc.db"
    Terminal(f"sqlite:///{path}").fails(2, "start", "", "triage", "v1")
    assert not path.exists()


def test_the_error_of_a_json_command_is_json(sqlite: Terminal) -> None:
    sqlite.ok("start", "acme", "triage", "v1")
    sqlite.ok("register", "acme", "triage", "v2")
    done = sqlite.run("register", "acme", "triage", "v3", "--json")
    error = json.loads(done.stderr)["error"]
    assert (done.returncode, error["exit_code"]) == (1, 1)
    assert (error["type"], error["incumbent"]) == ("ChallengerAlreadyLive", "v2")
    done = sqlite.run("commit", "acme", "triage", "v2=9%", "--expected-generation", "1", "--json")
    error = json.loads(done.stderr)["error"]
    assert (error["type"], error["expected"], error["actual"]) == ("GenerationConflict", 1, 2)
    assert error["winner"]["type"] == "ChallengerRegistered"
