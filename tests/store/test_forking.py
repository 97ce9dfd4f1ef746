"""A connection belongs to the process that made it."""

import json
import os
import warnings
from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest

from alloc_es import Allocations, StoreUnavailable, Workflow, connect
from tests.support.raw import Raw, raw


def test_a_child_of_a_fork_is_refused_in_words_and_the_parent_goes_on(
    allocations: Allocations, workflow: Workflow
) -> None:
    """Red when `_check_usable` does not compare processes."""
    report = in_fork(lambda: try_everything(allocations, workflow))
    refusal = (
        f"this connection to {allocations.store} was made by process {os.getpid()}, "
        "before a fork; call connect() in process CHILD"
    )
    assert report == [refusal] * 6
    assert workflow.register_challenger("v2").generation == 2
    assert [each.generation for each in workflow.history()] == [1, 2]


@pytest.mark.postgresql
def test_a_child_that_drops_what_it_was_handed_closes_no_socket_of_the_parent(
    postgres_url: str,
) -> None:
    """Red when `Datastore.close` does not compare processes."""
    name = f"parent-{uuid4().hex[:8]}"
    with connect(f"{postgres_url}&application_name={name}") as allocations:
        allocations.position()
        with raw(postgres_url) as observer:
            before = sessions(observer, name)
            assert in_fork(lambda: drop(allocations)) == ["dropped"]
            allocations.position()
            assert before
            assert before <= sessions(observer, name)


def sessions(observer: Raw, name: str) -> set[Any]:
    """The server's processes that serve an application."""
    asked = "SELECT pid FROM pg_stat_activity WHERE application_name = ?"
    return {row[0] for row in observer.execute(asked, name)}


def drop(allocations: Allocations) -> list[str]:
    """What the end of the last reference does."""
    allocations._store.close()
    return ["dropped"]


def try_everything(allocations: Allocations, workflow: Workflow) -> list[str]:
    """What each call says in this process, and then a close that must not reach the parent."""
    calls: list[Callable[[], object]] = [
        lambda: workflow.promote_challenger("v2"),
        workflow.allocation,
        lambda: workflow.spawn_run("run-1"),
        allocations.list,
        lambda: list(allocations.decisions()),
        allocations.position,
    ]
    said = []
    for call in calls:
        try:
            said.append(f"let through: {call()!r}")
        except StoreUnavailable as error:
            said.append(str(error).replace(f"process {os.getpid()}", "process CHILD"))
    allocations.close()
    return said


def in_fork(call: Callable[[], list[str]]) -> list[str]:
    """Make a call in a forked child and return what it returned there."""
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        # Python 3.12 warns of forks beside threads, which is what this is about.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        # Nothing of the parent's may be unwound here: no fixture, no report, no exit handler.
        try:
            os.write(writing, json.dumps(call()).encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        answer = pipe.read()
    os.waitpid(child, 0)
    return [str(line) for line in json.loads(answer)]
