"""What reaches the streams: on a terminal, in a pipe, in a closed one, in other encodings."""

import errno
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from rich.cells import cell_len

import alloc_es
from tests.cli.terminal import Terminal, until_closed
from tests.support import warm

LONG = "prompt-2026-11-with-shorter-instructions-v2"
ESCAPES = re.compile(r"\x1b\[[0-9;]*m")
OF_COLOURS = {"NO_COLOR", "FORCE_COLOR", "COLORTERM", "TTY_COMPATIBLE", "TTY_INTERACTIVE"}


@pytest.fixture
def terminal(sqlite_url: str) -> Terminal:
    started = Terminal(sqlite_url)
    started.ok("start", "acme", "triage", "v1", "--reason", "the first of all " * 20)
    started.ok("register", "acme", "triage", LONG, "--share", "20%", "--reason", "try it")
    return started


def on_a_terminal(terminal: Terminal, *arguments: str, columns: int, **environment: str) -> str:
    """What a command writes to a terminal of a width."""
    ours, theirs = os.openpty()
    with os.fdopen(ours, "rb", buffering=0) as screen:
        process = subprocess.Popen(
            [*warm.command(), *arguments],
            env={
                **{name: text for name, text in os.environ.items() if name not in OF_COLOURS},
                "ALLOC_ES_STORE": terminal.store,
                "COLUMNS": str(columns),
                "TERM": "xterm-256color",
                **environment,
            },
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
        )
        os.close(theirs)
        seen = until_closed(screen)
        assert process.wait() == 0
    return seen.decode().replace("\r\n", "\n")


@pytest.mark.parametrize("columns", [30, 50, 80, 200])
@pytest.mark.parametrize("command", ["show acme triage", "history acme triage", "list"])
def test_nothing_is_wider_than_the_terminal_and_nothing_is_cut(
    terminal: Terminal, command: str, columns: int
) -> None:
    """Red when a table is cropped, or drawn for another width."""
    seen = ESCAPES.sub("", on_a_terminal(terminal, *command.split(), columns=columns))
    assert max(cell_len(line) for line in seen.splitlines()) <= columns
    assert "…" not in seen
    whole = re.sub(r"\s", "", seen)
    assert "80%" in whole
    assert "20%" in whole
    if columns >= 80 or command != "show acme triage":
        assert LONG in whole


def test_colours_are_for_terminals_that_want_them(terminal: Terminal) -> None:
    """Red when a pipe or `NO_COLOR` gets colours."""
    command = ("show", "acme", "triage")
    coloured = on_a_terminal(terminal, *command, columns=120)
    assert "\x1b[36m█" in coloured
    plain = on_a_terminal(terminal, *command, columns=120, NO_COLOR="1")
    assert not re.search(r"\x1b\[[0-9;]*3[0-7]m", plain)
    assert terminal.process(*command, FORCE_COLOR="").stdout == ESCAPES.sub("", coloured)


def test_in_a_pipe_an_entry_is_a_line_however_long(terminal: Terminal) -> None:
    """Red when a table is folded in a pipe, or padded with blanks to a width."""
    terminal.ok("commit", "acme", "triage", f"{LONG}=1%")
    lines = terminal.ok("history", "acme", "triage").splitlines()
    assert len(lines) == 3 + 1 + 1 + 4
    assert [line for line in lines if line != line.rstrip()] == []
    assert terminal.run("history", "acme", "triage", COLUMNS="20").stdout.splitlines() == lines


def test_what_is_printed_can_not_move_the_cursor_or_turn_the_text(terminal: Terminal) -> None:
    """Red when a reason is printed as it is, as text or as JSON."""
    reason = "line\nbreak \u202e turned"
    terminal.ok("commit", "acme", "triage", f"{LONG}=1%", "--reason", reason)
    for command in (("history", "acme", "triage"), ("show", "acme", "triage")):
        assert "line\\nbreak \\u202e turned" in terminal.ok(*command)
    printed = terminal.ok("history", "acme", "triage", "--json")
    assert all(character.isprintable() or character == "\n" for character in printed)
    assert json.loads(printed)["decisions"][-1]["reason"] == reason


def test_an_error_can_not_move_the_cursor_either(terminal: Terminal) -> None:
    """Red when an error repeats its argument as it is, as text or as JSON."""
    for command in (
        ("\x1b[31m\u202e",),
        ("show", "acme", "triage", "--store", "sqlite:////no/\x1b[31m\u202e/alloc.db"),
        ("promote", "acme", "triage", "v\x7f"),
        ("list", "--\x1b[31m"),
    ):
        for done in (terminal.run(*command), terminal.run(*command, "--json")):
            assert done.stderr[:-1].isprintable(), done.stderr
            assert done.returncode in (2, 4)
    assert terminal.error(2, "promote", "acme", "triage", "v\x7f")["value"] == "v\x7f"


def test_names_are_shown_as_they_are(sqlite_url: str) -> None:
    """Red when a name is read as rich's markup or as an emoji's code."""
    terminal = Terminal(sqlite_url)
    family = "👨\u200d👩\u200d👧"
    terminal.ok("start", "[bold]acme[/bold]", ":smile:", family)
    for command in (("list",), ("show", "[bold]acme[/bold]", ":smile:")):
        said = terminal.ok(*command)
        assert all(name in said for name in ("[bold]acme[/bold]", ":smile:", family))


