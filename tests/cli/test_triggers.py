"""`alloc-es triggers`: what it prints, and what counts as done."""

import errno
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

import alloc_es
from alloc_es import Allocations, Triggers
from tests.cli.readside import PATIENCE, reject, signalled
from tests.cli.terminal import Output, Terminal
from tests.cli.test_projections_run import ended_at_once


@pytest.fixture
def terminal(durable_url: str) -> Terminal:
    return with_triggers(durable_url)


@pytest.fixture
def sqlite(sqlite_url: str) -> Terminal:
    return with_triggers(sqlite_url)


def with_triggers(url: str) -> Terminal:
    """A store with two triggers."""
    terminal = Terminal(url)
    terminal.ok("start", "acme", "triage", "v1")
    reject(terminal, "v2", "v3")
    return terminal


def versions(text: str) -> list[str]:
    return [json.loads(line)["version"] for line in text.splitlines()]


def left(terminal: Terminal, consumer: str) -> list[str]:
    """What a consumer has not acknowledged; it is acknowledged by this."""
    return versions(terminal.ok("triggers", "--consumer", consumer, "--json"))


def test_every_trigger_is_listed_and_none_is_taken(terminal: Terminal) -> None:
    """Red when other decisions are listed, or to look is to take."""
    with alloc_es.connect(terminal.store, actor="operator") as allocations:
        workflow = allocations.workflow("acme", "triage")
        workflow.register_challenger("v4")
        workflow.reject_challenger("v4", replacement="v5")
        entries = list(allocations.decisions())
    first, second = terminal.ok("triggers").splitlines()
    assert first.startswith("3: acme/triage rejected v2 at generation 3 (live: none), by operator")
    assert first.endswith(" UTC: v2 is worse")
    assert second.startswith("5: acme/triage rejected v3 ")
    lines = terminal.ok("triggers", "--json").splitlines()
    assert json.loads(lines[0]) == {
        "tenant_id": "acme",
        "workflow_id": "triage",
        "version": "v2",
        "reason": "v2 is worse",
        "actor": "operator",
        "generation": 3,
        "position": entries[2].position,
        "remaining": [],
        "time": entries[2].time.isoformat(),
        "attempt": 0,
    }
    assert versions("\n".join(lines)) == ["v2", "v3"]
    assert left(terminal, "generate") == ["v2", "v3"]


def test_what_was_printed_does_not_come_again_to_its_consumer(terminal: Terminal) -> None:
    """Red when nothing is acknowledged, or for all consumers."""
    printed = terminal.ok("triggers", "--consumer", "one", "--json")
    assert [json.loads(line)["attempt"] for line in printed.splitlines()] == [1, 1]
    assert terminal.ok("triggers", "--consumer", "one") == "no trigger is left for one\n"
    assert terminal.ok("triggers", "--consumer", "one", "--json") == ""
    reject(terminal, "v4")
    assert left(terminal, "one") == ["v4"]
    assert left(terminal, "other") == ["v2", "v3", "v4"]


def test_nothing_is_taken_where_the_output_is_closed(sqlite: Terminal) -> None:
    """Red when a closed stream counts for one on which triggers were printed."""
    closed = ["bash", "-c", '"$@" >&-', "bash", sys.executable, "-m", "alloc_es.cli"]
    command = [*closed, "triggers", "--consumer", "one", "--store", sqlite.store]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (74, "")
    assert "no trigger was taken" in done.stderr
    assert left(sqlite, "one") == ["v2", "v3"]


def test_a_consumer_may_begin_now(sqlite: Terminal) -> None:
    """Red when `--begin` is not passed on, or moves a consumer that is known."""
    now = ("triggers", "--consumer", "late", "--begin", "now", "--json")
    assert sqlite.ok(*now) == ""
    reject(sqlite, "v4")
    assert versions(sqlite.ok(*now)) == ["v4"]
    assert sqlite.ok("triggers", "--begin", "now") == "there is no trigger yet\n"


def at_line(
    monkeypatch: pytest.MonkeyPatch, number: int, act: Callable[[], None]
) -> Callable[[], int]:
    """Have something happen before a line is printed; how many were."""
    original, writes = Output.write, 0

    def write(self: Output, text: str) -> int:
        nonlocal writes
        writes += 1
        if writes == number:
            act()
        return original(self, text)

    monkeypatch.setattr(Output, "write", write)
    return lambda: writes


