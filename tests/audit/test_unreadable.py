"""A row that is no event is one finding, and what lies behind it is still checked."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from alloc_es.store.recorder import Stored
from tests.audit.forging import Copy, Place, found
from tests.audit.given import Logs, rows
from tests.rules.given import edited

Damage = Callable[[Stored], Stored]


def garbage(stored: Stored) -> Stored:
    return stored._replace(state=b"\xff\x00{")


def no_event(stored: Stored) -> Stored:
    return stored._replace(state=b'{"schema_version":2}')


def of_no_known_type(stored: Stored) -> Stored:
    return stored._replace(topic="SomethingElse")


def decision_damaged(copy: Copy, logs: Logs, generation: int, damage: Damage) -> Place:
    """Damage one row, and say where that is to be found."""
    place, each = logs.place(generation), logs.decision(generation)
    decisions = rows(logs.decisions)
    decisions[place] = damage(decisions[place])
    copy.write(decisions, rows(logs.runs))
    return Place("readable", "decisions", each.position, generation, "acme", "triage", None, None)


@pytest.mark.parametrize(
    ("generation", "damage"),
    [(1, no_event), (2, garbage), (4, of_no_known_type), (10, no_event), (11, garbage)],
)
def test_a_decision_that_is_no_event_is_one_finding(
    copy: Copy, logs: Logs, generation: int, damage: Damage
) -> None:
    """Red when its runs, the decision behind it, or a rollback to it is found besides."""
    place = decision_damaged(copy, logs, generation, damage)
    assert found(copy.audited()) == [place]


def test_runs_that_overlap_a_decision_that_is_no_event_are_found(copy: Copy, logs: Logs) -> None:
    """Red when behind an unreadable decision the one before it is taken for the newest."""
    late = logs.of(2, "v2")[0]
    forged = logs.run(late, decision_position=logs.decision(3).position)
    unread = decision_damaged(copy, forged, 3, garbage)
    report = copy.audited()
    assert [each.rule for each in found(report)] == ["readable", "newest"]
    assert found(report)[0] == unread
    assert report.findings[1].run_id == logs.runs[late].event.run_id
    assert "generation 3 was the newest, which can't be read" in report.findings[1].problem


def test_slots_that_are_not_all_buckets_are_told_by_the_rule_of_allocations(
    copy: Copy, logs: Logs
) -> None:
    """Red when what can't be routed by is only said to be unreadable."""

    def with_a_hole(stored: Stored) -> Stored:
        event: dict[str, Any] = json.loads(stored.state)
        (first, end), *rest = event["allocation"]["arms"][0]["slots"]
        event["allocation"]["arms"][0]["slots"] = [[first, end - 1], *rest]
        return stored._replace(state=json.dumps(event).encode())

    for generation in (2, 11):
        place = decision_damaged(copy, logs, generation, with_a_hole)
        report = copy.audited()
        assert found(report) == [place._replace(rule="allocations")]
        assert "its slots are not all buckets, each once" in report.findings[0].problem


@pytest.mark.parametrize("damage", [garbage, no_event, of_no_known_type])
def test_a_run_that_is_no_event_is_one_finding(copy: Copy, logs: Logs, damage: Damage) -> None:
    """Red when the run log ends there, or it is not said whose it is."""
    place = logs.of(2, "v1")[7]
    runs = rows(logs.runs)
    runs[place] = damage(runs[place])
    runs[-1] = runs[-1]._replace(state=b"{}")
    copy.write(rows(logs.decisions), runs)
    report = copy.audited()
    told = [
        Place("readable", "runs", row.position, None, "acme", None, None, row.stream.split("/")[2])
        for row in (runs[place], runs[-1])
    ]
    assert found(report) == told
    assert report.runs == len(logs.runs) - 2


def test_a_row_of_no_stream_of_ours_is_one_finding(copy: Copy, logs: Logs) -> None:
    """Red when a row is passed over for its stream's name."""
    decisions = rows(logs.decisions)
    decisions.append(Stored(1_000, "somebody/else's", 1, "AllocationCommitted", b"{}"))
    copy.write(decisions, rows(logs.runs))
    assert found(copy.audited()) == [
        Place("readable", "decisions", 1_000, 1, None, None, None, None)
    ]


def test_an_event_that_lies_in_anothers_place_is_one_finding(copy: Copy, logs: Logs) -> None:
    """Red when an event is taken for what its bytes say."""
    decisions = rows(logs.decisions)
    moved = decisions[logs.place(4)]
    decisions[logs.place(4)] = moved._replace(stream="allocation/acme/other")
    copy.write(decisions, rows(logs.runs))
    report = copy.audited()
    assert [each.rule for each in found(report)] == ["readable", "order"]
    decision = edited(logs.decisions, logs.place(5))[logs.place(5)]
    assert found(report)[1].position == decision.position
