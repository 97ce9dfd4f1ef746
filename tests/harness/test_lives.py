"""A launcher owns every life: it ends what it started, says why, and leaves none behind."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest

from alloc_es import SpawnRequest, StoreUnavailable, connect
from alloc_es.harness import (
    AlreadyStarted,
    CannotKill,
    Decide,
    Done,
    HarnessError,
    Launcher,
    NotCarriedOut,
    Participant,
    ParticipantEnded,
    ParticipantNotStarted,
    Pass,
    Refused,
    Resolved,
    Spawn,
    Unknown,
    UnknownParticipant,
)
from alloc_es.harness import launcher as launching
from alloc_es.harness.runners import ProcessRunner
from alloc_es.proposals import Reshare
from tests.harness.openers import Gate, Switch
from tests.harness.policies import fork
from tests.harness.scripted import KEY, READ, SECONDS
from tests.support.raw import until

ROOT = Path(__file__).parents[2]
RESHARE = Decide(KEY, Reshare({"v2": 1_111}))


@pytest.fixture
def url(sqlite_url: str) -> str:
    """A store with a workflow that has a challenger."""
    with connect(sqlite_url) as allocations:
        workflow = allocations.workflow(*KEY)
        workflow.start("v1")
        workflow.register_challenger("v2")
    return sqlite_url


def is_gone(pid: int) -> bool:
    """Whether a process of ours was reaped."""
    try:
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return True
    return False


def runs(pid: int) -> bool:
    """Whether a process that need not be ours does anything any more, or could."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in "ZX"


def pid_of(participant: Participant) -> int:
    assert participant.pid is not None
    return participant.pid


def test_a_killed_process_says_so_is_reaped_and_goes_on_as_a_new_incarnation(url: str) -> None:
    """Red when a kill leaves a zombie or threads taken, or a restart the old incarnation."""
    with Launcher(url, threads=1) as launcher:
        first = launcher.start("s1", "scheduler", ["acme"])
        first.set_trap("before append", "stop")
        lost = first.send(RESHARE, request_id="lost")
        os.waitid(os.P_PID, pid_of(first), os.WSTOPPED | os.WNOWAIT)
        first.kill("it was in the way")
        assert is_gone(pid_of(first))
        assert (first.ended, launcher.budget.given) == ("it was in the way", {})
        health = first.health(SECONDS)
        assert (health.state, health.exit_code, health.peak_rss) == ("ended", -9, None)
        assert (health.rerouted, health.under_way) == (None, 0)
        with pytest.raises(ParticipantEnded) as refused:
            launcher.call("s1", READ)
        assert (refused.value.incarnation, refused.value.reason) == (1, "it was in the way")
        assert isinstance(first.settle(lost), Unknown)
        second = launcher.restart("s1", "go on")
        assert (second.incarnation.number, pid_of(second) != pid_of(first)) == (2, True)
        never = first.settle(lost)
        assert isinstance(never, Resolved)
        assert isinstance(never.outcome, Refused)
        assert isinstance(never.outcome.error, NotCarriedOut)
        assert first.ended == "it was in the way"
        second.set_trap("after append", "kill")
        committed = second.call(RESHARE, request_id="committed", probe_after=SECONDS)
        assert isinstance(committed, Resolved)
        assert (committed.by, isinstance(committed.outcome, Done)) == ("log", True)
        assert second.ended == "it died with exit code -9"
        assert is_gone(pid_of(second))
        assert launcher.budget.given == {}


def test_runs_of_a_spawner_that_died_behind_its_commit_are_found_in_the_log(url: str) -> None:
    """Red when a spawner that dies before it answers loses runs, or has them told as lost."""
    runs = tuple(SpawnRequest(*KEY, f"run-{number}") for number in range(3))
    with Launcher(url, threads=1) as launcher:
        spawner = launcher.start("p1", "spawner", ["acme"])
        spawner.set_trap("after record", "kill")
        outcome = spawner.call(Spawn(runs), probe_after=SECONDS)
        assert isinstance(outcome, Resolved)
        assert isinstance(outcome.outcome, Done)
        assert [run.run_id for run in outcome.outcome.answer] == [run.run_id for run in runs]
        assert spawner.ended == "it died with exit code -9"


def test_what_a_policy_forked_is_no_obstacle_and_does_not_stay(url: str) -> None:
    """Red when the death of a participant is hidden by its child, or the child outlives it."""
    with Launcher(url, threads=1) as launcher:
        scheduler = launcher.start("s1", "scheduler", ["acme"])
        group = pid_of(scheduler)
        with ended_at_last(group):
            outcome = scheduler.call(Pass((KEY,), fork), probe_after=SECONDS)
            assert isinstance(outcome, Unknown)
            assert scheduler.ended == "it died with exit code 5"
            until(lambda: not members(group), "nobody is left of the group")


@contextmanager
def ended_at_last(*groups: int) -> Iterator[None]:
    """Leave nobody of these groups behind, also where a test fails."""
    try:
        yield
    finally:
        for group in groups:
            with suppress(ProcessLookupError):
                os.killpg(group, signal.SIGKILL)


