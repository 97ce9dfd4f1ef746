"""`alloc-es decide`: a pass from the command line."""

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from alloc_es.errors import AnswerLost, StoreUnavailable
from alloc_es.store.log import EventLog
from tests.cli import policies
from tests.cli.terminal import Terminal

POLICIES = "tests.cli.policies"
TRY_V2 = f"{POLICIES}:try_v2"
CAREFUL = f"{POLICIES}:methods.careful"
POLICY_LINES = Path(policies.__file__).read_text().splitlines()


@pytest.fixture
def sqlite(sqlite_url: str) -> Terminal:
    return started(sqlite_url, "a", "b", "c")


def started(url: str, *names: str) -> Terminal:
    terminal = Terminal(url)
    for name in names:
        terminal.ok("start", "acme", name, "v1")
    return terminal


def generations(terminal: Terminal) -> list[int]:
    return [allocation["generation"] for allocation in terminal.json("list")]


def documents(text: str) -> list[Any]:
    return [json.loads(line) for line in text.splitlines()]


def test_a_line_for_each_workflow_in_order_and_a_summary(durable_url: str) -> None:
    """Red when a line is printed as its policy answers."""
    terminal = started(durable_url, "a", "b", "c")
    terminal.ok("register", "acme", "b", "v9", "--share", "1%")
    done = terminal.run("decide", "acme", "c", "b", "a", "--policy", TRY_V2, "--concurrency", "3")
    assert done.returncode == 0
    assert done.stdout.splitlines() == [
        "acme/c is at generation 2 (registered v2): v1 95%, v2 5%",
        "acme/b stays at generation 2: held, v2 is being tried",
        "acme/a is at generation 2 (registered v2): v1 95%, v2 5%",
    ]
    assert done.stderr == "alloc-es: 3 workflows: 2 decided, 1 held\n"
    (entry,) = terminal.json("history", "acme", "a")["decisions"][1:]
    assert (entry["actor"], entry["reason"]) == ("operator", "why not")


def test_a_tenants_workflows_and_all_there_are(sqlite: Terminal) -> None:
    """Red when a tenant's pass takes other tenants' workflows, or --all only some."""
    sqlite.ok("start", "other", "a", "v1")
    assert sqlite.run("decide", "acme", "--policy", TRY_V2, "--actor", "me").returncode == 0
    assert generations(sqlite) == [2, 2, 2, 1]
    assert sqlite.json("history", "acme", "a")["decisions"][1]["actor"] == "me"
    assert sqlite.run("decide", "--all", "--policy", TRY_V2).returncode == 0
    assert generations(sqlite) == [2, 2, 2, 2]


def test_a_dry_run_says_what_would_be_and_appends_nothing(sqlite: Terminal) -> None:
    """Red when --dry-run is not handed on."""
    done = sqlite.run("decide", "acme", "--policy", TRY_V2, "--dry-run")
    assert done.stdout.count("would be at generation 2 (registered v2): v1 95%, v2 5%\n") == 3
    assert done.stderr == "alloc-es: 3 workflows: 3 decided; nothing was recorded\n"
    assert generations(sqlite) == [1, 1, 1]


def test_a_failure_is_a_line_of_its_own_and_6_at_the_end(sqlite: Terminal) -> None:
    """Red when one failure ends the command or is told without its place, or it ends with 0."""
    sqlite.ok("start", "acme", "bad", "v1")
    done = sqlite.run("decide", "acme", "--policy", CAREFUL, "--concurrency", "2")
    assert done.returncode == 6
    line = next(n for n, text in enumerate(POLICY_LINES, 1) if "raise LookupError" in text)
    assert done.stdout.splitlines()[2] == (
        f"acme/bad failed: LookupError: no\\nevidence (policies.py, line {line})"
    )
    assert done.stderr == "alloc-es: 4 workflows: 3 decided, 1 failed\n"
    shown = sqlite.run("decide", "acme", "bad", "--policy", CAREFUL, ALLOC_ES_DEBUG="1").stderr
    assert "Traceback" in shown


