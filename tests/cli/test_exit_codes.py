"""The exit codes, each by what really causes it."""

import json
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from alloc_es import (
    archive_errors,
    cli,
    errors,
    harness,
    history_errors,
    reader_errors,
    scheduler_errors,
)
from alloc_es.audit import errors as audit_errors
from alloc_es.cli import demo
from alloc_es.drill.errors import RestartFailed
from alloc_es.errors import AllocationError, AnswerLost
from alloc_es.exchange import errors as exchange_errors
from alloc_es.store.log import EventLog
from alloc_es.workflow import Workflow
from tests.cli.terminal import Terminal

# Every command but `init`, `start` and `demo`, which make a store, and `projections list`.
READING = [
    ["register", "acme", "triage", "v2"],
    ["commit", "acme", "triage", "v2=5%"],
    ["promote", "acme", "triage", "v2"],
    ["reject", "acme", "triage", "v2"],
    ["rollback", "acme", "triage"],
    ["show", "acme", "triage"],
    ["list"],
    ["history", "acme", "triage"],
    ["diff", "acme", "triage", "1", "1"],
    ["explain", "acme", "run-1"],
    ["replay", "acme", "triage", "--share", "5%"],
    ["spawn", "acme", "triage", "run-1"],
    ["peek", "acme", "triage", "run-1"],
    ["decide", "acme", "--policy", "tests.cli.policies:try_v2"],
    ["triggers"],
    ["triggers", "--consumer", "one", "--follow"],
    ["projections", "status"],
    ["projections", "run"],
    ["projections", "run", "--catch-up"],
    ["projections", "rebuild", "run_ledger"],
    ["projections", "verify", "run_ledger"],
    ["projections", "purge", "run_ledger", "acme"],
    ["projections", "remove", "run_ledger"],
]


@pytest.fixture
def terminal(sqlite_url: str) -> Terminal:
    started = Terminal(sqlite_url)
    started.ok("start", "acme", "triage", "v1")
    return started


@pytest.mark.parametrize(
    "command",
    [
        ["start", "acme", "triage", "v1"],
        ["register", "acme", "triage", "v1"],
        ["register", "acme", "triage", "v2", "--share", "100%"],
        ["commit", "acme", "triage", "v9=5%"],
        ["promote", "acme", "triage", "v9"],
        ["reject", "acme", "triage", "v9"],
        ["rollback", "acme", "triage"],
        ["rollback", "acme", "triage", "--to-generation", "99999999999999"],
        ["show", "acme", "other"],
        ["history", "acme", "other"],
        ["diff", "acme", "other", "1", "1"],
        ["diff", "acme", "triage", "1", "2"],
        ["show", "acme", "triage", "--at-generation", "2"],
        ["explain", "acme", "run-9"],
        ["replay", "acme", "other", "--share", "5%"],
        ["peek", "acme", "other", "u"],
        ["spawn", "acme", "other", "r"],
    ],
)
def test_1_is_refused_by_the_rules(terminal: Terminal, command: list[str]) -> None:
    terminal.fails(1, *command)
    assert len(terminal.json("history", "acme", "triage")["decisions"]) == 1


@pytest.mark.parametrize(
    "command",
    [
        ["no-such-command"],
        ["show", "acme"],
        ["list", "a", "b"],
        ["commit", "acme", "triage", "v2"],
        ["commit", "acme", "triage", "=5%"],
        ["commit", "acme", "triage", "v2=5"],
        ["commit", "acme", "triage", "v2=5%", "v2=6%"],
        ["register", "acme", "triage", "v2", "--share", "0.05"],
        ["register", "acme", "triage", "v2", "--share", "nan%"],
        ["register", "acme", "triage", "v2", "--max-challengers", "0"],
        ["register", "acme", "triage", " v2"],
        ["register", "acme", "triage", "cafe\u0301"],
        ["promote", "acme", "triage", "v2", "--expected-generation", "-1"],
        ["rollback", "acme", "triage", "--to-generation", "x"],
        ["peek", "acme", "triage", "u" * 201],
        ["list", "--store", "mysql://host/db"],
        ["list", "--store", "sqlite:///"],
        ["list", "--store", "postgresql://localhost/db?no_such_option=1"],
        ["demo", "--rounds", "0"],
        ["demo", "--store", "memory:"],
        ["start", "acme", "triage", "v1", "--store", "memory:"],
        ["--verbose", "list"],
    ],
)
def test_2_is_usage(terminal: Terminal, command: list[str]) -> None:
    """Red when wrong usage is told in typer's way, in several lines."""
    terminal.fails(2, *command)
    assert terminal.error(2, *command)["message"]


@pytest.mark.parametrize("nothing", [[], ["--json"], ["--store", "sqlite:///x.db"]])
def test_no_command_at_all_is_helped(terminal: Terminal, nothing: list[str]) -> None:
    done = terminal.run(*nothing)
    assert (done.returncode, done.stderr) == (2, "")
    assert done.stdout.startswith("Usage: alloc-es ")


def test_3_is_a_conflict_that_names_the_winner(terminal: Terminal) -> None:
    said = terminal.fails(3, "register", "acme", "triage", "v2", "--expected-generation", "0")
    assert "is at generation 1, not 0" in said
    assert "by operator" in said
    assert "would still be legal" in said