def members(group: int) -> list[int]:
    """The processes of a group that could still do something."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            pid, rest = stat.parent.name, stat.read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(rest[2]) == group and rest[0] not in "ZX":
            found.append(int(pid))
    return found


def test_closing_ends_everybody_also_who_is_stopped_and_is_allowed_twice(url: str) -> None:
    """Red when a stopped process outlives its launcher, or each is waited for in turn."""
    launcher = Launcher(url, threads=3)
    paused = launcher.start("s1", "scheduler", ["acme"])
    thread = launcher.start("s2", "scheduler", ["acme"], mode="thread")
    task = launcher.start("s3", "scheduler", ["acme"], mode="in_process")
    paused.pause()
    launcher.close(within=0.2)
    launcher.close()
    assert is_gone(pid_of(paused))
    assert {each.ended for each in (paused, thread, task)} == {"the launcher was closed"}
    assert thread.stop("again", within=SECONDS)
    assert task.stop("again", within=SECONDS)
    with pytest.raises(ParticipantEnded, match="the launcher was closed"):
        thread.send(READ)
    with pytest.raises(StoreUnavailable, match="was closed"):
        launcher.start("s4", "scheduler", ["acme"], mode="thread")


def test_an_error_in_the_block_ends_everybody_too(url: str) -> None:
    """Red when only a block that ends well closes its launcher."""
    participants: list[Participant] = []

    def fail() -> None:
        with Launcher(url, threads=1) as launcher:
            participants.append(launcher.start("s1", "observer", ["acme"], mode="thread"))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    (participant,) = participants
    assert participant.ended == "the launcher was closed"
    assert participant.stop("again", within=SECONDS)


_LONELY = """
import sys, signal
from alloc_es.harness import Launcher
launcher = Launcher(sys.argv[1], threads=2)
running = launcher.start("s1", "scheduler", ["acme"])
stopped = launcher.start("s2", "scheduler", ["acme"])
stopped.pause()
print(running.pid, stopped.pid, launcher._watchdog._process.pid, flush=True)
signal.pause()
"""


def test_a_launcher_that_is_killed_leaves_none_behind(url: str) -> None:
    """Red when a participant that was stopped, and can't see its pipe end, is left."""
    with subprocess.Popen(
        [sys.executable, "-c", _LONELY, url], stdout=subprocess.PIPE, text=True, cwd=ROOT
    ) as lonely:
        assert lonely.stdout
        pids = [int(pid) for pid in lonely.stdout.readline().split()]
        # A Ctrl-C in its terminal is for the launcher only, and so for no group of theirs.
        groups = {os.getpgid(pid) for pid in pids}
        alive = [runs(pid) for pid in pids]
        lonely.kill()
        lonely.wait()
        with ended_at_last(*pids):
            assert groups == set(pids)
            assert alive == [True] * 3
            until(lambda: not any(runs(pid) for pid in pids), "all have ended")


@pytest.fixture
def opening() -> Iterator[Gate]:
    """A gate in front of every store that this process's participants open."""
    Switch.opening = Gate()
    yield Switch.opening
    Switch.opening.open.set()


