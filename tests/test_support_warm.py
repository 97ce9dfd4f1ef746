"""A warm `alloc-es` is to whoever runs it what the one that starts by itself is."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support import warm

REAL = [sys.executable, "-m", "alloc_es.cli"]


def done(command: list[str], *arguments: str, **options: Any) -> tuple[int, bytes, bytes]:
    ended = subprocess.run([*command, *arguments], capture_output=True, check=False, **options)
    return ended.returncode, ended.stdout, ended.stderr


def test_it_says_and_ends_as_the_real_one_does(tmp_path: Path) -> None:
    """Red when it has another directory, environment, argument, stream or exit code."""
    options = {"cwd": tmp_path, "env": {**os.environ, "ALLOC_ES_STORE": "sqlite:///alloc.db"}}
    assert done(warm.command(), "start", "acme", "tri\u00e9", "v1", **options)[0] == 0
    assert (tmp_path / "alloc.db").exists()
    for arguments in (["show", "acme", "tri\u00e9", "--json"], ["show", "acme", "x"]):
        assert done(warm.command(), *arguments, **options) == done(REAL, *arguments, **options)


@pytest.mark.parametrize("closed", ["<&- >&-", "2>&-"])
def test_a_stream_that_is_closed_is_closed(closed: str) -> None:
    """Red when it is given another stream for one that it was not given."""
    script = f'"$@" no-such-command {closed}'
    both = [done(["bash", "-c", script, "bash"], *each) for each in (warm.command(), REAL)]
    assert both[0] == both[1]
    assert both[0][0] == 2


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 0)])
def test_a_signal_reaches_it(sqlite_url: str, number: int, code: int) -> None:
    """Red when the program in front keeps a signal to itself, or ends before its command."""
    alloc_es = [*warm.command(), "projections", "run", "--store", sqlite_url]
    assert done(warm.command(), "init", "--store", sqlite_url)[0] == 0
    with subprocess.Popen(alloc_es, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        process.stderr.readline()
        process.send_signal(number)
        assert process.wait() == code
