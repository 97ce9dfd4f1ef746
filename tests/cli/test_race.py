"""The race: its schedulers leave Ctrl-C to whoever started them, and end with it."""

import multiprocessing
import os
import signal
from collections.abc import Callable

import pytest

import alloc_es
from alloc_es.cli.race import Race, race


def run(url: str, on_round: Callable[[int], None]) -> Race:
    with alloc_es.connect(url) as allocations:
        workflow = allocations.workflow("acme", "triage")
        workflow.start("v1")
        workflow.register_challenger("v2")
    return race(url, "acme", "triage", rounds=5, on_round=on_round)


def test_a_scheduler_is_deaf_to_ctrl_c(sqlite_url: str) -> None:
    """Red when the schedulers start with a handler of their own for it."""

    def interrupt(_: int) -> None:
        for child in multiprocessing.active_children():
            assert child.pid
            os.kill(child.pid, signal.SIGINT)

    handler = signal.getsignal(signal.SIGINT)
    assert len(run(sqlite_url, interrupt).rounds) == 5
    assert signal.getsignal(signal.SIGINT) is handler


def test_an_interrupted_race_leaves_no_process(sqlite_url: str) -> None:
    """Red when the schedulers are not ended with the race."""
    children: list[multiprocessing.process.BaseProcess] = []

    def interrupt(_: int) -> None:
        children.extend(multiprocessing.active_children())
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(sqlite_url, interrupt)
    assert len(children) == 2
    assert [child.is_alive() for child in children] == [False, False]
