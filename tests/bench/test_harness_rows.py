"""The rows of the harness: none inherits another's peak, in whatever order they are taken."""

import os

import pytest

from alloc_es.harness import Mode
from tests.bench.harness import Reading, Readings, read

HUNGRY = 200_000_000


def test_a_row_reports_neither_the_peak_of_the_one_before_nor_of_who_measures(
    sqlite_url: str,
) -> None:
    """Red when rows share a process, or a child counts what its parent had held."""
    held = b"x" * HUNGRY
    before, hungry, after = (
        read(sqlite_url, "thread", 0.01, ballast) for ballast in (0, HUNGRY, 0)
    )
    assert len(held) == HUNGRY
    assert hungry.peak_mb > HUNGRY / 1e6
    for small in (before, after):
        assert 10 < small.peak_mb < 0.8 * HUNGRY / 1e6
    assert len({before.pid, hungry.pid, after.pid, os.getpid()}) == 4
    assert min(before.start_ms, before.decisions_per_second) > 0


def test_each_figure_of_a_reading_is_given_once_in_whatever_order_they_are_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Red when a case is given the reading of another mode or round, or all are taken anew."""
    taken: list[Mode] = []

    def counted(_: str, mode: Mode, __: float) -> Reading:
        taken.append(mode)
        return Reading(0, *(len(taken) + place / 10 for place in range(3)))

    monkeypatch.setattr("tests.bench.harness.read", counted)
    readings = Readings("", 0)
    assert [readings.figure("thread", "start_ms") for _ in range(2)] == [1.0, 2.0]
    assert readings.figure("process", "peak_mb") == 3.2
    assert [readings.figure("thread", "peak_mb") for _ in range(3)] == [1.2, 2.2, 4.2]
    assert readings.figure("process", "decisions_per_second") == 3.1
    assert taken == ["thread", "thread", "process", "thread"]
