"""What a drill refuses to do."""

from typing import Any

import pytest

from alloc_es import InvalidSetting
from alloc_es.drill.settings import Settings

POSTGRES = "postgresql://db.example.com/allocations"


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"rounds": 0}, "rounds"),
        ({"schedulers": 0}, "schedulers"),
        ({"spawners": 65}, "spawners"),
        ({"workflows": 0}, "workflows"),
        ({"url": "memory:"}, "one in memory can't be shared"),
        ({"mode": "thread", "faults": {"kill": 1}}, "kill can befall processes only"),
        ({"mode": "in_process", "faults": {"pause": 1}}, "pause can befall processes only"),
        ({"faults": {"cut": 1, "restart": 1}}, "cut, restart can befall PostgreSQL only"),
        ({"url": POSTGRES, "faults": {"full disk": 1}}, "under a SQLite file only"),
        ({"url": POSTGRES, "faults": {"restart": 1}}, "name the command that restarts"),
        ({"rounds": 1, "faults": {"crowd": 1}}, "the first round has no faults"),
        ({"mode": "fibre"}, "'fibre' is none of in_process, thread, process"),
        ({"faults": {"crowd": -1}}, "-1 of crowd is no count"),
        ({"faults": {"flood": 1}}, "'flood' is none of kill, pause"),
    ],
)
def test_what_can_t_be_done_is_refused(settings: dict[str, Any], problem: str) -> None:
    """Red when a drill begins that can't keep what it was asked for, or says less than it did."""
    with pytest.raises(InvalidSetting, match=problem):
        Settings(**{"url": "sqlite:///alloc.db", **settings}).check()


@pytest.mark.parametrize(
    "settings",
    [
        {"faults": {"kill": 1, "full disk": 2}},
        {"faults": {"cut": 0}},
        {"url": POSTGRES, "faults": {"restart": 1}, "restart": "true"},
        {"mode": "thread", "faults": {"crowd": 1, "clock step": 1}},
        {"rounds": 1},
    ],
)
def test_what_can_be_done_is_not_refused(settings: dict[str, Any]) -> None:
    """Red when a fault of which none is asked for counts as asked for."""
    Settings(**{"url": "sqlite:///alloc.db", **settings}).check()
