"""`explain`: where the bucket fell, why, and whether that is what was recorded."""

import io
from itertools import count
from pathlib import Path

import pytest
from rich.console import Console

import alloc_es
from alloc_es.cli.explaining import ExplanationDrawing
from alloc_es.codec import encode
from alloc_es.explaining import Explanation, explain
from alloc_es.routing import bucket_of
from tests.cli.past import RUNS, exported, remembered
from tests.cli.terminal import Terminal
from tests.core.given import commit, register, start
from tests.history.given import changed, history, spawned
from tests.support.raw import RUNS as RUN_EVENTS
from tests.support.raw import raw

DECISIONS = history(start(), register("v2", 3000), commit({"v2": 2900}))


@pytest.fixture
def terminal(sqlite_url: str) -> Terminal:
    return remembered(sqlite_url)


def drawn(found: Explanation, width: int, encoding: str = "utf-8") -> list[str]:
    """The lines of a drawing for a terminal of a width and an encoding."""
    written = io.BytesIO()
    file = io.TextIOWrapper(written, encoding=encoding)
    Console(file=file, width=width, highlight=False, color_system=None).print(
        ExplanationDrawing(found)
    )
    file.flush()
    return written.getvalue().decode(encoding).splitlines()


def test_an_explanation_shows_where_the_bucket_fell_and_what_that_follows_from(
    terminal: Terminal,
) -> None:
    """Red when the bar is not in the order of the buckets, or a fact is another one's."""
    lines = terminal.ok("explain", "acme", "run-3-17").splitlines()
    carried, told = lines[-2].split()[-1], "2026-03-01 12:03:00 UTC"
    assert lines == [
        "run run-3-17 of acme/triage got v2, the challenger",
        "▓" * 20 + "█" * 80,
        " " * 10 + "^ bucket 1,012",
        "█  v1  control     80%  since generation 1, 2026-03-01 12:01:00 UTC",
        "▓  v2  challenger  20%  since generation 2, 2026-03-01 12:02:00 UTC",
        "unit        run-3-17",
        "hashed      with hash version 1 and salt id-5 of episode 1: bucket 1,012 of 10,000",
        "slot        buckets 0 to 1,999, which are v2's",
        f"decision    generation 3 at position 4: gave v2 20%, by bob, {told}: it does well",
        "recorded    at position 50 of the runs, by ada, 2026-03-01 12:03:00 UTC",
        "newest      generation 3 at position 4 of the decisions; generation 4 came at position 5",
        f"digest      the decision's, {carried}",
        "recomputed  the same",
    ]
    with alloc_es.connect(terminal.store) as allocations:
        assert allocations.workflow("acme", "triage").at(generation=3).digest == carried


@pytest.mark.parametrize("width", [28, 100, 300])
@pytest.mark.parametrize(("encoding", "fills"), [("utf-8", "█▓"), ("ascii", "#=")])
def test_the_caret_stands_under_the_arm_of_the_bucket(
    width: int, encoding: str, fills: str
) -> None:
    """Red when a cell is given to whoever has its first bucket, or the caret is one beside."""
    for n in range(20):
        run = spawned(DECISIONS[1], f"run-{n}")
        lines = drawn(explain(run, DECISIONS), width, encoding)
        place = next(n for n, line in enumerate(lines) if set(line) == set(fills))
        bar, pointer = lines[place : place + 2]
        caret = pointer.index("^")
        assert bar[caret] == fills[run.event.arm == "challenger"]
        assert caret == run.event.bucket * len(bar) // 10_000
        assert f"bucket {run.event.bucket:,}" in pointer + lines[place + 2]
        assert len(bar) == min(width, 100)
        assert max(len(line) for line in lines) <= width


def test_the_cells_show_what_the_arms_hold() -> None:
    """Red when the cells of an arm are counted from another place than its buckets'."""
    run = spawned(DECISIONS[1], "run-1")
    assert drawn(explain(run, DECISIONS), 100)[1] == "▓" * 30 + "█" * 70


def test_the_cell_of_the_bucket_is_in_the_look_of_its_arm_however_little_that_has() -> None:
    """Red when the arm that has most of the cell hides the one that the run got."""
    small = history(start(), register("v2", 20))
    units = (f"run-{n}" for n in count())
    unit = next(each for each in units if bucket_of(each, salt="salt-1") < 20)
    found = explain(spawned(small[1], unit), small)
    assert drawn(found, 100)[1] == "▓" + "█" * 99


