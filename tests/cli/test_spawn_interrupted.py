"""Ctrl-C while `spawn --from` is under way."""

import json
import os
import signal
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import psycopg
import pytest

from alloc_es import Allocations
from alloc_es.cli.interrupts import Interrupts
from tests.cli.conftest import started
from tests.cli.terminal import Terminal
from tests.cli.test_spawn_from import (
    csv_of,
    goes_on,
    spawned,
    stored,
    told,
)
from tests.docs.test_blocks import schema_of, server_of

UP_TO_1000 = "the rows up to line 1001 are settled"


def in_call(monkeypatch: pytest.MonkeyPatch, number: int, act: Callable[[], None]) -> None:
    """Have something happen while the store has the answer to a chunk, but has not given it."""
    calls = 0
    original = Allocations.spawn_runs

    def spawn_runs(self: Allocations, requests: Sequence[Any]) -> Any:
        nonlocal calls
        calls += 1
        answers = original(self, requests)
        if calls == number:
            act()
        return answers

    monkeypatch.setattr(Allocations, "spawn_runs", spawn_runs)


def hearing(monkeypatch: pytest.MonkeyPatch, times: int = 1) -> Callable[[], None]:
    """What sends Ctrl-C one after the other, and returns when all were heard."""
    heard = threading.Semaphore(0)
    original = Interrupts._hear

    def hear(self: Interrupts, *arguments: Any) -> None:
        heard.release()
        original(self, *arguments)

    def interrupt() -> None:
        main = threading.main_thread().ident
        assert main is not None
        for _ in range(times):
            signal.pthread_kill(main, signal.SIGINT)
            assert heard.acquire(timeout=30)

    monkeypatch.setattr(Interrupts, "_hear", hear)
    return interrupt


def test_ctrl_c_lets_the_chunk_under_way_be_told(
    terminal: Terminal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Red when what was recorded is not told, or the command goes on as if nothing was."""
    path = csv_of(tmp_path / "runs.csv", 3_500)
    with monkeypatch.context() as patch:
        in_call(patch, 2, hearing(patch))
        done = terminal.run("spawn", "acme", "triage", "--from", path)
    assert (done.returncode, len(told(done))) == (130, 2_000)
    summary, said = done.stderr.splitlines()
    assert summary.startswith("alloc-es: 2,000 recorded, ")
    assert said == (
        "alloc-es: interrupted: the rows up to line 2001 are settled, the next ones are not; "
        "run the command again to settle them"
    )
    assert len(stored(terminal)) == 2_000
    goes_on(terminal, path, done, 3_500)


def test_ctrl_c_is_not_kept_until_more_rows_come(
    sqlite: Terminal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Red when it waits for a read to end, or forgets the chunk that is under way."""
    path = csv_of(tmp_path / "runs.csv", 1_500)
    read, reads = os.read, 0

    def interrupted(descriptor: int, size: int) -> bytes:
        nonlocal reads
        if size < 100_000:
            return read(descriptor, size)
        reads += 1
        if reads == 2:
            signal.raise_signal(signal.SIGINT)
            raise AssertionError("a read that Ctrl-C did not end would go on for ever")
        return read(descriptor, size)

    with monkeypatch.context() as patch:
        patch.setattr("alloc_es.cli.lines.os.read", interrupted)
        done = sqlite.run("spawn", "acme", "triage", "--from", path)
    assert (done.returncode, len(told(done)), reads) == (130, 1_000, 2)
    goes_on(sqlite, path, done, 1_500)


def test_a_second_ctrl_c_does_not_wait_for_the_store(postgres_url: str) -> None:
    """Red when somebody who insists has to wait for a store that hangs."""
    terminal = started(postgres_url)
    server = server_of(postgres_url)
    with psycopg.connect(server) as blocker, psycopg.connect(server, autocommit=True) as onlooker:
        blocker.execute(f"LOCK TABLE {schema_of(postgres_url)}.run_events IN SHARE MODE")
        with terminal.started("spawn", "acme", "triage", "--from", "-", "--json") as process:
            assert process.stdin
            process.stdin.write("run_id\nrun-1\n")
            process.stdin.flush()
            while not blocks(onlooker, blocker.info.backend_pid):
                assert process.poll() is None
            while process.poll() is None:
                process.send_signal(signal.SIGINT)
            assert blocks(onlooker, blocker.info.backend_pid)
            assert process.stderr
            _, said = process.stderr.read().splitlines()
        assert process.returncode == 130
    error = json.loads(said)["error"]
    assert (error["type"], error["settled"], error["exit_code"]) == ("Stopped", 0, 130)
    assert "interrupted: no row is settled, nothing is known of the next ones" in error["message"]


def test_who_insists_hears_no_word_of_the_next_ctrl_c() -> None:
    """Red when SIGINT is ignored, which Python tells of on stderr for one that just came.

    That moment can't be forced, so what is looked at is that a handler takes it.
    """
    interrupts = Interrupts()
    before = signal.getsignal(signal.SIGINT)
    try:
        with interrupts.kept():
            signal.raise_signal(signal.SIGINT)
            with pytest.raises(KeyboardInterrupt):
                signal.raise_signal(signal.SIGINT)
            assert interrupts.insisting
            signal.raise_signal(signal.SIGINT)
        assert callable(signal.getsignal(signal.SIGINT))
    finally:
        signal.signal(signal.SIGINT, before)


def blocks(onlooker: psycopg.Connection[Any], pid: int) -> bool:
    """Whether another connection waits for a lock that a server process holds."""
    waiting = "SELECT count(*) FROM pg_stat_activity WHERE %s = ANY (pg_blocking_pids(pid))"
    row = onlooker.execute(waiting, [pid]).fetchone()
    return row is not None and row[0] > 0


def test_ctrl_c_ends_a_wait_for_input_at_once(sqlite: Terminal) -> None:
    """Red when Ctrl-C at rest is a traceback, or does not say what is settled."""
    with sqlite.started("spawn", "acme", "triage", "--from", "-") as process:
        assert process.stdin
        assert process.stdout
        process.stdin.write("run_id\nrun-1\n")
        process.stdin.flush()
        assert json.loads(process.stdout.readline())["line"] == 2
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=60) == 130
        assert process.stderr
        said = process.stderr.read()
    assert "alloc-es: 1 recorded" in said
    assert "interrupted: the rows up to line 2 are settled, the next ones are not" in said


def test_ctrl_c_does_what_it_did_when_the_command_has_ended(
    sqlite: Terminal, tmp_path: Path
) -> None:
    """Red when the handler stays behind."""
    before = signal.getsignal(signal.SIGINT)
    spawned(sqlite, csv_of(tmp_path / "runs.csv", 1))
    assert signal.getsignal(signal.SIGINT) is before