def test_json_is_a_document_a_line_and_the_summary_one_more(sqlite: Terminal) -> None:
    """Red when a fact of a result is not told."""
    sqlite.ok("start", "acme", "bad", "v1")
    done = sqlite.run("decide", "acme", "--policy", CAREFUL, "--json")
    by_name = {each["workflow_id"]: each for each in documents(done.stdout)}
    decided, failed = by_name["a"], by_name["bad"]
    assert list(by_name) == ["a", "b", "bad", "c"]
    assert (decided["outcome"], decided["seen"], decided["generation"]) == ("decided", 1, 2)
    assert decided["proposal"] == {
        "type": "Register",
        "version": "v2",
        "share_bps": 500,
        "reason": "why not",
    }
    assert (decided["event"]["type"], decided["allocation"]["current"]) == (
        "ChallengerRegistered",
        "v1",
    )
    assert failed["failure"] == {"error_type": "LookupError", "message": "no\nevidence"}
    assert (failed["proposal"], failed["event"], failed["lost_to"]) == (None, None, [])
    assert json.loads(done.stderr)["summary"] == {
        "decided": 3,
        "unchanged": 0,
        "held": 0,
        "failed": 1,
        "skipped": 0,
        "not_run": 0,
        "waves": 4,
        "dry_run": False,
    }


def test_what_holds_already_is_nothing_to_do(sqlite: Terminal) -> None:
    sqlite.ok("register", "acme", "a", "v2")
    done = sqlite.run("decide", "acme", "a", "--policy", f"{POLICIES}:same_shares")
    assert done.stdout == "acme/a stays at generation 2: nothing to do\n"


def test_who_was_faster_is_told(sqlite: Terminal) -> None:
    """Red when a conflict is not told where the workflow was decided all the same."""
    done = sqlite.run("decide", "acme", "a", "--policy", f"{POLICIES}:beaten")
    assert done.stdout == (
        "acme/a stays at generation 2: held, v2 is being tried; "
        "asked 2 times, because of decisions by rival\n"
    )


@pytest.mark.parametrize("size", ["1", "2", "3"])
def test_at_most_so_many_are_decided(sqlite: Terminal, size: str) -> None:
    """Red when --at-most is a soft goal."""
    sqlite.ok("register", "acme", "a", "v9")
    command = ["decide", "acme", "--policy", TRY_V2, "--at-most", "1", "--concurrency", size]
    done = sqlite.run(*command)
    assert generations(sqlite) == [2, 2, 1]
    assert done.stdout.count("\n") == 2
    assert done.stderr == "alloc-es: 3 workflows: 1 decided, 1 held, 1 not run\n"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["acme", "--policy", "no_such_module:f"], "No module named 'no_such_module'"),
        (["acme", "--policy", f"{POLICIES}:nothing"], "has no attribute 'nothing'"),
        (["acme", "--policy", f"{POLICIES}:NUMBER"], "is int and can't be called"),
        (["acme", "--policy", "policies"], "'policies' is not MODULE:FUNCTION"),
        (["acme", "--policy", ":f"], "':f' is not MODULE:FUNCTION"),
        (["acme", "--policy", "./mine/pol.py:f"], "names a file, and MODULE is what is imported; "),
        (["acme", "--policy", "./mine/pol.py:f"], "write mine.pol:f; see `alloc-es decide --help`"),
        (["acme"], "--policy"),
        (["--policy", TRY_V2], "give either TENANT or --all"),
        (["acme", "--all", "--policy", TRY_V2], "give either TENANT or --all"),
        (["nobody", "--policy", TRY_V2], "nobody has no workflows in SQLite database"),
        (["acme", "a", "a", "--policy", TRY_V2], "acme/a is given twice"),
        (["acme", "--policy", TRY_V2, "--concurrency", "0"], "concurrency: 0 is not within"),
        (["acme", "--policy", TRY_V2, "--at-most", "0"], "count: 0 is not within"),
    ],
    ids=lambda given: " ".join(given) if isinstance(given, list) else "",
)
def test_wrong_usage_is_2_and_one_clear_line(
    sqlite: Terminal, arguments: list[str], words: str
) -> None:
    """Red when what is wrong with a policy is a bug of ours."""
    assert words in sqlite.fails(2, "decide", *arguments)
    assert generations(sqlite) == [1, 1, 1]


def test_unknown_workflows_are_refused_by_the_rules(sqlite: Terminal) -> None:
    said = sqlite.fails(1, "decide", "acme", "a", "x", "y", "--policy", TRY_V2)
    assert "acme/x and acme/y were never started" in said


