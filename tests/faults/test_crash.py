"""A process is killed in the middle of its commits."""

import subprocess
import sys
from pathlib import Path

import alloc_es
from tests.faults.commands import commit, given, history
from tests.faults.processes import writer

_ROUNDS = 3
_COMMITS = 40


def test_a_log_is_whole_after_every_kill_in_mid_commit(durable_url: str) -> None:
    """Whoever was told "done" finds it done; at most the commit under way is there or not.

    Red when an adapter acknowledges before it commits, or when a half-made decision could
    be read.
    """
    with alloc_es.connect(durable_url) as early:
        given(early, commit)
    for _ in range(_ROUNDS):
        with alloc_es.connect(durable_url) as reader:
            before = len(history(reader))
        with writer(durable_url) as process:
            assert process.stdout is not None
            first = [process.stdout.readline().strip() for _ in range(_COMMITS)]
            process.kill()
            done = first + process.stdout.read().split()
        with alloc_es.connect(durable_url) as reader:
            events = history(reader)
        recorded = [event.command_id for event in events[before:]]
        assert recorded[: len(done)] == done
        assert len(recorded) - len(done) in (0, 1)
        assert [event.generation for event in events] == list(range(1, len(events) + 1))


def test_closing_a_store_under_threads_that_read_it_ends_no_process(sqlite_url: str) -> None:
    """Red when the pool closes connections in use: SQLite then reads freed memory."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.faults.closer", sqlite_url, "40"],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
