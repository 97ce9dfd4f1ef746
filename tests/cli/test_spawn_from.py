"""`spawn --from`: every row gets its answer, once, whatever its neighbours and the pipe do."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import alloc_es
from alloc_es import RunSpawned
from tests.cli.terminal import Done, Terminal

BAD_ROWS = """{"run_id": "run-1", "unit": "customer-17"}
{"run_id": "run 2 ", "unit": "customer-17"}
not JSON
{"run_id": "run-4", "workflow_id": "no-such-one"}
{"run_id": "run-5", "workflow_id": "other"}
{"run_id": "run-5"}
{"run_id": "run-1"}
{"run_id": "run-8"}
"""


@pytest.fixture
def bad_rows(tmp_path: Path) -> str:
    return written(tmp_path / "bad.jsonl", BAD_ROWS)


def written(path: Path, text: str) -> str:
    path.write_text(text)
    return str(path)


def run_ids(count: int) -> list[str]:
    return [f"run-{number}" for number in range(1, count + 1)]


def csv_of(path: Path, count: int) -> str:
    """A file whose run N stands on line N + 1."""
    return written(path, "\n".join(["run_id", *run_ids(count)]))


def told(done: Done) -> list[dict[str, Any]]:
    return [json.loads(line) for line in done.stdout.splitlines()]


def stored(terminal: Terminal) -> list[RunSpawned]:
    with alloc_es.connect(terminal.store, migrate=False) as allocations:
        return [entry.event for entry in allocations.runs()]


def spawned(terminal: Terminal, path: str, *options: str, code: int = 0) -> Done:
    done = terminal.run("spawn", "acme", "triage", "--from", path, *options)
    assert done.returncode == code, done
    return done


@pytest.mark.parametrize("count", [1, 2_500])
def test_every_run_is_recorded_once_and_told_in_the_order_of_the_rows(
    terminal: Terminal, tmp_path: Path, count: int
) -> None:
    """Red when a chunk is lost, told twice, or told before an earlier one."""
    path = csv_of(tmp_path / "runs.csv", count)
    done = spawned(terminal, path)
    assert [(run["run_id"], run["line"], run["replayed"]) for run in told(done)] == [
        (run_id, line, False) for line, run_id in enumerate(run_ids(count), start=2)
    ]
    assert sorted(run.run_id for run in stored(terminal)) == sorted(run_ids(count))
    again = spawned(terminal, path)
    assert told(again) == [{**run, "replayed": True} for run in told(done)]
    assert f"alloc-es: 0 recorded, {count:,} known before, 0 failed, 0 re-routed; " in again.stderr


def goes_on(terminal: Terminal, path: str, done: Done, count: int) -> None:
    """The command that ended early is run again, and settles what is left."""
    again = spawned(terminal, path)
    assert [run["run_id"] for run in told(again)] == run_ids(count)
    assert [{**run, "replayed": True} for run in told(done)] == told(again)[: len(told(done))]
    assert sorted(run.run_id for run in stored(terminal)) == sorted(run_ids(count))


def test_a_run_is_told_as_spawn_tells_it_with_its_line(terminal: Terminal, tmp_path: Path) -> None:
    """Red when a field is missing, or differs from the one of `spawn --json`."""
    rows = '\n{"run_id": "run-1", "unit": "customer-17", "actor": "night-shift"}\n'
    (run,) = told(spawned(terminal, written(tmp_path / "runs", rows)))
    assert {**run, "replayed": True} == {
        **terminal.json("spawn", "acme", "triage", "run-1"),
        "line": 2,
    }
    assert (run["unit"], run["actor"]) == ("customer-17", "night-shift")
    done = spawned(terminal, written(tmp_path / "runs", "run_id\nrun-2"), "--actor", "ada")
    assert told(done)[0]["actor"] == "ada"


def test_a_bad_row_is_told_with_its_line_and_does_not_harm_the_others(
    terminal: Terminal, bad_rows: str
) -> None:
    """Red when a row fails its neighbours, or is told without its line."""
    done = spawned(terminal, bad_rows, code=2)
    assert [(run["run_id"], run["line"]) for run in told(done)] == [
        ("run-1", 1),
        ("run-5", 5),
        ("run-1", 7),
        ("run-8", 8),
    ]
    *errors, summary = done.stderr.splitlines()
    assert [error.partition(": it ")[0] for error in errors[:2]] == [
        "alloc-es: line 2: 'run 2 ' can't be a run id",
        "alloc-es: line 3",
    ]
    assert errors[2].startswith("alloc-es: line 4: acme/no-such-one was never started")
    assert errors[3].startswith("alloc-es: line 6: run id run-5 of tenant acme belongs to")
    assert len(errors) == 4
    assert summary.startswith("alloc-es: 3 recorded, 1 known before, 4 failed, 0 re-routed; ")
    assert {run.run_id for run in stored(terminal)} == {"run-1", "run-5", "run-8"}


def test_with_json_what_is_on_stderr_is_json_too(sqlite: Terminal, bad_rows: str) -> None:
    """Red when an error or the summary is text although JSON was asked for."""
    done = spawned(sqlite, bad_rows, "--json", code=2)
    *errors, summary = (json.loads(line) for line in done.stderr.splitlines())
    assert [(e["error"]["line"], e["error"]["type"], e["error"]["exit_code"]) for e in errors] == [
        (2, "InvalidIdentifier", 2),
        (3, "InvalidRow", 2),
        (4, "UnknownWorkflow", 1),
        (6, "RunIdTaken", 1),
    ]
    assert errors[3]["error"]["recorded"]["run_id"] == "run-5"
    assert (
        summary["summary"].items()
        >= {
            "recorded": 3,
            "known": 1,
            "failed": 4,
            "unknown": 0,
            "rerouted": 0,
        }.items()
    )
    assert told(done) == [
        {**run, "replayed": run["line"] == 7} for run in told(spawned(sqlite, bad_rows, code=2))
    ]


@pytest.mark.parametrize(
    ("rows", "code"),
    [
        ("run_id\nrun-1", 0),
        ("", 0),
        ("run_id,workflow_id\nrun-1,no-such-one\nrun-2,triage", 1),
        ('{"run_id": "run-1"}\n{"run_id": "run-2", "workflow_id": "no-such-one"}\nx', 2),
        ("run_id\n run-1", 2),
    ],
)
def test_the_exit_code_is_the_highest_of_any_row(
    sqlite: Terminal, tmp_path: Path, rows: str, code: int
) -> None:
    """Red when rows that failed end with 0, or the last one's code wins."""
    spawned(sqlite, written(tmp_path / "runs", rows), code=code)


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (["acme", "triage"], "a run is named by TENANT, WORKFLOW and RUN"),
        (["acme", "triage", "r", "--from", "F"], "the rows of --from name RUN and UNIT"),
        (["acme", "triage", "--unit", "u", "--from", "F"], "the rows of --from name RUN and UNIT"),
        (["acme", "triage", "r", "--format", "csv"], "--format says how the FILE of --from"),
        (["--from", "F", "--format", "xml"], "Invalid value for '--format'"),
        (["--from", "F"], "no column tenant_id; name a TENANT"),
        (["acme", "--from", "F"], "no column workflow_id; name a WORKFLOW"),
        ([" ", "triage", "--from", "F"], "' ' can't be a tenant id"),
        (["acme", "", "--from", "F"], "'' can't be a workflow id"),
        (["acme", "triage", "--from", "F", "--actor", " "], "' ' can't be an actor"),
        (["acme", "triage", "--from", "no-such-file"], "no-such-file can't be read: No such file"),
        (["acme", "triage", "--from", "/"], "/ is a directory"),
        (["acme", "triage", "--from", "\0"], "can't be read"),
    ],
)
def test_what_makes_no_sense_is_refused_before_any_row(
    sqlite: Terminal, tmp_path: Path, command: list[str], said: str
) -> None:
    """Red when an argument is passed over in silence."""
    path = csv_of(tmp_path / "runs.csv", 3)
    arguments = [path if argument == "F" else argument for argument in command]
    assert said in sqlite.fails(2, "spawn", *arguments)
    assert stored(sqlite) == []


