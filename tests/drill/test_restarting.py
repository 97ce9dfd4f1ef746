"""The command that restarts a server: whether it did, and what is said where it did not."""

import os
import signal
import sys
from contextlib import suppress
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from queue import Queue

import pytest

from alloc_es import StoreUnavailable
from alloc_es.clock import Patience
from alloc_es.drill.errors import RestartFailed
from alloc_es.drill.restarting import await_service, run_command, run_restart, told_if_long

_LOOK = "import os, sys; sys.exit(7 if os.getpgrp() != int(sys.argv[1]) else 0)"
EARLIER = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


def test_a_command_that_fails_is_told_with_what_it_said() -> None:
    """Red when its exit code is passed over, or its words are lost."""
    with pytest.raises(RestartFailed) as failure:
        run_command("echo 'no such'; echo '  server' >&2; exit 3")
    assert failure.value.problem == "exit code 3: no such server"
    assert failure.value.command.startswith("echo")
    assert "see to the server" in str(failure.value)


def test_a_command_that_takes_too_long_is_ended() -> None:
    """Red when a drill waits for it for ever."""
    with pytest.raises(RestartFailed, match=r"not done in 0\.1 s"):
        run_command("sleep 600", timeout=0.1)


def test_a_server_that_the_command_started_may_hold_its_output(tmp_path: Path) -> None:
    """Red when the command counts as running for as long as somebody has its stdout."""
    pid = tmp_path / "pid"
    try:
        run_command(f"sleep 600 & echo $! > {pid}", timeout=60)
    finally:
        with suppress(ProcessLookupError):
            os.kill(int(pid.read_text()), signal.SIGKILL)


def test_a_command_hears_no_ctrl_c() -> None:
    """Red when the terminal's Ctrl-C ends a restart in the middle: it goes to the whole group."""
    with pytest.raises(RestartFailed) as failure:
        run_command(f'"{sys.executable}" -c "{_LOOK}" {os.getpgrp()}')
    assert failure.value.problem == "exit code 7"


def test_a_server_that_runs_since_the_same_moment_was_not_restarted() -> None:
    """Red when a command that does nothing counts as a restart."""
    with (
        pytest.raises(RestartFailed, match=r"was not restarted \(running since 2026-03-01"),
        run_restart("true", lambda: EARLIER),
    ):
        pass


def test_a_server_that_is_another_one_afterwards_was_restarted(tmp_path: Path) -> None:
    """Red when the moment is looked at once, or before the command alone."""
    done = tmp_path / "done"
    inside = False
    with run_restart(f"touch {done}", lambda: datetime.now(UTC) if done.exists() else EARLIER):
        inside = done.exists()
    assert inside


def test_a_server_that_is_gone_afterwards_was_not_restarted() -> None:
    """Red when the driver's error, or that of the store, ends the drill instead."""
    moments = iter([EARLIER])

    def started_at() -> datetime:
        for moment in moments:
            return moment
        raise StoreUnavailable("connection refused")

    with (
        pytest.raises(RestartFailed, match="connection refused"),
        run_restart("true", started_at),
    ):
        pass


def test_a_server_that_comes_back_late_is_waited_for() -> None:
    """Red when the first client that is not served ends the drill."""
    served = iter([False, False, True])
    waits: list[float] = []
    await_service("true", lambda: next(served), Patience(120, waits.append, lambda: 0.0))
    assert len(waits) == 2


def test_a_server_that_stays_away_is_not_waited_for_for_ever() -> None:
    """Red when a drill has no end, or does not say what it has waited for."""
    moments, looks = count(0, 50), list[bool]()

    def is_served() -> bool:
        looks.append(False)
        return False

    patience = Patience(120, lambda _: None, lambda: float(next(moments)))
    with pytest.raises(RestartFailed, match="nobody was served for 120 s"):
        await_service("true", is_served, patience)
    assert 1 < len(looks) < 5


def test_a_long_wait_is_told_once_and_a_short_one_is_not() -> None:
    """Red when a terminal stands still for minutes without a word, or each restart is told."""
    told = Queue[str]()
    with told_if_long("restart-it", told.put, silent_for=600):
        pass
    with told_if_long("restart-it", told.put, silent_for=0):
        sentence = told.get(timeout=60)
    assert "waits for `restart-it` to end" in sentence
    assert "120 s at most" in sentence
    assert told.empty()
