"""`alloc-es export` and `alloc-es import`."""

import json
import os
import signal
from pathlib import Path

import pytest

from alloc_es.cli.interrupts import Interrupts
from alloc_es.exchange import cloudevents_writing
from tests.cli.terminal import Terminal
from tests.exchange.given import FORMATS, fill, looked_at, opened


@pytest.fixture
def filled(sqlite_url: str) -> Terminal:
    with opened(sqlite_url) as allocations:
        fill(allocations)
    return Terminal(sqlite_url)


@pytest.fixture
def empty(tmp_path: Path) -> Terminal:
    terminal = Terminal(f"sqlite:///{tmp_path / 'empty.db'}")
    terminal.ok("init")
    return terminal


HELD = "9 decisions up to position 9 and 12 runs up to position 12"


@pytest.mark.parametrize("format", FORMATS)
def test_a_log_goes_out_and_in(
    filled: Terminal, empty: Terminal, tmp_path: Path, format: str
) -> None:
    """Red when a command says something else than what is there, or does not do it."""
    out = tmp_path / "log"
    assert filled.ok("export", "--format", format, "--out", str(out)) == f"{out} holds {HELD}\n"
    assert empty.ok("import", str(out)) == (
        f"SQLite database {tmp_path / 'empty.db'} holds {HELD}, as {out} has them\n"
    )
    assert looked_at(empty.store) == looked_at(filled.store) == looked_at(out)


def test_both_commands_print_json(filled: Terminal, empty: Terminal, tmp_path: Path) -> None:
    """Red when a field is renamed."""
    out = str(tmp_path / "log")
    ends = {"decisions": 9, "runs": 12}
    assert filled.json("export", "--out", out) == {
        "where": out,
        "format": "cloudevents",
        "ends": ends,
        "decisions": 9,
        "runs": 12,
        "kept": 0,
    }
    assert empty.json("import", out) == {
        "where": f"SQLite database {tmp_path / 'empty.db'}",
        "ends": ends,
        "decisions": 9,
        "runs": 12,
    }


def test_a_pipe_gets_the_lines_and_stderr_what_was_done(filled: Terminal, tmp_path: Path) -> None:
    """Red when a sentence for people gets among the lines of an export."""
    done = filled.process("export", "--json")
    assert (done.returncode, json.loads(done.stderr)["runs"]) == (0, 12)
    filled.ok("export", "--out", str(tmp_path / "log"))
    assert done.stdout == (tmp_path / "log").read_text()


def test_an_export_needs_no_store(tmp_path: Path, filled: Terminal) -> None:
    """Red when the store is opened although an export is looked at."""
    first, second = str(tmp_path / "first"), str(tmp_path / "second")
    filled.ok("export", "--out", first)
    nowhere = Terminal("postgresql://127.0.0.1:1/nothing")
    nowhere.ok("export", "--from", first, "--format", "parquet", "--out", second)
    assert looked_at(second) == looked_at(first)


def test_a_damaged_file_ends_with_6_and_names_the_line_once(
    filled: Terminal, empty: Terminal, tmp_path: Path
) -> None:
    """Red when the line is put in front of a message that names it, or the code is another."""
    out = tmp_path / "log"
    filled.ok("export", "--out", str(out))
    out.write_bytes(out.read_bytes()[:5_000])
    said = empty.fails(6, "import", str(out))
    assert said.startswith(f"alloc-es: {out}, line 6: the file ends here")
    error = empty.error(6, "import", str(out))
    assert (error["type"], error["path"], error["line"]) == ("ExportDamaged", str(out), 6)


def test_what_is_in_the_way_ends_with_1(filled: Terminal, tmp_path: Path) -> None:
    """Red when something is replaced without --force, or events are imported beside others."""
    out = tmp_path / "log"
    filled.ok("export", "--out", str(out))
    assert "holds events already" in filled.fails(1, "import", str(out))
    out.write_text("precious")
    assert "is no whole export" in filled.fails(1, "export", "--out", str(out))
    filled.ok("export", "--out", str(out), "--force")


def test_a_store_is_never_made_by_a_mistyped_name(tmp_path: Path, filled: Terminal) -> None:
    """Red when an import makes a database, or believes one in memory."""
    out = str(tmp_path / "log")
    filled.ok("export", "--out", out)
    assert "does not exist" in filled.fails(4, "import", out, "--store", f"sqlite:///{out}.db")
    assert "memory" in filled.fails(2, "import", out, "--store", "memory:")


def test_usage_is_told(filled: Terminal, tmp_path: Path) -> None:
    """Red when a mistake leaves as a traceback."""
    assert "to a directory" in filled.process("export", "--format", "parquet").stderr
    assert "no directory" in filled.fails(2, "export", "--out", str(tmp_path / "no" / "log"))
    assert "No such file" in filled.fails(2, "import", str(tmp_path / "missing"))


def test_a_full_disk_ends_with_74(filled: Terminal) -> None:
    """Red when what the file system refuses is a bug of ours."""
    full = filled.shell("alloc-es export > /dev/full")
    assert (full.returncode, full.stderr) == (
        74,
        "alloc-es: - could not be written: No space left on device\n",
    )


def interrupt_at(monkeypatch: pytest.MonkeyPatch, report: int) -> None:
    """Have Ctrl-C come in a report of how far a command is."""
    seen = []
    original = Interrupts.check

    def check(self: Interrupts) -> None:
        seen.append(self)
        if len(seen) == report:
            os.kill(os.getpid(), signal.SIGINT)
        original(self)

    monkeypatch.setattr(Interrupts, "check", check)


def test_ctrl_c_keeps_what_was_exported(
    filled: Terminal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Red when an interrupted export does not say what is left, or begins anew."""
    monkeypatch.setattr(cloudevents_writing, "_PAGE", 4)
    out = tmp_path / "log"
    with monkeypatch.context() as during:
        interrupt_at(during, 5)
        said = filled.fails(130, "export", "--out", str(out))
    assert said == (
        f"alloc-es: interrupted: what is written is kept in {out}.part, "
        f"and the same command goes on from there\n"
    )
    assert not out.exists()
    done = filled.ok("export", "--out", str(out))
    assert done == f"{out} holds {HELD}; 13 positions were there before\n"


def test_ctrl_c_leaves_an_empty_store(
    filled: Terminal, empty: Terminal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Red when an interrupted import leaves events, or the next one is refused."""
    out = str(tmp_path / "log")
    filled.ok("export", "--out", out)
    with monkeypatch.context() as during:
        interrupt_at(during, 2)
        assert empty.fails(130, "import", out) == "alloc-es: interrupted: nothing was imported\n"
    assert looked_at(empty.store) == ([], [])
    empty.ok("import", out)


def test_a_terminal_shows_how_far_it_is(filled: Terminal, tmp_path: Path) -> None:
    """Red when nothing moves, or a bar gets into a file."""
    out = tmp_path / "log"
    assert "21/21" in filled.screen("export", "--out", str(out))
    assert looked_at(out) == looked_at(filled.store)