def test_an_output_that_knows_only_ascii_gets_ascii(sqlite_url: str) -> None:
    """Red when a bar, a name or JSON can't be encoded, or is not JSON any more."""
    terminal = Terminal(sqlite_url)
    terminal.ok("start", "acme", "триаж", "é")
    only_ascii = {"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    shown = terminal.process("show", "acme", "триаж", **only_ascii)
    assert (shown.returncode, shown.stderr) == (0, "")
    assert "#" * 50 in shown.stdout
    listed = terminal.process("list", "--json", **only_ascii)
    assert json.loads(listed.stdout) == terminal.json("list")
    refused = terminal.process("promote", "acme", "триаж", "ö", "--json", **only_ascii)
    assert json.loads(refused.stderr)["error"]["version"] == "ö"


def test_a_closed_pipe_ends_the_command_in_silence(sqlite_url: str) -> None:
    """Red when a reader that leaves is a traceback, or exit code 1: refused by the rules."""
    with alloc_es.connect(sqlite_url) as allocations:
        workflow = allocations.workflow("acme", "triage")
        workflow.start("v1")
        workflow.register_challenger("v2", 0)
        for share in range(1, 200):
            workflow.commit_allocation({"v2": share})
    history = f"{sys.executable} -m alloc_es.cli history acme triage --json"
    done = subprocess.run(
        ["bash", "-c", f"{history} | head -n 1; echo ${{PIPESTATUS[0]}}"],
        # Without a buffer Python does not notice that the rest of a write was not taken.
        env={**os.environ, "ALLOC_ES_STORE": sqlite_url, "PYTHONUNBUFFERED": ""},
        capture_output=True,
        text=True,
        check=True,
    )
    assert (done.stdout, done.stderr) == ("{\n141\n", "")


def test_a_pipe_that_was_never_read_ends_it_as_silently(terminal: Terminal) -> None:
    """Red when Python, at its end, tries again to write what nobody reads."""
    ours, theirs = os.pipe()
    os.close(ours)
    with os.fdopen(theirs, "wb") as closed:
        done = subprocess.run(
            [sys.executable, "-m", "alloc_es.cli", "list"],
            env={**os.environ, "ALLOC_ES_STORE": terminal.store, "PYTHONUNBUFFERED": ""},
            stdout=closed,
            stderr=subprocess.PIPE,
            check=False,
        )
    assert (done.returncode, done.stderr) == (141, b"")


def test_an_output_that_can_not_be_written_is_said(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Red when a full disk behind stdout is a traceback."""

    def full(_: object, text: str) -> int:
        if text:
            raise OSError(errno.ENOSPC, "No space left on device")
        return 0

    monkeypatch.setattr("tests.cli.terminal.Output.write", full)
    assert terminal.fails(74, "list") == (
        "alloc-es: the output could not be written: No space left on device\n"
    )


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device here is always full")
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_full_disk_is_said_by_tables_and_drawings(terminal: Terminal, unbuffered: str) -> None:
    """Red when a full disk, which may refuse even to be written nothing, is a bug of ours."""
    for command in ("list", "show acme triage"):
        with Path("/dev/full").open("w") as full:
            done = subprocess.run(
                [sys.executable, "-m", "alloc_es.cli", *command.split()],
                env={
                    **os.environ,
                    "ALLOC_ES_STORE": terminal.store,
                    "PYTHONUNBUFFERED": unbuffered,
                },
                stdout=full,
                stderr=subprocess.PIPE,
                text=True,
                check=False,
            )
        assert (done.returncode, done.stderr) == (
            74,
            "alloc-es: the output could not be written: No space left on device\n",
        )


def test_streams_that_are_closed_swallow(terminal: Terminal) -> None:
    """Red when a service that runs without stdout or stderr gets a traceback for a code."""
    for code, command, closed in ((0, "list", ">&-"), (2, "no-such-command", "2>&-")):
        done = subprocess.run(
            ["bash", "-c", f"{sys.executable} -m alloc_es.cli {command} {closed}"],
            env={**os.environ, "ALLOC_ES_STORE": terminal.store},
            capture_output=True,
            check=False,
        )
        assert (done.returncode, done.stdout, done.stderr) == (code, b"", b"")


def test_ctrl_c_ends_a_race_with_its_processes_and_its_store(tmp_path: Path) -> None:
    """Red when it is told as a traceback, a scheduler lives on, or a directory stays behind."""
    process = subprocess.Popen(
        [sys.executable, "-m", "alloc_es.cli", "demo", "--rounds", "100000"],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    while _generation(tmp_path) < 10:
        assert process.poll() is None
    os.killpg(process.pid, signal.SIGINT)
    # Ends when every process that writes there, the schedulers among them, has ended.
    _, said = process.communicate()
    assert (process.returncode, said) == (130, "alloc-es: interrupted\n")
    assert list(tmp_path.iterdir()) == []


def _generation(directory: Path) -> int:
    """How far the demo is whose store lies somewhere in a directory; 0 before it has one."""
    for path in directory.glob("*/alloc.db"):
        try:
            with alloc_es.connect(f"sqlite:///{path}", migrate=False) as allocations:
                return max((found.generation for found in allocations.list()), default=0)
        except alloc_es.StoreUnavailable:
            return 0
    return 0
