"""How a participant is, as far as it can be seen."""

import os
from pathlib import Path

from alloc_es.harness import Health
from alloc_es.harness.child import _peak_told_by, peak_rss_of_this_process
from alloc_es.harness.protocol import CheckUp, Message, Reply, Vitals
from tests.harness.scripted import READ, SECONDS, scripted, silent


def well(message: Message) -> list[Reply]:
    return [Vitals(message.number, 4096, 2)] if isinstance(message, CheckUp) else []


def test_one_that_answers_is_up() -> None:
    """Red when a measurement of the participant's is lost on its way."""
    with scripted(well) as made:
        health = made.participant.health(SECONDS)
        assert health.silent_for is not None
        assert health == Health("up", 7, None, None, health.silent_for, 4096, 2, 0)


def test_of_one_that_is_silent_nothing_is_invented() -> None:
    """Red when what could not be measured is told as 0."""
    with scripted(silent) as made:
        made.participant.send(READ)
        health = made.participant.health(0)
        assert (health.state, health.peak_rss, health.rerouted) == ("silent", None, None)
        assert health.under_way == 1


def test_one_that_has_ended_says_how() -> None:
    """Red when a dead participant counts as silent, or its exit code is lost."""
    with scripted(silent) as made:
        made.dies(exit_code=3)
        assert made.participant.stop("too late", within=SECONDS)
        health = made.participant.health(SECONDS)
        assert (health.state, health.exit_code, health.peak_rss) == ("ended", 3, None)


def test_a_thread_that_was_stopped_and_still_works_has_not_ended() -> None:
    """Red when a thread counts as gone because nobody waits for it any more."""
    with scripted(silent) as made:
        assert not made.participant.stop("enough", within=0)
        assert made.participant.ended == "enough"
        assert made.participant.health(0).state == "silent"
        made.dies(exit_code=0)
        assert made.participant.stop("enough", within=SECONDS)
        assert made.participant.health(0).state == "ended"


def test_the_peak_is_that_of_the_program_and_not_of_what_started_it(tmp_path: Path) -> None:
    """Red when the peak is getrusage's, which on Linux begins with the launcher's."""
    status = tmp_path / "status"
    status.write_text("Name:\tpython\nVmPeak:\t  9 kB\nVmHWM:\t  40 kB\nVmRSS:\t  30 kB\n")
    assert _peak_told_by(status) == 40 * 1024
    status.write_text("Name:\tpython\n")
    assert _peak_told_by(status) is None
    assert _peak_told_by(tmp_path / "none") is None
    peak = peak_rss_of_this_process()
    assert peak is None or peak > 1_000_000 or os.name != "posix"