@pytest.mark.parametrize(("name", "code"), [("runs.CSV", 0), ("runs.jsonl", 2), ("runs.ndjson", 2)])
def test_the_ending_of_a_file_says_its_format(
    sqlite: Terminal, tmp_path: Path, name: str, code: int
) -> None:
    """Red when a file that is called JSON lines is read as CSV."""
    spawned(sqlite, csv_of(tmp_path / name, 1), code=code)
    spawned(sqlite, str(tmp_path / name), "--format", "csv")


def test_tenants_and_workflows_may_be_mixed(terminal: Terminal, tmp_path: Path) -> None:
    """Red when the default is taken for a row that names its own."""
    with alloc_es.connect(terminal.store) as allocations:
        allocations.workflow("globex", "triage").start("v7")
    rows = "run_id,tenant_id,workflow_id\nrun-1,globex,triage\nrun-1,acme,other\nrun-2,,\n"
    done = spawned(terminal, written(tmp_path / "runs", rows))
    assert [(run["tenant_id"], run["workflow_id"]) for run in told(done)] == [
        ("globex", "triage"),
        ("acme", "other"),
        ("acme", "triage"),
    ]


def test_a_pipe_is_answered_before_it_ends(terminal: Terminal) -> None:
    """Red when rows are kept back until there is a chunk of them."""
    with terminal.started("spawn", "acme", "triage", "--from", "-") as process:
        assert process.stdin
        assert process.stdout
        for number in (1, 2):
            process.stdin.write(f'{{"run_id": "run-{number}"}}\n{{"run_id": "half')
            process.stdin.flush()
            assert json.loads(process.stdout.readline())["run_id"] == f"run-{number}"
            process.stdin.write('"}\n')
            process.stdin.flush()
            assert json.loads(process.stdout.readline())["run_id"] == "half"
        process.stdin.close()
        assert process.wait() == 0
    assert {run.run_id for run in stored(terminal)} == {"run-1", "run-2", "half"}