def test_4_is_a_store_that_can_not_be_used(terminal: Terminal, tmp_path: Path) -> None:
    """Red when a command other than `init` and `start` connects with `migrate=True`."""
    garbage = tmp_path / "garbage.db"
    garbage.write_text("this is no database")
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        dead = f"postgresql://127.0.0.1:{unused.getsockname()[1]}/none"
        assert "refused" in terminal.fails(4, "list", "--store", dead)
    file = f"sqlite:///{tmp_path}/mistyped.db"
    for command in READING:
        assert "run `alloc-es init`" in terminal.fails(4, *command, "--store", file)
    assert not (tmp_path / "mistyped.db").exists()
    assert terminal.error(4, "list", "--store", file)["type"] == "StoreNotInitialised"
    assert "not a database" in terminal.fails(4, "list", "--store", f"sqlite:///{garbage}")
    assert "no directory" in terminal.fails(4, "init", "--store", f"sqlite:///{tmp_path}/a/b.db")
    terminal.fails(4, "list", "--store", f"sqlite:///{tmp_path}")


def test_a_password_is_not_shown(terminal: Terminal) -> None:
    said = terminal.fails(4, "list", "--store", "postgresql://me:hush@127.0.0.1:1/db")
    assert "hush" not in said


def test_5_is_an_unknown_outcome_with_the_id_to_ask_again(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Red when an answer that was lost is reported as a store that is unavailable."""

    def lose(*_: object) -> int:
        raise AnswerLost("the server hung up", retryable=False)

    monkeypatch.setattr(EventLog, "append", lose)
    monkeypatch.setattr(EventLog, "record", lose)
    command = ["register", "acme", "triage", "v2", "--command-id", "c-7"]
    assert "command id c-7" in terminal.fails(5, *command)
    assert terminal.error(5, *command)["command_id"] == "c-7"
    assert "run id r-1" in terminal.fails(5, "spawn", "acme", "triage", "r-1")


def test_6_is_a_claim_of_the_demo_that_does_not_hold(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Red when a failed claim is only told."""
    monkeypatch.setattr(demo, "bucket_of", lambda *_, **__: 10_000)
    command = ["demo", "--store", terminal.store, "--rounds", "1", "--runs", "3", "--json"]
    done = terminal.run(*command)
    assert (done.returncode, done.stdout) == (6, "")
    assert json.loads(done.stderr)["error"]["type"] == "ClaimFailed"


def test_70_is_a_bug_without_a_traceback(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Red when an error that nobody thought of reaches the user as a traceback."""

    def fail(_: object) -> None:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(Workflow, "newest", fail)
    said = terminal.fails(70, "show", "acme", "triage")
    assert said.startswith("alloc-es: unexpected ZeroDivisionError: a bug; ")
    assert terminal.error(70, "show", "acme", "triage")["type"] == "ZeroDivisionError"
    shown = terminal.run("show", "acme", "triage", ALLOC_ES_DEBUG="1").stderr
    assert "Traceback" in shown


def test_a_process_ends_with_the_same_codes(terminal: Terminal) -> None:
    """Red when `main` swallows a code, or lets a traceback through."""
    codes = {
        0: ["show", "acme", "triage"],
        1: ["promote", "acme", "triage", "v9"],
        2: ["promote", "acme", "triage", ""],
        3: ["promote", "acme", "triage", "v9", "--expected-generation", "7"],
        4: ["list", "--store", "sqlite:////no/such/directory/alloc.db"],
    }
    for code, command in codes.items():
        done = terminal.process(*command)
        assert (done.returncode, "Traceback" in done.stderr) == (code, False)
        assert done.stderr.count("\n") == (0 if code == 0 else 1)


def test_every_name_with_an_exit_code_is_that_of_an_error() -> None:
    """Red when a class is renamed and its exit code is not."""
    known, new = {AllocationError}, [AllocationError]
    while new:
        new = [each for kind in new for each in kind.__subclasses__() if each not in known]
        known.update(new)
    assert set(cli.EXIT_CODES) <= {kind.__name__ for kind in known}
    assert cli.exit_code(harness.ParticipantEnded.__new__(harness.ParticipantEnded)) == 4
    assert cli.exit_code(harness.CannotKill.__new__(harness.CannotKill)) == 1
    assert cli.exit_code(RestartFailed("restart", "no")) == 4


def test_a_command_imports_no_other_ones() -> None:
    """Red when every command takes the time that it takes to import all of them."""
    script = "import sys; from alloc_es.cli import run; run(sys.argv[1:]); print(*sys.modules)"
    command = [sys.executable, "-c", script, "show", "acme", "triage", "--store", "memory:"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    modules = set(done.stdout.split())
    assert "alloc_es.cli.reading" in modules
    others = {"cli.demo", "cli.passing", "audit", "drill", "exchange", "harness"}
    assert {f"alloc_es.{each}" for each in others} & modules == set()


def test_every_error_has_an_exit_code() -> None:
    """Red when a class of errors is left out of the table."""
    modules = (
        *(archive_errors, audit_errors, errors, exchange_errors),
        *(history_errors, reader_errors, scheduler_errors),
    )
    kinds = [
        kind
        for module in modules
        for kind in vars(module).values()
        if isinstance(kind, type)
        and issubclass(kind, AllocationError)
        and kind not in (AllocationError, scheduler_errors.PassStopped)
    ]
    assert len(kinds) > 20
    for kind in kinds:
        assert cli.exit_code(kind.__new__(kind)) in range(1, 7)
