"""An incarnation that begins while the old one records: it comes before, or it is refused."""

import os
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from threading import Event
from typing import Any, NamedTuple

import pytest

from alloc_es import (
    Allocations,
    Incarnation,
    IncarnationSuperseded,
    OutcomeUnknown,
    RunSpawned,
    SpawnRequest,
    StoreUnavailable,
    connect,
)
from alloc_es.errors import AnswerLost
from alloc_es.store import participants, postgres
from tests.store.old_self import KEY, NAME, Outcome, attempts, be_stopped, facts
from tests.support.children import SPAWNED, start_child
from tests.support.raw import DECISIONS, RUNS, Raw, raw, until, until_one_waits

LISTED = [SpawnRequest(*KEY, f"listed-{n}") for n in range(3)]
DECIDE, SPAWN = 0, 1
# What a decision, and a group of runs, take later than the lock of the incarnation.
FENCE = (
    "SELECT pg_advisory_lock_shared(?::regclass::oid::integer, stripe)"
    " FROM generate_series(0, 63) AS stripe"
)
TURN = "SELECT pg_advisory_lock(1634496355, ?::regclass::oid::integer)"


class Scene(NamedTuple):
    """A store, who begins incarnations in it, and the first one, which has begun to decide."""

    url: str
    launcher: Allocations
    old: Allocations

    def attempt(self, place: int) -> Outcome:
        """A decision or a run of the old incarnation: what was recorded, or the refusal."""
        try:
            return attempts(self.old.workflow(*KEY), "run-1")[place]()
        except IncarnationSuperseded as refusal:
            return refusal

    def recorded(self) -> tuple[int, int]:
        """How many decisions and runs there are."""
        return len(list(self.launcher.decisions())), len(list(self.launcher.runs()))


@pytest.fixture
def scene(durable_url: str) -> Iterator[Scene]:
    """On a store that outlives a process."""
    with opened(durable_url) as scene:
        yield scene


@contextmanager
def opened(url: str, timeout: float = 30) -> Iterator[Scene]:
    with ExitStack() as at_end:
        launcher = at_end.enter_context(connect(url, actor="launcher", timeout=timeout))
        workflow = launcher.workflow(*KEY)
        workflow.start("v1")
        workflow.register_challenger("v2", share_bps=5_000)
        held = launcher.new_incarnation(NAME)
        old = at_end.enter_context(connect(url, incarnation=held, timeout=timeout))
        yield Scene(url, launcher, old)


def in_thread(call: Callable[[], Any]) -> "Future[Any]":
    pool = ThreadPoolExecutor(1)
    future = pool.submit(call)
    pool.shutdown(wait=False)
    return future