def forged(terminal: Terminal, **fields: object) -> str:
    """The id of a run that somebody has put into the store, and that says something else."""
    with alloc_es.connect(terminal.store) as allocations:
        decision = allocations.workflow("acme", "triage").at(generation=3)
    run = changed(spawned(decision, "forged"), **fields).event
    topic, state = encode(run)
    with raw(terminal.store) as connection:
        connection.insert(RUN_EVENTS, (run.originator_id, 1, topic, state))
    return run.run_id


def test_what_was_recorded_and_does_not_follow_ends_with_6(terminal: Terminal) -> None:
    """Red when a difference is only printed, or another one is told than there is."""
    run_id = forged(terminal, version="v3", decision_position=5)
    done = terminal.run("explain", "acme", run_id)
    assert (done.returncode, done.stderr) == (6, "")
    *_, newest, digest, recomputed = done.stdout.splitlines()
    assert newest == (
        "newest      NOT generation 3 at position 5 of the decisions; "
        "generation 4 came at position 5"
    )
    assert digest.startswith("digest      the decision's, ")
    assert recomputed == ("recomputed  NOT the same: version is recorded as v3, and v1 follows")
    done = terminal.run("explain", "acme", run_id, "--json")
    assert (done.returncode, done.stderr) == (6, "")
    assert '"holds": false' in done.stdout


def test_a_run_by_another_decision_than_the_logs_is_told(terminal: Terminal) -> None:
    """Red when the digest that a run carries is taken for the decision's."""
    run_id = forged(terminal, decision_digest="0" * 64)
    done = terminal.run("explain", "acme", run_id)
    assert done.returncode == 6
    assert f"digest      NOT the decision's: the run carries {'0' * 64}" in done.stdout


def test_json_has_the_run_its_decision_and_what_follows(terminal: Terminal) -> None:
    """Red when a part of the explanation is left out, or named otherwise than in Python."""
    found = terminal.json("explain", "acme", "run-3-17")
    assert list(found) == [
        "run",
        "decision",
        "following",
        "recomputed",
        "differences",
        "verified",
        "digest_matches",
        "holds",
    ]
    run, decision = found["run"], found["decision"]
    assert (run["run_id"], run["position"], run["bucket"]) == ("run-3-17", 50, 1012)
    assert (decision["generation"], decision["position"], decision["actor"]) == (3, 4, "bob")
    assert found["following"]["generation"] == 4
    assert {name: run[name] for name in found["recomputed"]} == found["recomputed"]
    assert (found["differences"], found["verified"], found["digest_matches"]) == ([], True, True)


def test_what_is_not_known_is_said_to_be_unknown() -> None:
    """Red when a run of an older release, or without its decision, is a traceback."""
    run = spawned(DECISIONS[1], "run-1")
    old = explain(changed(run, decision_position=None, decision_digest=None), DECISIONS)
    assert [line.rstrip() for line in drawn(old, 100)[-3:]] == [
        "newest      unknown: release 0.1 recorded no decision position",
        "digest      none: a release before 0.5 recorded the run",
        "recomputed  the same",
    ]
    lost = [line.rstrip() for line in drawn(explain(run, []), 200)]
    assert lost[0] == f"run run-1 of acme/triage got {run.event.version}, the {run.event.arm}"
    assert "decision    generation 2 of acme/triage is not in the log" in lost
    assert lost[-1] == "recomputed  NOT: there is no decision to compute it from"


def test_a_run_that_is_not_recorded_is_refused(terminal: Terminal, tmp_path: Path) -> None:
    """Red when a run of another tenant, or of an export, is looked for elsewhere."""
    error = terminal.error(1, "explain", "beta", "run-3-17")
    assert (error["type"], error["tenant_id"], error["run_id"]) == (
        "UnknownRun",
        "beta",
        "run-3-17",
    )
    path = exported(terminal, tmp_path)
    assert path in terminal.fails(1, "explain", "acme", "run-9", "--from", path)


def test_an_export_explains_the_same_without_a_database(terminal: Terminal, tmp_path: Path) -> None:
    """Red when the store is looked into although `--from` names an export."""
    path = exported(terminal, tmp_path)
    nowhere = Terminal("sqlite:////no/such/directory/alloc.db")
    for n in (0, RUNS - 1):
        command = ("explain", "acme", f"run-3-{n}")
        assert nowhere.ok(*command, "--from", path) == terminal.ok(*command)
        assert nowhere.json(*command, "--from", path) == terminal.json(*command)
