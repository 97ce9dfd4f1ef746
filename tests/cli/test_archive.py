"""`alloc-es archive`, and the commands that read archived runs."""

import json
import signal
from pathlib import Path
from typing import Any

import pytest

from alloc_es import archiving
from tests.archive.filling import filled
from tests.cli.terminal import Terminal

LOOK = ("history", "acme", "triage")

NOT_BUILT = (
    "decision_history, run_ledger are not built; building them needs this archive: "
    "--archive DIRECTORY\n"
)


@pytest.fixture
def terminal(sqlite_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """A shell in an empty directory, whose store has the runs `run 01` to `run 12`."""
    monkeypatch.chdir(tmp_path)
    with filled(sqlite_url, tmp_path, at_once=4):
        pass
    return Terminal(sqlite_url)


def test_runs_up_to_a_position_go_into_a_directory(terminal: Terminal, tmp_path: Path) -> None:
    """Red when another part of the log goes, or the digest is not told."""
    said = terminal.ok("archive", "--out", "first", "--up-to", "5")
    made = terminal.json("archive", "--out", "first", "--up-to", "5")
    assert said == (
        f"{tmp_path / 'first'} is the archive first: 5 runs up to position 5, and no more in the "
        f"log; keep it, and its digest {made['digest']}\n{NOT_BUILT}"
    )
    assert made == {
        "name": "first",
        "runs": 5,
        "up_to": 5,
        "digest": made["digest"],
        "directory": str(tmp_path / "first"),
        "not_built": ["decision_history", "run_ledger"],
    }


def test_runs_before_a_time_go(terminal: Terminal) -> None:
    """Red when `--before` is not handed on, or is read without its zone."""
    asked = ("archive", "--out", "first", "--before", "2026-03-01T12:02:00+00:00")
    plan = terminal.json(*asked, "--dry-run")
    assert plan == {
        "after": 0,
        "up_to": 4,
        "runs": 4,
        "not_built": ["decision_history", "run_ledger"],
    }
    assert terminal.ok(*asked, "--dry-run") == (
        f"4 runs would be archived, behind position 0 up to 4\n{NOT_BUILT}"
    )
    assert not Path("first").exists()
    assert terminal.json(*asked)["up_to"] == 4
    assert terminal.json("archive", "--out", "other", "--up-to", "3") is None
    assert terminal.ok("archive", "--out", "other", "--up-to", "3") == (
        "no run is left to be archived\n"
    )
    assert terminal.ok("archive", "--out", "other", "--up-to", "3", "--dry-run") == (
        "no run is left that would be archived\n"
    )


@pytest.mark.parametrize(
    "wish",
    [
        [],
        ["--up-to", "3", "--before", "2026-03-01T12:02:00Z"],
        ["--up-to", "x"],
        ["--before", "2026-03-01T12:02:00"],
        ["--before", "yesterday"],
    ],
)
def test_how_far_is_said_once(terminal: Terminal, wish: list[str]) -> None:
    """Red when a time without its zone, or no end at all, is taken."""
    terminal.fails(2, "archive", "--out", "first", *wish)


def test_an_archive_is_given_to_those_who_read_runs(terminal: Terminal) -> None:
    """Red when a command does not hand `--archive` on."""
    terminal.ok("projections", "run", "--catch-up")
    terminal.ok("archive", "--out", "first", "--up-to", "5")
    at_hand = ("--archive", "first")
    for asked in (
        ("projections", "rebuild", "run_ledger"),
        ("projections", "verify", "run_ledger"),
        ("spawn", "acme", "triage", "run 01"),
        ("explain", "acme", "run 01"),
        ("audit",),
    ):
        assert "archive first" in terminal.fails(1, *asked)
        terminal.ok(*asked, *at_hand)
    terminal.ok("projections", "remove", "run_ledger")
    without = terminal.run("projections", "run", "--catch-up")
    assert (without.returncode, "archive first" in without.stderr) == (1, True)
    terminal.ok("projections", "run", "--catch-up", *at_hand)
    assert terminal.json("spawn", "acme", "triage", "run 01", *at_hand)["replayed"]


def test_a_read_model_that_is_built_is_not_said_to_need_the_archive(terminal: Terminal) -> None:
    """Red when all read models are named, or those of the decisions."""
    terminal.ok("projections", "run", "--catch-up", "run_ledger", "decision_history")
    asked = ("archive", "--out", "first", "--up-to", "5")
    assert terminal.json(*asked, "--dry-run")["not_built"] == []
    assert "not built" not in terminal.ok(*asked, "--dry-run") + terminal.ok(*asked)


def test_what_is_no_export_is_told_what_it_is(terminal: Terminal) -> None:
    """Red when an archive or a seal is taken for a damaged export."""
    terminal.ok("archive", "--out", "first", "--up-to", "5")
    terminal.ok("seal", "--out", "one.seal", "--archive", "first")
    for asked in (("import",), ("audit", "--from")):
        for given, said in (
            ("first", "first is an archive, not an export; give it with --archive"),
            ("one.seal", "one.seal is a seal, not an export; give it to audit with --seal"),
        ):
            assert said in terminal.fails(2, *asked, given)


def test_many_rows_may_ask_for_archived_runs(terminal: Terminal) -> None:
    """Red when `spawn --from` does not hand `--archive` on."""
    terminal.ok("archive", "--out", "first", "--up-to", "5")
    Path("rows.jsonl").write_text('{"run_id": "run 01"}\n{"run_id": "run 12"}\n')
    asked = ("spawn", "acme", "triage", "--from", "rows.jsonl")
    assert "line 1: run id run 01 of tenant acme was given out" in terminal.run(*asked).stderr
    told = terminal.run(*asked, "--archive", "first")
    known = [json.loads(line) for line in told.stdout.splitlines()]
    assert [run["replayed"] for run in known] == [True, True]


def test_a_read_model_that_has_not_passed_is_a_refusal(terminal: Terminal) -> None:
    """Red when runs go that a read model needs."""
    terminal.ok("projections", "run", "--catch-up", "run_ledger")
    terminal.ok("spawn", "acme", "triage", "run 13")
    terminal.ok("spawn", "acme", "triage", "run 14")
    said = terminal.error(1, "archive", "--out", "first", "--up-to", "13")
    assert (said["type"], said["position"], said["up_to"]) == ("NotYetFollowed", 12, 13)
    assert "projections run run_ledger --catch-up" in said["message"]


def test_a_ctrl_c_ends_it_and_the_same_command_goes_on(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Red when a Ctrl-C is not heard between two steps, or what it left can't be gone on with."""
    genuine = archiving._Archiving._compare

    def compare(self: Any, *arguments: Any) -> None:
        signal.raise_signal(signal.SIGINT)
        genuine(self, *arguments)

    with monkeypatch.context() as interrupted:
        interrupted.setattr(archiving._Archiving, "_compare", compare)
        said = terminal.fails(130, "archive", "--out", "first", "--up-to", "5")
    assert "no run has left the log, or all have" in said
    assert len(terminal.json(*LOOK)["decisions"]) == 2
    assert terminal.json("archive", "--out", "first", "--up-to", "5")["runs"] == 5