def test_what_nobody_could_read_comes_again(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Red when a trigger is acknowledged before it is printed."""

    def leave() -> None:
        raise BrokenPipeError(errno.EPIPE, "Broken pipe")

    with monkeypatch.context() as patch:
        patch.setattr("alloc_es.cli.close_output", lambda: None)
        at_line(patch, 2, leave)
        done = terminal.run("triggers", "--consumer", "one", "--json")
    assert (done.returncode, done.stderr, versions(done.stdout)) == (141, "", ["v2"])
    again = terminal.ok("triggers", "--consumer", "one", "--json")
    assert versions(again) == ["v3"]


def test_what_ctrl_c_meets_is_printed_and_acknowledged(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Red when a trigger is printed and comes again, or the next ones are not given back."""
    with monkeypatch.context() as patch:
        at_line(patch, 1, lambda: signal.raise_signal(signal.SIGINT))
        done = terminal.run("triggers", "--consumer", "one", "--json", "--follow")
    assert (done.returncode, versions(done.stdout)) == (130, ["v2"])
    error = json.loads(done.stderr)["error"]
    assert error["type"] == "Interrupted"
    assert error["message"] == (
        "interrupted: 1 triggers were printed and acknowledged, the next ones stay for the "
        "workers of one"
    )
    assert left(terminal, "one") == ["v3"]


def test_who_insists_does_not_wait_for_the_store(
    sqlite: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Red when the second Ctrl-C waits until all is given back."""
    codes = ended_at_once(monkeypatch)
    handlers = [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)]

    def insist() -> None:
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)

    try:
        at_line(monkeypatch, 1, insist)
        done = sqlite.run("triggers", "--json")
    finally:
        for each, handler in zip((signal.SIGINT, signal.SIGTERM), handlers, strict=True):
            signal.signal(each, handler)
    assert (codes, done.stdout) == ([130], "")
    assert "interrupted: 0 triggers were printed" in done.stderr


def test_new_ones_are_waited_for_until_sigterm(terminal: Terminal) -> None:
    """Red when `--follow` ends with the log, or what is printed waits in a buffer."""
    consumer = ("--consumer", "one")
    with terminal.started("triggers", "--follow", "--json", *consumer) as process:
        assert process.stdout
        assert process.stderr
        seen = [process.stdout.readline() for _ in range(2)]
        reject(terminal, "v4")
        seen.append(process.stdout.readline())
        process.terminate()
        assert process.wait(PATIENCE) == 0
        assert (process.stdout.read(), process.stderr.read()) == ("", "")
    assert versions("".join(seen)) == ["v2", "v3", "v4"]


def test_a_list_that_follows_prints_new_ones(
    sqlite: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Red when a list that follows ends with the log."""
    waits = 0

    def wait(_: float) -> None:
        nonlocal waits
        waits += 1
        if waits == 1:
            reject(sqlite, "v4")

    with monkeypatch.context() as patch:
        patch.setattr("alloc_es.cli.triggering.time", SimpleNamespace(sleep=wait))
        printed = at_line(patch, 1, lambda: None)
        with signalled(signal.SIGTERM, lambda: printed() == 3):
            done = sqlite.run("triggers", "--follow", "--json")
    assert (done.returncode, versions(done.stdout)) == (0, ["v2", "v3", "v4"])


def test_a_pipe_without_a_reader_takes_no_trigger(sqlite: Terminal) -> None:
    """Red when a real pipe that nobody reads any more counts as printed."""
    ours, theirs = os.pipe()
    os.close(ours)
    with os.fdopen(theirs, "wb") as closed:
        done = subprocess.run(
            [sys.executable, "-m", "alloc_es.cli", "triggers", "--consumer", "one"],
            env={**os.environ, "ALLOC_ES_STORE": sqlite.store, "PYTHONUNBUFFERED": ""},
            stdout=closed,
            stderr=subprocess.PIPE,
            check=False,
        )
    assert (done.returncode, done.stderr) == (141, b"")
    assert sorted(left(sqlite, "one")) == ["v2", "v3"]


def away_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the store go away while the triggers are listed for the first time."""
    original, calls = Allocations.decisions, 0

    def decisions(self: Allocations, *, after: int = 0) -> Iterator[Any]:
        nonlocal calls
        calls += 1
        yield next(original(self, after=after))
        if calls == 1:
            raise alloc_es.StoreUnavailable("it went away")
        yield from list(original(self, after=after))[1:]

    monkeypatch.setattr(Allocations, "decisions", decisions)


def test_a_list_that_follows_outlives_a_store_that_is_away(
    sqlite: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Red when it ends, falls silent, or prints a trigger twice."""
    with monkeypatch.context() as patch:
        away_once(patch)
        printed = at_line(patch, 1, lambda: None)
        with signalled(signal.SIGTERM, lambda: printed() == 2):
            done = sqlite.run("triggers", "--follow", "--json")
    assert (done.returncode, versions(done.stdout)) == (0, ["v2", "v3"])
    away, back = (json.loads(line)["notice"] for line in done.stderr.splitlines())
    assert away.startswith("triggers: waits for the store: ")
    assert back == "triggers: the store is back"
    with monkeypatch.context() as patch:
        away_once(patch)
        lost = sqlite.run("triggers")
    assert (lost.returncode, lost.stdout) == (4, "")


def test_a_trigger_that_another_worker_got_is_3(
    sqlite: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Red when a worker that was taken for dead goes on as if nothing was."""

    def lose(_: object, trigger: alloc_es.Trigger) -> None:
        raise alloc_es.TriggerLost("one", trigger.position)

    monkeypatch.setattr(Triggers, "acknowledge", lose)
    done = sqlite.run("triggers", "--consumer", "one", "--json")
    assert (done.returncode, versions(done.stdout)) == (3, ["v2"])
    assert json.loads(done.stderr)["error"]["position"] == 3


@pytest.mark.parametrize(
    "command",
    [
        ["--lease", "3"],
        ["--consumer", "one", "--lease", "0"],
        ["--consumer", " one"],
        ["--begin", "later"],
        ["acme"],
    ],
)
def test_wrong_usage_is_2(sqlite: Terminal, command: list[str]) -> None:
    sqlite.fails(2, "triggers", *command)