@pytest.mark.parametrize("place", [DECIDE, SPAWN])
@pytest.mark.parametrize("end", ["COMMIT", "ROLLBACK"])
def test_what_meets_a_successor_that_is_under_way_waits_and_is_refused_if_it_commits(
    end: str, place: int, scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Red when the look comes before the lock, and where nothing is locked or looked at.

    The successor is counted up by hand, in a transaction that ends when the old one has
    looked before its command, and on PostgreSQL waits in the one that records.
    """
    looked = note_looks(monkeypatch)
    with raw(scene.url) as other, raw(scene.url) as observer:
        other.execute("BEGIN IMMEDIATE" if other.kind == "sqlite" else "BEGIN")
        other.execute("UPDATE participants SET incarnation = incarnation + 1")
        future = in_thread(lambda: scene.attempt(place))
        if other.kind == "postgresql":
            until(lambda: waits_for_incarnation(observer), "the old one waits")
        elif place == DECIDE:
            assert looked.wait(30)
        other.execute(end)
        outcome = future.result(60)
    if end == "ROLLBACK":
        assert outcome == ("AllocationCommitted", "run-1")[place]
    else:
        assert facts(outcome) == (NAME, 1, 2)
        assert scene.recorded() == (2, 0)


@pytest.mark.postgresql
@pytest.mark.parametrize(
    ("place", "table", "lock"), [(DECIDE, DECISIONS, FENCE), (SPAWN, RUNS, TURN)]
)
def test_a_successor_waits_for_what_is_being_recorded_and_begins_behind_it(
    place: int, table: str, lock: str, postgres_url: str
) -> None:
    """Red when the old one, between its look and its commit, keeps nobody from counting up.

    A lock that it takes later, of the fence or the turn of runs, holds it up there.
    """
    with opened(postgres_url) as scene, raw(postgres_url) as other, raw(postgres_url) as observer:
        other.execute(lock, table)
        recording = in_thread(lambda: scene.attempt(place))
        until(lambda: waits_for_other(observer), "the old one is held up")
        beginning = in_thread(lambda: scene.launcher.new_incarnation(NAME))
        until(lambda: beginning.done() or waits_for_incarnation(observer), "the successor waits")
        assert not beginning.done()
        assert not recording.done()
        other.execute("SELECT pg_advisory_unlock_all()")
        assert beginning.result(60) == Incarnation(NAME, 2)
        assert scene.recorded() == ((3, 0), (2, 1))[place]
        assert recording.result(60) == ("AllocationCommitted", "run-1")[place]


@pytest.mark.postgresql
def test_a_decision_that_waits_for_its_turn_has_not_looked_yet(postgres_url: str) -> None:
    """Red when the number is read before the decision has its turn, and not again behind it."""
    with opened(postgres_url) as scene, raw(postgres_url) as other, raw(postgres_url) as observer:
        other.execute(TURN, DECISIONS)
        recording = in_thread(lambda: scene.attempt(DECIDE))
        until_one_waits(observer, DECISIONS)
        assert scene.launcher.new_incarnation(NAME) == Incarnation(NAME, 2)
        other.execute("SELECT pg_advisory_unlock_all()")
        assert facts(recording.result(60)) == (NAME, 1, 2)
        assert scene.recorded() == (2, 0)


@pytest.mark.postgresql
def test_a_group_that_is_routed_again_a_decision_and_a_successor_do_not_wait_in_a_circle(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Red when a group that is routed again takes the fence before it looks.

    The group is inside of the fence, the decision has looked and waits for the group, the
    successor waits for both. The server would find a circle after a second, and undo it.
    """
    monkeypatch.setattr(postgres, "_LONGEST_PAUSE_MS", 60_000)
    patient = postgres_url.replace("&schema", "&options=-c%20deadlock_timeout%3D60s&schema")
    with opened(patient, timeout=5) as scene, raw(postgres_url) as observer:
        scene.old.workflow(*KEY).spawn_run("first")
        scene.launcher.workflow(*KEY).commit_allocation({"v2": 1})
        recording = scene.old._ledger.spawner._recording
        genuine, waiting = recording._reroute, list[Any]()

        def reroute(*arguments: Any) -> Any:
            waiting.append(in_thread(lambda: scene.attempt(DECIDE)))
            until(lambda: waits_for_other(observer), "the decision waits for the group")
            waiting.append(in_thread(lambda: scene.launcher.new_incarnation(NAME)))
            until(lambda: waits_for_incarnation(observer), "the successor waits for both")
            return genuine(*arguments)

        monkeypatch.setattr(recording, "_reroute", reroute)
        assert scene.old.workflow(*KEY).spawn_run("run-1").generation == 3
        assert waiting[DECIDE].result(60) == "AllocationCommitted"
        assert waiting[1].result(60) == Incarnation(NAME, 2)
        assert scene.old.spawn_counts().retried == 0
        assert scene.recorded() == (4, 2)


@pytest.mark.parametrize("sent", [True, False], ids=["recorded", "lost"])
def test_a_command_in_doubt_whose_second_try_is_refused_is_settled_by_its_place(
    sent: bool, scene: Scene
) -> None:
    """Red when it is called refused though it was recorded, or recorded though it was not.

    What was lost the successor has decided meanwhile: decided again, it would be another
    refusal.
    """
    lose_answers(scene, "decisions", "append", sent=sent)
    outcome = scene.attempt(DECIDE)
    decisions = list(scene.launcher.decisions())
    assert [each.actor for each in decisions[2:]] == [NAME if sent else "launcher"]
    if sent:
        assert outcome == "AllocationCommitted"
    else:
        assert facts(outcome) == (NAME, 1, 2)


def test_a_command_in_doubt_that_can_not_be_settled_stays_in_doubt(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Red when what may have been recorded is called refused, because its place can't be read."""
    lose_answers(scene, "decisions", "append", sent=True)

    def at(*_: Any) -> Any:
        raise StoreUnavailable("the store is away", retryable=False)

    monkeypatch.setattr(scene.old._store.decisions, "at", at)
    with pytest.raises(OutcomeUnknown):
        scene.attempt(DECIDE)


@pytest.mark.parametrize("sent", [True, False], ids=["recorded", "lost"])
def test_runs_in_doubt_whose_second_try_is_refused_are_settled_by_their_log(
    sent: bool, scene: Scene
) -> None:
    """Red when they are called refused though they were recorded, or the other way round."""
    lose_answers(scene, "runs", "record", sent=sent)
    outcomes = scene.old.spawn_runs(LISTED)
    assert scene.recorded()[1] == (3 if sent else 0)
    if sent:
        assert outcomes == [each.event for each in scene.launcher.runs()]
        assert not any(run.replayed for run in outcomes if isinstance(run, RunSpawned))
    else:
        assert [facts(each) for each in outcomes] == [(NAME, 1, 2)] * 3


def test_a_live_old_process_that_is_stopped_in_mid_command_wakes_up_and_is_refused(
    scene: Scene,
) -> None:
    """Red when a look before the command, or before the group, is all that refuses it."""
    held = scene.launcher.new_incarnation(NAME)
    # A child of this process, which can be told of its stop.
    child, pipe = start_child(be_stopped, scene.url, held, context=SPAWNED)
    try:
        assert pipe.recv() == "about to record"
        assert child.pid is not None
        os.kill(child.pid, signal.SIGSTOP)
        assert os.WIFSTOPPED(os.waitpid(child.pid, os.WUNTRACED)[1])
        successor = scene.launcher.new_incarnation(NAME)
        with connect(scene.url, incarnation=successor) as new:
            decided, spawned = attempts(new.workflow(*KEY), "run-1")
            assert (decided(), spawned()) == ("AllocationCommitted", "run-1")
        pipe.send("go on")
        os.kill(child.pid, signal.SIGCONT)
        for outcomes in (pipe.recv(), pipe.recv()):
            assert [facts(each) for each in outcomes] == [(NAME, 2, 3)] * 2
        child.join(60)
        assert child.exitcode == 0
    finally:
        child.kill()
    assert scene.recorded() == (3, 1)


def lose_answers(scene: Scene, log: str, call: str, *, sent: bool) -> None:
    """Lose the first answer to a call of the old one, and begin its successor before it goes."""
    kept = getattr(scene.old._store, log)
    genuine = getattr(kept, call)
    first = iter([True])

    def lose(*arguments: Any) -> Any:
        if not next(first, False):
            return genuine(*arguments)
        if sent:
            genuine(*arguments)
        scene.launcher.new_incarnation(NAME)
        if not sent:
            scene.launcher.workflow(*KEY).promote_challenger("v2")
        raise AnswerLost("the answer was lost")

    setattr(kept, call, lose)


def note_looks(monkeypatch: pytest.MonkeyPatch) -> Event:
    """Set when somebody has looked before a command."""
    looked = Event()
    genuine = participants.look

    def look(*arguments: Any) -> None:
        genuine(*arguments)
        looked.set()

    monkeypatch.setattr(participants, "look", look)
    return looked


def waits_for_incarnation(observer: Raw) -> bool:
    """Whether somebody waits for the lock of a participant's name."""
    return _waits(observer, "classid = 'participants'::regclass::oid")


def waits_for_other(observer: Raw) -> bool:
    """Whether somebody waits for another advisory lock."""
    return _waits(observer, "classid <> 'participants'::regclass::oid")


def _waits(observer: Raw, where: str) -> bool:
    waiting = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
    ((count,),) = observer.execute(f"{waiting} AND {where}")
    return bool(count)