@pytest.mark.parametrize(
    ("opener", "within", "says"),
    [
        ("tests.harness.openers:suicide", SECONDS, "it died with exit code 7"),
        ("tests.harness.openers:slow_to_open", 0.2, "it was not ready in 0.2 s"),
    ],
)
def test_a_process_that_does_not_come_up_leaves_nothing_and_says_why(
    url: str, opener: str, within: float, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Red when a start that failed leaves a process, its name or its threads."""
    started = note_processes(monkeypatch)
    with Launcher(url, threads=1, opener=opener, start_within=within) as launcher:
        with pytest.raises(ParticipantNotStarted) as refused:
            launcher.start("s1", "scheduler", ["acme"])
        assert refused.value.problem == says
        assert (refused.value.name, refused.value.incarnation) == ("s1", 1)
        assert [is_gone(pid) for pid in started] == [True]
        assert launcher.budget.given == {}
        with pytest.raises(UnknownParticipant):
            launcher.participant("s1")


def note_processes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The numbers of the processes that are started from now on."""
    started: list[int] = []

    def noted(*arguments: Any) -> ProcessRunner:
        runner = ProcessRunner(*arguments)
        started.append(runner.pid or 0)
        return runner

    monkeypatch.setattr(launching, "ProcessRunner", noted)
    return started


def test_without_an_interpreter_nothing_is_started(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Red when the system's error comes out, or the name stays taken."""
    monkeypatch.setattr(sys, "executable", str(ROOT / "no interpreter"))
    with Launcher(url, threads=1) as launcher:
        for _ in range(2):
            with pytest.raises(ParticipantNotStarted, match="no room for it"):
                launcher.start("s1", "scheduler", ["acme"])
        assert launcher.budget.given == {}


@pytest.mark.parametrize("mode", ["thread", "in_process"])
def test_one_that_is_slow_to_come_up_is_waited_for_no_longer_than_that(
    url: str, mode: str, opening: Gate
) -> None:
    """Red when a store that does not open holds up its launcher, or comes up later after all."""
    opener = "tests.harness.openers:slow_to_open"
    with Launcher(url, threads=1, opener=opener, start_within=0.05) as launcher:
        with pytest.raises(ParticipantNotStarted, match=r"it was not ready in 0.05 s"):
            launcher.start("s1", "scheduler", ["acme"], mode=mode)  # type: ignore[arg-type]
        assert opening.reached.wait(SECONDS)
        opening.open.set()
        assert launcher.budget.given == {}
        assert dict(launcher.participants) == {}


def test_a_start_that_is_interrupted_leaves_nothing(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Red when a Ctrl-C while it comes up leaves a participant that nobody knows."""
    waited: list[Participant] = []

    def interrupted(participant: Participant, _: float) -> None:
        waited.append(participant)
        raise KeyboardInterrupt

    monkeypatch.setattr(Participant, "await_up", interrupted)
    with Launcher(url, threads=1) as launcher:
        with pytest.raises(KeyboardInterrupt):
            launcher.start("s1", "scheduler", ["acme"])
        (participant,) = waited
        assert is_gone(pid_of(participant))
        assert launcher.budget.given == {}


def test_of_concurrent_starts_of_a_name_one_wins(url: str, opening: Gate) -> None:
    """Red when two participants of one launcher have a name, or the loser waits."""
    opener = "tests.harness.openers:slow_to_open"
    with Launcher(url, threads=8, opener=opener) as launcher:
        outcomes = together(
            lambda: launcher.start("s1", "scheduler", ["acme"], mode="thread"), 4, opening
        )
        (winner,) = [each for each in outcomes if isinstance(each, Participant)]
        lost = [each for each in outcomes if isinstance(each, AlreadyStarted)]
        assert [(each.name, each.incarnation) for each in lost] == [("s1", None)] * 3
        with pytest.raises(AlreadyStarted) as refused:
            launcher.start("s1", "observer", ["acme"], mode="thread")
        assert refused.value.incarnation == winner.incarnation.number == 1
        assert launcher.budget.given == {"s1": 1}
        Switch.opening = again = Gate()
        outcomes = together(lambda: launcher.restart("s1", "a test"), 4, again)
        assert sum(isinstance(each, Participant) for each in outcomes) == 1
        assert launcher.participant("s1").incarnation.number == 2


def together(
    start: Callable[[], Participant], times: int, gate: Gate
) -> list[Participant | HarnessError]:
    """What comes of calls at the same time; the gate opens when all others have failed."""
    barrier = Barrier(times, timeout=SECONDS)

    def call() -> Participant | HarnessError:
        barrier.wait()
        try:
            return start()
        except HarnessError as error:
            return error

    with ThreadPoolExecutor(times) as pool:
        calls = [pool.submit(call) for _ in range(times)]
        # All but the one that is held up.
        list(islice(as_completed(calls, timeout=SECONDS), times - 1))
        gate.open.set()
        return [call.result() for call in calls]


def test_a_start_that_closing_overtakes_is_ended(url: str, opening: Gate) -> None:
    """Red when what comes up while its launcher is closed is left behind."""
    opener = "tests.harness.openers:slow_to_open"
    launcher = Launcher(url, threads=1, opener=opener)
    with ThreadPoolExecutor(1) as pool:
        starting = pool.submit(launcher.start, "s1", "scheduler", ["acme"], mode="thread")
        assert opening.reached.wait(SECONDS)
        launcher.close(within=0.01)
        with pytest.raises(ParticipantNotStarted) as refused:
            starting.result()
        assert refused.value.problem == "the launcher was closed"


def test_a_thread_or_a_task_cannot_be_killed_and_has_no_figures_of_its_own(url: str) -> None:
    """Red when what only a process has is invented for others, or fails without a name."""
    with Launcher(url, threads=2) as launcher:
        for mode in ("thread", "in_process"):
            one = launcher.start(mode, "scheduler", ["acme"], mode=mode)
            for attempt in (
                lambda one=one: one.kill("why not"),
                one.pause,
                one.resume,
                lambda one=one: one.set_trap("before append", "kill"),
                lambda one=one: one.fill_disk(full=True),
            ):
                with pytest.raises(CannotKill) as refused:
                    attempt()
                assert (refused.value.name, refused.value.mode) == (mode, mode)
            health = one.health(SECONDS)
            assert (health.state, health.pid, health.peak_rss) == ("up", None, None)
            assert health.exit_code is None


def test_a_clock_step_and_a_trap_are_checked_before_they_are_sent(url: str) -> None:
    """Red when a wrong one ends the participant that hears of it."""
    with Launcher(url, threads=1) as launcher:
        one = launcher.start("s1", "scheduler", ["acme"], mode="thread")
        for seconds in (float("nan"), 10.0**10, "1"):
            with pytest.raises(HarnessError.__base__):  # type: ignore[arg-type]
                one.step_clock(seconds)  # type: ignore[arg-type]
        one.step_clock(-3_600)
        before = launcher.allocations.workflow(*KEY).newest().event.recorded_at
        done = one.call(RESHARE, probe_after=SECONDS)
        assert isinstance(done, Done)
        assert (before - done.answer.event.recorded_at).total_seconds() > 3_000