def test_a_policy_in_the_current_directory_is_found_whatever_it_raises(
    sqlite: Terminal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Red when only what is installed can be imported, or an import ends the command."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [each for each in sys.path if each not in ("", os.getcwd())])
    (tmp_path / "mine_at_hand.py").write_text("from tests.cli.policies import try_v2\n")
    (tmp_path / "mine_broken.py").write_text("\n1 / 0\n")
    (tmp_path / "mine_ending.py").write_text("raise SystemExit(0)\n")
    assert sqlite.run("decide", "acme", "--policy", "mine_at_hand:try_v2").returncode == 0
    broken = sqlite.fails(2, "decide", "acme", "--policy", "mine_broken:f")
    assert broken == (
        "alloc-es: --policy: mine_broken:f can't be loaded: ZeroDivisionError: division by zero "
        "(mine_broken.py, line 2)\n"
    )
    assert "SystemExit: 0" in sqlite.fails(2, "decide", "acme", "--policy", "mine_ending:f")


@pytest.mark.parametrize(("policy", "code"), [("interrupted", 130), ("terminated", 143)])
def test_a_signal_ends_it_at_once_with_an_account(sqlite: Terminal, policy: str, code: int) -> None:
    """Red when a judge is waited for, or what was decided is not told."""
    handlers = [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)]
    done = sqlite.run("decide", "acme", "--policy", f"{POLICIES}:{policy}")
    assert done.returncode == code
    assert done.stdout == "acme/a is at generation 2 (registered v2): v1 95%, v2 5%\n"
    assert done.stderr == (
        "alloc-es: interrupted: 1 of 3 workflows were decided, and 2 were not run; "
        "run it again for the rest\n"
    )
    assert generations(sqlite) == [2, 1, 1]
    assert [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)] == handlers


@pytest.mark.parametrize("name", ["leaving", "leaving_soon"])
def test_a_policy_that_ends_the_interpreter_is_an_account_and_70(
    sqlite: Terminal, name: str
) -> None:
    """Red when sys.exit in a policy ends the command in silence, with a code of the policy's."""
    line = next(n for n, text in enumerate(POLICY_LINES, 1) if "sys.exit(0)" in text)
    done = sqlite.run("decide", "acme", "--policy", f"{POLICIES}:{name}")
    assert done.returncode == 70
    assert done.stdout == "acme/a is at generation 2 (registered v2): v1 95%, v2 5%\n"
    assert done.stderr == (
        f"alloc-es: the policy ended the pass by SystemExit: 0 (policies.py, line {line}), as the "
        "policy was asked for acme/b: 1 of 3 workflows were decided, and 2 were not run; "
        "what is to fail one workflow only must be an Exception\n"
    )
    assert generations(sqlite) == [2, 1, 1]


@pytest.mark.parametrize(("policy", "code"), [("stubborn", 130), ("blocking", 143)])
def test_a_second_signal_waits_for_nothing(sqlite: Terminal, policy: str, code: int) -> None:
    """Red when a task that will not end keeps the command, or signals are heard in the loop."""
    done = sqlite.process("decide", "acme", "--policy", f"{POLICIES}:{policy}", "--json")
    assert (done.returncode, done.stdout) == (code, "")
    assert "0 of 3 workflows" in json.loads(done.stderr)["error"]["message"]


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (StoreUnavailable("it is away", retryable=False), 4),
        (AnswerLost("it hung up", retryable=False), 5),
    ],
)
def test_a_store_that_is_lost_ends_it_with_the_code_of_that(
    sqlite: Terminal, monkeypatch: pytest.MonkeyPatch, error: Exception, code: int
) -> None:
    """Red when a pass that stopped has a code of its own, or tells its whole report again."""
    genuine = EventLog.append

    def append(self: Any, event: Any) -> Any:
        if event.key.workflow_id == "b":
            raise error
        return genuine(self, event)

    monkeypatch.setattr(EventLog, "append", append)
    done = sqlite.run("decide", "acme", "--policy", TRY_V2, "--json")
    assert done.returncode == code
    assert [each["outcome"] for each in documents(done.stdout)] == ["decided", "failed"][: code - 3]
    summary, stopped = documents(done.stderr)
    assert summary["summary"]["decided"] == 1
    assert (stopped["error"]["type"], stopped["error"]["exit_code"]) == ("PassStopped", code)
    assert stopped["error"]["report"]["decided"] == 1


def test_progress_is_shown_on_a_terminal_and_the_lines_stand_whole_above_it(
    sqlite: Terminal, tmp_path: Path
) -> None:
    """Red when the display is drawn into the lines, or into a pipe."""
    path = tmp_path / "out"
    leisurely = ("decide", "acme", "--policy", f"{POLICIES}:leisurely")
    seen = sqlite.screen(*leisurely, out=path)
    assert "3/3" in seen
    assert "\x1b[2K" in seen
    assert path.read_text().count("is at generation 2") == 3
    assert "\x1b" not in path.read_text()
    both = sqlite.screen(*leisurely)
    for name in "abc":
        assert f"acme/{name} stays at generation 2: held, v2 is being tried" in both
