"""What can happen to a SQLite file in mid-use."""

import os
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, TypeVar

import pytest

import alloc_es
from alloc_es import Allocations, Committed, StoreUnavailable, Workflow
from alloc_es.clock import Patience
from tests.faults.commands import KEY, commit, given, history, reject
from tests.faults.conftest import SHORT
from tests.faults.processes import writer

T = TypeVar("T")

_NOBODY = 65534

CALLS: dict[str, Callable[[Workflow], object]] = {
    "allocation": lambda workflow: workflow.allocation(),
    "history": lambda workflow: workflow.history(),
    "commit": commit,
    "spawn": lambda workflow: workflow.spawn_run("run-1"),
}


@pytest.fixture
def path(sqlite_url: str) -> Path:
    return Path(sqlite_url.removeprefix("sqlite:///"))


@contextmanager
def locked(path: Path) -> Iterator[sqlite3.Connection]:
    """Another connection that holds the write lock until it rolls back or the block ends."""
    with closing(sqlite3.connect(path, isolation_level=None, check_same_thread=False)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield other


def whole(path: Path) -> list[Any]:
    """The events of a database that SQLite finds no fault with, by a fresh connection."""
    with closing(sqlite3.connect(path)) as raw:
        assert raw.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    with alloc_es.connect(f"sqlite:///{path}") as reopened:
        return history(reopened)


def test_a_lock_that_is_held_too_long_is_unavailable_and_lands_never(
    sqlite_url: str, path: Path
) -> None:
    """Reads go on; nothing of the refused command is recorded.

    Red when `_mapped` passes "locked" through, or reports it as `AnswerLost`; for the run,
    also when a group is tried again after its caller's deadline.
    """
    with alloc_es.connect(sqlite_url, timeout=SHORT) as client:
        workflow = given(client, commit)
        before = history(client)
        with locked(path):
            for call in (CALLS["commit"], lambda each: each.spawn_run("run-1", timeout=1.5)):
                with pytest.raises(StoreUnavailable, match="locked") as caught:
                    call(workflow)
                assert type(caught.value) is StoreUnavailable
                assert caught.value.retryable
            assert workflow.allocation() == before[-1].allocation
        assert (history(client), list(client.runs())) == (before, [])
        assert commit(workflow).generation == 3


def test_a_lock_that_is_released_in_time_is_waited_for(sqlite_url: str, path: Path) -> None:
    """SQLite gave up waiting once; the next try finds the lock free.

    Red when `append` does not try again.
    """
    with alloc_es.connect(sqlite_url) as early:
        given(early, reject)
    with locked(path) as other:

        def release(_seconds: float) -> None:
            other.execute("ROLLBACK")

        patience = Patience(SHORT, sleep=release, monotonic=lambda: 0.0)
        with alloc_es.connect(sqlite_url, patience=patience) as client:
            committed = reject(client.workflow(*KEY))

    assert (committed.generation, committed.attempts, committed.replayed) == (3, 1, False)
    assert whole(path)[2:] == [committed.event]


def test_a_transaction_waits_for_a_lock_before_anybody_tries_again(
    sqlite_url: str, path: Path
) -> None:
    """It waits as long as the call may take, so the deadline has passed when it gives up.

    Red when it gives up at the first "busy": then there is time left to try again.
    """
    patience = Patience(0.5, sleep=_refuse_to_sleep)
    with alloc_es.connect(sqlite_url, patience=patience) as client:
        workflow = given(client, commit)
        with locked(path), pytest.raises(StoreUnavailable, match="locked"):
            commit(workflow)


def test_garbage_in_the_files_place_is_unavailable_and_stays_as_it_was(
    sqlite_url: str, path: Path
) -> None:
    """Red when `_mapped` lets "not a database" through, or calls it worth another try."""
    garbage = b"this is not a database" * 1_000
    path.write_bytes(garbage)

    with pytest.raises(StoreUnavailable, match="not a database") as caught:
        alloc_es.connect(sqlite_url)

    assert not caught.value.retryable
    assert path.read_bytes() == garbage


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_garbage_over_the_file_in_use_is_unavailable_and_the_bytes_put_back_are_whole(
    call: Callable[[Workflow], object], sqlite_url: str, path: Path
) -> None:
    """Red when `_mapped` lets "not a database" through."""
    with alloc_es.connect(sqlite_url) as client:
        workflow = given(client, commit)
        before = history(client)
    good = path.read_bytes()
    with alloc_es.connect(sqlite_url) as client:
        assert history(client) == before
        with path.open("r+b") as file:
            file.write(b"garbage!" * (len(good) // 8))
        workflow = client.workflow(*KEY)
        with pytest.raises(StoreUnavailable, match=r"not a database|malformed") as caught:
            call(workflow)
        assert not caught.value.retryable
    path.write_bytes(good)

    assert whole(path) == before


@pytest.mark.parametrize("replacement", [None, b"another file"], ids=["removed", "replaced"])
def test_a_file_that_is_no_longer_at_its_path_takes_no_more_commands(
    replacement: bytes | None, sqlite_url: str, path: Path
) -> None:
    """SQLite would go on writing to the file that nobody finds any more.

    Red without the check of the file's identity: the commit is acknowledged and lost.
    """
    with alloc_es.connect(sqlite_url) as client:
        workflow = given(client, commit)
        kept = path.rename(path.with_name("kept.db"))
        if replacement:
            path.write_bytes(replacement)
        for call in CALLS.values():
            with pytest.raises(StoreUnavailable, match="removed or replaced") as caught:
                call(workflow)
            assert not caught.value.retryable
        kept.rename(path)
        assert commit(workflow).generation == 3

    assert len(whole(path)) == 3


def test_a_full_disk_is_unavailable_in_words_and_the_log_is_whole(
    sqlite_url: str, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLite is given no more pages, which it reports as it reports a full disk.

    Red when `_mapped` passes it through, or calls it worth another try.
    """
    connect = sqlite3.connect

    def without_room(*args: Any, **options: Any) -> sqlite3.Connection:
        connection: sqlite3.Connection = connect(*args, **options)
        pages = connection.execute("PRAGMA page_count").fetchone()[0]
        connection.execute(f"PRAGMA max_page_count = {pages + 8}")
        return connection

    with alloc_es.connect(sqlite_url) as early:
        given(early, commit)
    with monkeypatch.context() as patched:
        patched.setattr(sqlite3, "connect", without_room)
        with alloc_es.connect(sqlite_url) as client:
            workflow = client.workflow(*KEY)
            committed = until_full(lambda number: split(workflow, number).event)
            spawned = until_full(lambda number: workflow.spawn_run(f"run-{number}"))
            assert (history(client)[2:], recorded_runs(client)) == (committed, spawned)

    assert whole(path)[2:] == committed
    with alloc_es.connect(sqlite_url) as client:
        assert recorded_runs(client) == spawned
        assert split(client.workflow(*KEY), 8_999).generation == len(committed) + 3


def until_full(act: Callable[[int], T]) -> list[T]:
    """Act until there is no room; what was done by then."""
    done: list[T] = []
    error: StoreUnavailable | None = None
    for number in range(1_000):
        try:
            done.append(act(number))
        except StoreUnavailable as caught:
            error = caught
            break
    assert "database or disk is full" in str(error)
    assert type(error) is StoreUnavailable
    assert not error.retryable
    return done


def split(workflow: Workflow, number: int) -> Committed:
    return workflow.commit_allocation({"v2": 1 + number}, reason="r" * 500)


def recorded_runs(client: Allocations) -> list[Any]:
    return [recorded.event for recorded in client.runs()]


def test_a_file_that_may_not_grow_leaves_a_whole_log_and_one_outcome_in_doubt_at_most(
    sqlite_url: str, path: Path
) -> None:
    """The system refuses the write itself, in mid-commit, in another process.

    Red when `_mapped` lets SQLite's I/O errors through.
    """
    with alloc_es.connect(sqlite_url) as early:
        given(early, commit)

    with writer(sqlite_url, 300_000) as process:
        *done, last = process.communicate(timeout=60)[0].splitlines()

    kind, in_doubt, message = last.split(" ", 2)
    assert kind in {"OutcomeUnknown", "StoreUnavailable"}, last
    assert "disk" in message
    assert len(done) > 10
    recorded = [event.command_id for event in whole(path)[2:]]
    assert recorded[: len(done)] == done
    assert recorded[len(done) :] in ([], [in_doubt] if kind == "OutcomeUnknown" else [])


def test_a_read_only_file_can_be_read_and_refuses_commands_in_words() -> None:
    """Red when `_mapped` passes "readonly" through, or calls it worth another try."""
    with directory_for_all() as directory:
        path = directory / "alloc.db"
        with alloc_es.connect(f"sqlite:///{path}") as early:
            before = given(early, commit).allocation()
        path.chmod(0o444)
        with unprivileged(), alloc_es.connect(f"sqlite:///{path}") as client:
            workflow = client.workflow(*KEY)
            assert workflow.allocation() == before
            for call in (CALLS["commit"], CALLS["spawn"]):
                with pytest.raises(StoreUnavailable, match="readonly") as caught:
                    call(workflow)
                assert not caught.value.retryable


def test_a_read_only_directory_is_unavailable_in_words() -> None:
    """SQLite needs to make files beside a database in WAL mode, even to read it.

    Red when `_mapped` passes "readonly" through, or calls it worth another try.
    """
    with directory_for_all() as directory:
        path = directory / "alloc.db"
        with alloc_es.connect(f"sqlite:///{path}") as early:
            given(early, commit)
        directory.chmod(0o555)
        with unprivileged(), pytest.raises(StoreUnavailable, match=str(path)) as caught:
            alloc_es.connect(f"sqlite:///{path}")
        assert not caught.value.retryable
        directory.chmod(0o777)


@contextmanager
def directory_for_all() -> Iterator[Path]:
    """A new directory that every user may enter and write to."""
    with tempfile.TemporaryDirectory() as made:
        Path(made).chmod(0o777)
        yield Path(made)


@contextmanager
def unprivileged() -> Iterator[None]:
    """As an ordinary user: modes bind no superuser."""
    was = (os.geteuid(), os.getegid())
    if was[0] == 0:
        os.setegid(_NOBODY)
        os.seteuid(_NOBODY)
    try:
        yield
    finally:
        os.seteuid(was[0])
        os.setegid(was[1])


def _refuse_to_sleep(seconds: float) -> None:
    raise AssertionError(f"the transaction waits by itself, and {seconds} s more were asked for")
