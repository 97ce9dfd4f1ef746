"""`alloc-es projections run`, and what interrupts it and a rebuild."""

import json
import re
import signal
import threading
from collections.abc import Callable
from typing import Any

import pytest

import alloc_es
from alloc_es import Follower, Projections
from alloc_es.cli import options, projecting
from alloc_es.rebuilding import Rebuilding
from alloc_es.worker import Worker
from tests.cli.readside import PATIENCE, brittle, install, runs, signalled
from tests.cli.terminal import Terminal
from tests.cli.test_streams import ESCAPES, on_a_terminal

ENDING = (signal.SIGINT, signal.SIGTERM)
SIGNALS = pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])


def standing(url: str, name: str) -> Callable[[], str]:
    """What says how a read model stands."""

    def ask() -> str:
        with alloc_es.connect(url, migrate=False) as allocations:
            (found,) = (s for s in allocations.projections(brittle()).status() if s.name == name)
        return found.standing

    return ask


def test_it_follows_until_sigterm_which_is_no_failure(terminal: Terminal) -> None:
    """Red when what comes while it runs is not applied, or its end is told as an error."""
    with terminal.started("projections", "run", "run_ledger") as process:
        assert process.stderr
        assert process.stdout
        assert "UTC: follows run_ledger" in process.stderr.readline()
        runs(terminal.store, 3)
        with alloc_es.connect(terminal.store) as allocations:
            allocations.projections().wait_for("run_ledger", timeout=PATIENCE)
        process.terminate()
        said = process.stderr.read()
        assert (process.wait(PATIENCE), process.stdout.read()) == (0, "")
    *_, reached, ended = said.splitlines()
    assert reached.endswith("UTC: run_ledger is live: runs 3 of 3")
    assert re.fullmatch(r"alloc-es: 2\d{3}-.* UTC: ended by SIGTERM, every batch .*", ended)


def test_ctrl_c_ends_it_with_130_and_says_what_was_done(sqlite: Terminal) -> None:
    """Red when Ctrl-C passes for SIGTERM, its threads live on, or `--poll-only` listens."""
    handlers = [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)]
    live = standing(sqlite.store, "run_ledger")
    busy: list[str] = []

    def is_live() -> bool:
        busy[:] = [each.name for each in threading.enumerate()]
        return live() == "live"

    with signalled(signal.SIGINT, is_live):
        done = sqlite.run("projections", "run", "run_ledger", "--poll-only", "--poll", "0.1")
    assert "alloc-es run_ledger" in busy
    assert "alloc-es hears" not in busy
    assert (done.returncode, done.stdout) == (130, "")
    *told, said = done.stderr.splitlines()
    assert told[0].endswith("UTC: follows run_ledger")
    assert told[-1].endswith("UTC: run_ledger is live: runs 0 of 0")
    assert said == (
        "alloc-es: interrupted: every batch under way was finished; run it again to go on"
    )
    assert [each.name for each in threading.enumerate() if "run_ledger" in each.name] == []
    assert [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)] == handlers