def test_stdin_is_read_as_a_file_is(sqlite: Terminal) -> None:
    done = sqlite.shell("printf 'run_id\\nrun-1\\n' | alloc-es spawn acme triage --from -")
    assert (done.returncode, told(done)[0]["run_id"]) == (0, "run-1")
    done = sqlite.shell("alloc-es spawn acme triage --from - <&-")
    assert (done.returncode, done.stderr) == (2, "alloc-es: --from: stdin is closed\n")
    done = sqlite.shell("alloc-es spawn acme triage --from <(printf 'run_id\\nrun-2\\n')")
    assert (done.returncode, told(done)[0]["run_id"]) == (0, "run-2")


def rows_for_ever(count: int) -> Iterator[str]:
    yield "run_id\n"
    for run_id in run_ids(count):
        yield f"{run_id}\n"


def test_a_process_that_was_killed_is_run_again(terminal: Terminal) -> None:
    """Red when a run is recorded twice, or missing, after the second time."""
    rows = list(rows_for_ever(3_500))
    with terminal.started("spawn", "acme", "triage", "--from", "-") as process:
        assert process.stdin
        assert process.stdout
        # It waits for the end of the input when it is killed, if not for its store.
        process.stdin.writelines(rows[:2_500])
        process.stdin.flush()
        for _ in range(1_200):
            process.stdout.readline()
        process.kill()
    first = len(stored(terminal))
    assert 1_200 <= first <= 2_500
    with terminal.started("spawn", "acme", "triage", "--from", "-", "--json") as process:
        out, err = process.communicate("".join(rows))
    assert process.returncode == 0
    assert [json.loads(line)["run_id"] for line in out.splitlines()] == run_ids(3_500)
    summary = json.loads(err)["summary"]
    assert (summary["known"], summary["recorded"]) == (first, 3_500 - first)
    assert sorted(run.run_id for run in stored(terminal)) == sorted(run_ids(3_500))
