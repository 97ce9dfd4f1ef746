"""How `spawn --from` ends early: without its store, its input or its reader."""

import json
import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from alloc_es import StoreUnavailable
from alloc_es.errors import AnswerLost
from alloc_es.store.log import EventLog
from tests.cli.terminal import Terminal
from tests.cli.test_spawn_from import (
    csv_of,
    goes_on,
    spawned,
    stored,
    told,
    written,
)

UP_TO_1000 = "the rows up to line 1001 are settled"


def failing(monkeypatch: pytest.MonkeyPatch, error: Exception, *, after: int) -> None:
    """Have the store record some groups and then no more."""
    groups = 0
    original = EventLog.record

    def record(self: Any, *arguments: Any) -> Any:
        nonlocal groups
        groups += 1
        if groups > after:
            raise error
        return original(self, *arguments)

    monkeypatch.setattr(EventLog, "record", record)


def test_a_store_that_is_lost_ends_the_command_and_says_from_where_on(
    terminal: Terminal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Red when the rest is tried row by row, or it is not said what is known."""
    path = csv_of(tmp_path / "runs.csv", 3_500)
    with monkeypatch.context() as patch:
        failing(patch, StoreUnavailable("the disk is gone", retryable=False), after=1)
        done = terminal.run("spawn", "acme", "triage", "--from", path)
    assert (done.returncode, len(told(done))) == (4, 1_000)
    summary, said = done.stderr.splitlines()
    assert summary.startswith("alloc-es: 1,000 recorded, 0 known before, 0 failed")
    assert said == (
        "alloc-es: the disk is gone; from line 1002 on nothing is known, "
        "run the command again to settle it"
    )
    goes_on(terminal, path, done, 3_500)


def test_a_run_that_can_not_be_read_fails_its_own_row(sqlite: Terminal, tmp_path: Path) -> None:
    """Red when one unreadable event is taken for a store that is lost."""
    with closing(sqlite3.connect(sqlite.store.removeprefix("sqlite:///"))) as connection:
        connection.execute(
            "INSERT INTO run_events (originator_id, originator_version, topic, state) "
            "VALUES ('run/acme/run-2', 1, 'RunSpawned', CAST('{}' AS BLOB))"
        )
        connection.commit()
    done = spawned(sqlite, csv_of(tmp_path / "runs.csv", 3), "--json", code=4)
    assert [run["run_id"] for run in told(done)] == ["run-1", "run-3"]
    error, summary = (json.loads(line) for line in done.stderr.splitlines())
    assert (error["error"]["type"], error["error"]["line"]) == ("UnreadableEvent", 3)
    assert summary["summary"]["failed"] == 1


def test_rows_of_unknown_outcome_are_told_as_such(
    terminal: Terminal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Red when an answer that was lost is told as a store that is unavailable."""
    path = csv_of(tmp_path / "runs.csv", 1_002)
    with monkeypatch.context() as patch:
        failing(patch, AnswerLost("the server hung up", retryable=False), after=1)
        done = terminal.run("spawn", "acme", "triage", "--from", path)
    assert (done.returncode, len(told(done))) == (5, 1_000)
    first, second, summary, said = done.stderr.splitlines()
    assert first.startswith("alloc-es: line 1002: run id run-1001 on acme/triage may or may not")
    assert second.startswith("alloc-es: line 1003: run id run-1002 on acme/triage may or may not")
    assert "0 failed, 2 of unknown outcome, 0 re-routed" in summary
    assert "the server hung up; from line 1002 on nothing is known" in said
    goes_on(terminal, path, done, 1_002)


def test_an_input_that_breaks_off_ends_the_command_behind_what_was_read(
    sqlite: Terminal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Red when the chunk under way is not told."""
    path = csv_of(tmp_path / "runs.csv", 1_500)
    read, reads = os.read, 0

    def fail(descriptor: int, size: int) -> bytes:
        nonlocal reads
        reads += size > 100_000
        if reads > 1 and size > 100_000:
            raise OSError(5, "Input/output error")
        return read(descriptor, size)

    with monkeypatch.context() as patch:
        patch.setattr("alloc_es.cli.lines.os.read", fail)
        done = sqlite.run("spawn", "acme", "triage", "--from", path)
    assert (done.returncode, len(told(done))) == (74, 1_000)
    assert f"the input can't be read: Input/output error: {UP_TO_1000}" in done.stderr


def test_a_reader_that_leaves_ends_the_command_in_silence(sqlite: Terminal, tmp_path: Path) -> None:
    """Red when a closed pipe is a traceback, or the rest of the file is spawned for nobody."""
    path = csv_of(tmp_path / "runs.csv", 5_000)
    done = sqlite.shell(
        f"alloc-es spawn acme triage --from {path} | head -n 1; echo ${{PIPESTATUS[0]}}"
    )
    first, code = done.stdout.splitlines()
    assert (json.loads(first)["run_id"], code, done.stderr) == ("run-1", "141", "")
    assert 1_000 <= len(stored(sqlite)) < 5_000


def test_a_full_disk_behind_stdout_is_said(sqlite: Terminal, tmp_path: Path) -> None:
    """Red when what could not be told is passed over."""
    path = csv_of(tmp_path / "runs.csv", 10)
    done = sqlite.shell(f"alloc-es spawn acme triage --from {path} > /dev/full")
    assert (done.returncode, done.stderr) == (
        74,
        "alloc-es: the output could not be written: No space left on device\n",
    )


def test_streams_that_are_closed_swallow(sqlite: Terminal, tmp_path: Path) -> None:
    path = csv_of(tmp_path / "runs.csv", 10)
    done = sqlite.shell(f"alloc-es spawn acme triage --from {path} >&- 2>&-")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert len(stored(sqlite)) == 10


def test_progress_is_for_a_terminal_that_does_not_get_the_runs(
    sqlite: Terminal, tmp_path: Path
) -> None:
    """Red when a bar is drawn between the runs, in a pipe, or not at all."""
    path = csv_of(tmp_path / "runs.csv", 1_500)
    spawning = ("spawn", "acme", "triage", "--from", path)
    seen = sqlite.screen(*spawning, out=tmp_path / "out")
    assert "1,500 runs, 0 failed, 100% of the file" in seen
    assert "elapsed" in seen
    assert "\x1b[2K" in seen
    assert len((tmp_path / "out").read_text().splitlines()) == 1_500
    both = sqlite.screen(*spawning)
    assert "\x1b" not in both
    assert both.count("\n") == 1_501
    assert "\x1b" not in spawned(sqlite, path).stderr


def test_what_is_told_can_not_move_the_cursor_and_is_json_everywhere(
    sqlite: Terminal, tmp_path: Path
) -> None:
    """Red when a name is printed as it is, or can't be encoded."""
    family = "👨\u200d👩\u200d👧"
    path = written(tmp_path / "runs", f'run_id\n{family}\nr\u202e\n"r\x7f"\né\n')
    done = spawned(sqlite, path, code=2)
    assert [run["run_id"] for run in told(done)] == [family, "é"]
    assert all(c.isprintable() or c == "\n" for c in done.stdout + done.stderr)
    only_ascii = {"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    done = sqlite.process("spawn", "acme", "triage", "--from", path, **only_ascii)
    assert [run["run_id"] for run in told(done)] == [family, "é"]
    assert done.stdout.isascii()


MEASURED = """
import sys, tracemalloc
from alloc_es.cli import run
tracemalloc.start()
code = run(sys.argv[1:])
print(tracemalloc.get_traced_memory()[1], file=sys.stderr)
sys.exit(code)
"""


def test_memory_does_not_grow_with_the_rows(sqlite: Terminal, tmp_path: Path) -> None:
    """Red when rows, or what became of them, are gathered to the end."""

    def peak(count: int) -> int:
        rows = "".join(f"run-{number}-of-{count}\n" for number in range(count))
        path = written(tmp_path / "runs.csv", f"run_id\n{rows}")
        command = ["spawn", "acme", "triage", "--from", path, "--store", sqlite.store]
        done = subprocess.run(
            [sys.executable, "-c", MEASURED, *command], capture_output=True, text=True, check=True
        )
        return int(done.stderr.splitlines()[-1])

    few = peak(4_000)
    assert peak(12_000) < few * 1.2