def test_what_a_follower_tells_is_told_with_its_time(
    sqlite: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Red when an operator does not hear that a projection stopped."""
    install(monkeypatch, brittle())
    sqlite.ok("projections", "run", "--catch-up", "brittle")
    sqlite.ok("start", "acme", "bad", "v1")
    told = threading.Event()
    halt = Worker.halt

    def halted(self: Worker, error: alloc_es.AllocationError) -> None:
        halt(self, error)
        told.set()

    monkeypatch.setattr(Worker, "halt", halted)
    with signalled(signal.SIGTERM, told.is_set):
        done = sqlite.run("projections", "run", "brittle", "--json")
    assert (done.returncode, done.stdout) == (0, "")
    notices = [json.loads(line) for line in done.stderr.splitlines()]
    assert all(set(each) == {"time", "notice"} for each in notices)
    stopped, reached = (each["notice"] for each in notices if "stopped" in each["notice"])
    assert "in front of position 5 of the decisions" in stopped
    assert reached == "brittle is stopped: decisions 4 of 5"


def test_it_ends_where_no_follower_is_left(
    sqlite: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Red when it goes on for ever with nothing to do, after a bug in each follower."""

    def fail(_: object) -> bool:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(Worker, "look", fail)
    done = sqlite.run("projections", "run", "run_ledger")
    assert done.returncode == 70
    assert "UTC: run_ledger: ended by ZeroDivisionError: a bug" in done.stderr
    assert done.stderr.splitlines()[-1] == "alloc-es: no follower is left, see above; run it again"


def ended_at_once(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Have what ends this process at once raise instead; with which codes it did."""
    codes: list[int] = []

    def leave(code: int) -> None:
        codes.append(code)
        raise SystemExit(code)

    monkeypatch.setattr("alloc_es.cli.output.os._exit", leave)
    return codes


def test_a_second_ctrl_c_does_not_wait_for_batches(
    sqlite: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Red when somebody who insists has to wait for a store that hangs."""
    codes = ended_at_once(monkeypatch)
    left: list[Follower] = []
    close = Follower.close

    def hang(self: Follower) -> None:
        left.append(self)
        signal.raise_signal(signal.SIGINT)
        close(self)

    monkeypatch.setattr(Follower, "close", hang)
    handlers = [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)]
    try:
        live = standing(sqlite.store, "run_ledger")
        with signalled(signal.SIGINT, lambda: live() == "live"):
            done = sqlite.run("projections", "run", "run_ledger")
    finally:
        for each, handler in zip((signal.SIGINT, signal.SIGTERM), handlers, strict=True):
            signal.signal(each, handler)
        for follower in left:
            close(follower)
    assert (codes, len(left)) == ([130], 1)
    assert "interrupted: the batches under way are undone" in done.stderr


def interrupted_in_step(
    monkeypatch: pytest.MonkeyPatch,
    number: int,
    times: int = 1,
    by: signal.Signals = signal.SIGINT,
) -> None:
    """Have a signal come while a rebuild applies a batch."""
    original, steps = Rebuilding.step, 0

    def step(self: Rebuilding, build: Any) -> Any:
        nonlocal steps
        steps += 1
        if steps == number:
            for _ in range(times):
                signal.raise_signal(by)
        return original(self, build)

    monkeypatch.setattr(Rebuilding, "step", step)


def test_an_interrupted_rebuild_says_how_far_it_is_and_goes_on(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Red when the batch under way is thrown away, or the next rebuild begins anew."""
    terminal.ok("projections", "run", "--catch-up")
    runs(terminal.store, 2_500)
    rebuild = ("projections", "rebuild", "run_ledger")
    with monkeypatch.context() as patch:
        interrupted_in_step(patch, 2)
        error = terminal.error(130, *rebuild)
    assert (error["name"], error["done"], error["goal"]) == ("run_ledger", 2_000, 2_500)
    assert error["message"] == (
        "interrupted: the rebuild of run_ledger is at 2,000 of 2,500 positions, and its readers "
        "have the old rows; the same command goes on from there"
    )
    assert terminal.json("projections", "verify", "run_ledger")["rows"] == 0
    assert terminal.json(*rebuild)["positions"] == 500
    assert terminal.json("projections", "verify", "run_ledger")["rows"] == 2_501


def test_sigterm_interrupts_a_rebuild_as_ctrl_c_does(
    sqlite: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Red when a service manager's signal undoes the batch under way, or leaves in silence."""
    interrupted_in_step(monkeypatch, 1, by=signal.SIGTERM)
    handlers = [signal.getsignal(each) for each in ENDING]
    error = sqlite.error(143, "projections", "rebuild", "current_split")
    assert (error["type"], error["done"], error["goal"]) == ("RebuildInterrupted", 4, 4)
    assert [signal.getsignal(each) for each in ENDING] == handlers


@SIGNALS
def test_an_interrupted_verify_says_that_nothing_was_changed(
    sqlite: Terminal, monkeypatch: pytest.MonkeyPatch, number: signal.Signals, code: int
) -> None:
    """Red when a signal leaves somebody in doubt what became of the read model."""

    def verify(_self: Projections, _name: str, **_: object) -> None:
        signal.raise_signal(number)

    monkeypatch.setattr(Projections, "verify", verify)
    assert sqlite.fails(code, "projections", "verify", "run_ledger") == (
        "alloc-es: interrupted: nothing was changed, and run_ledger is not verified; run it again\n"
    )


def test_it_waits_for_a_store_that_is_away_when_it_begins(
    sqlite: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Red when a service ends because it was started before its database."""
    original, tried = options.opened, 0

    def opened(store: str, **more: Any) -> alloc_es.Allocations:
        nonlocal tried
        tried += 1
        if tried < 3:
            raise alloc_es.StoreUnavailable("the server is down")
        return original(store, **more)

    monkeypatch.setattr(projecting, "opened", opened)
    live = standing(sqlite.store, "run_ledger")
    with signalled(signal.SIGTERM, lambda: live() == "live"):
        done = sqlite.run("projections", "run", "run_ledger")
    assert (done.returncode, tried) == (0, 3)
    waits, back, follows, *_ = done.stderr.splitlines()
    assert waits.endswith("UTC: read models: waits for the store: the server is down")
    assert back.endswith("UTC: read models: the store is back")
    assert follows.endswith("UTC: follows run_ledger")


@SIGNALS
def test_who_waits_for_a_store_is_ended_by_a_signal(
    sqlite: Terminal, monkeypatch: pytest.MonkeyPatch, number: signal.Signals, code: int
) -> None:
    """Red when nothing ends it before the store is back."""

    def opened(_store: str, **_: Any) -> None:
        signal.raise_signal(number)

    monkeypatch.setattr(projecting, "opened", opened)
    done = sqlite.run("projections", "run")
    assert done.returncode == (0 if number is signal.SIGTERM else code)
    assert "nothing was begun" in done.stderr


def test_a_rebuild_ends_at_once_for_somebody_who_insists(
    sqlite: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Red when the second Ctrl-C waits for the batch, or for the connection to be closed."""
    codes = ended_at_once(monkeypatch)
    handler = signal.getsignal(signal.SIGINT)
    try:
        interrupted_in_step(monkeypatch, 1, times=2)
        done = sqlite.run("projections", "rebuild", "decision_history")
    finally:
        signal.signal(signal.SIGINT, handler)
    assert codes == [130]
    assert "is at 0 of 4 positions; the batch under way is undone, and its readers" in done.stderr


@SIGNALS
def test_an_interrupted_catch_up_says_what_is_kept(
    sqlite: Terminal,
    monkeypatch: pytest.MonkeyPatch,
    number: signal.Signals,
    code: int,
) -> None:
    """Red when a signal leaves somebody in doubt whether to begin anew."""
    original = Projections.catch_up

    def catch_up(self: Projections, name: str) -> None:
        if name == "run_ledger":
            signal.raise_signal(number)
        original(self, name)

    monkeypatch.setattr(Projections, "catch_up", catch_up)
    handlers = [signal.getsignal(each) for each in ENDING]
    said = sqlite.fails(code, "projections", "run", "--catch-up")
    assert [signal.getsignal(each) for each in ENDING] == handlers
    assert said.endswith(": what was applied is kept; the same command goes on from there\n")
    standings = [each["standing"] for each in sqlite.json("projections", "status")]
    assert standings == ["live", "live", "live", "not built"]


def test_progress_is_for_terminals(sqlite: Terminal) -> None:
    """Red when a terminal shows nothing that moves, or a pipe gets what does."""
    runs(sqlite.store, 10)
    catch_up = ("projections", "run", "--catch-up", "run_ledger")
    seen = ESCAPES.sub("", on_a_terminal(sqlite, *catch_up, columns=100))
    assert re.search(r"run_ledger +not built +runs - of 10", seen)
    assert "run_ledger is live: runs 10 of 10\n" in seen
    rebuild = ("projections", "rebuild", "run_ledger")
    for columns in (100, 60):
        seen = ESCAPES.sub("", on_a_terminal(sqlite, *rebuild, columns=columns))
        assert re.search(r"rebuild run_ledger .* 10/10 .*\d:\d\d", seen)
        assert "/?" not in seen
        assert "run_ledger was rebuilt: 10 positions in " in seen
    sqlite.ok(*rebuild)


@pytest.mark.parametrize(
    "command",
    [
        ["run", "--catch-up", "--poll", "2"],
        ["run", "--catch-up", "--poll-only"],
        ["run", "--poll", "0"],
        ["run", "--poll", "often"],
        ["rebuild"],
        ["rebuild", "run_ledger", "--tenant", " acme"],
        ["purge", "run_ledger"],
        ["no-such-command"],
        ["--verbose", "status"],
    ],
)
def test_wrong_usage_is_2(sqlite: Terminal, command: list[str]) -> None:
    sqlite.fails(2, "projections", *command)
