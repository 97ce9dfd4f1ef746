"""A program that never closes its connection ends as any other, and what it was told holds."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from alloc_es import Allocations
from tests.groups import program
from tests.groups.gate import blocked

_ROOT = Path(__file__).parents[2]


@contextmanager
def running(url: str, way: str, timeout: float = 3_600) -> Iterator["subprocess.Popen[str]"]:
    """The program, killed at the end of the block if it still runs.

    The connection's timeout is an hour, so that what waits for it at the end is seen to hang.
    """
    process = subprocess.Popen(
        [sys.executable, "-m", program.__name__, url, way, str(timeout)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=_ROOT,
    )
    with process:
        try:
            yield process
        finally:
            process.kill()


def assert_all_recorded(told: list[str], durable: Allocations) -> None:
    """Every run that the program was told of is in the log, once."""
    recorded = [each.event.run_id for each in durable.runs()]
    assert len(set(recorded)) == len(recorded)
    assert told
    assert set(told) <= set(recorded)


@pytest.mark.parametrize(
    ("way", "code"),
    [("threads", 0), ("daemons", 0), ("tasks", 0), ("abandoned", 0), ("leave", 3)],
)
def test_a_program_that_ends_without_a_close_loses_no_run_that_it_was_told_of(
    way: str, code: int, durable: Allocations, durable_url: str
) -> None:
    """Red when the end of the program waits for the writer's thread, or drops what it has taken."""
    with running(durable_url, way) as process:
        told, said = process.communicate(timeout=30)
    assert (process.returncode, said) == (code, "")
    assert_all_recorded(told.split(), durable)
    if way in ("threads", "tasks"):
        assert len(told.split()) == 200


def test_a_program_ends_though_the_store_is_blocked(durable: Allocations, durable_url: str) -> None:
    """Red when the end of the program waits until all callers have their answers."""
    with blocked(durable_url, durable), running(durable_url, "stuck", 0.5) as process:
        told, said = process.communicate(timeout=30)
    assert (process.returncode, said) == (0, "")
    assert told == "asked\n"


def test_a_program_that_ends_by_an_error_shows_that_error_only(
    durable: Allocations, durable_url: str
) -> None:
    """Red when the end of the writer hides why the program ended."""
    with running(durable_url, "fail") as process:
        told, said = process.communicate(timeout=30)
    assert process.returncode == 1
    assert said.count("Traceback") == 1
    assert said.endswith("LookupError: the program's own mistake\n")
    assert_all_recorded(told.split(), durable)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_what_a_program_was_told_before_it_was_killed_is_recorded(
    number: signal.Signals, durable: Allocations, durable_url: str
) -> None:
    """Red when callers are answered before the commit."""
    with running(durable_url, "endless") as process:
        assert process.stdout is not None
        told = [process.stdout.readline() for _ in range(300)]
        process.send_signal(number)
        rest, said = process.communicate(timeout=30)
    assert (process.returncode, said) == (-number, "")
    # The last line may have been cut off by the signal.
    whole = ("".join(told) + rest).rpartition("\n")[0]
    assert_all_recorded(whole.split(), durable)


def test_a_child_of_a_fork_in_mid_group_is_refused_and_ends_and_the_parent_goes_on(
    durable: Allocations, durable_url: str
) -> None:
    """Red when the child's end waits for a thread, or closes a store, that is its parent's."""
    with running(durable_url, "fork") as process:
        told, said = process.communicate(timeout=30)
    assert (process.returncode, said) == (0, "")
    lines = told.splitlines()
    (refused,) = [line for line in lines if line.startswith("refused: ")]
    assert "before a fork; call connect() in process" in refused
    assert lines.count("child: 4") == 1
    assert "behind the child" in lines
    runs = [line for line in lines if line.startswith("thread-") or line == "behind the child"]
    assert_all_recorded(runs, durable)
    assert durable.workflow("acme", "triage").find_run("of the child") is None
