"""An audit of one tenant, or since a time, tells of that, and holds it against all there is."""

from datetime import UTC, datetime, timedelta
from itertools import chain, repeat
from pathlib import Path

import pytest

from alloc_es import InvalidIdentifier, InvalidSetting, RunsArchived, connect
from alloc_es.archiving import archive
from alloc_es.audit import audit
from alloc_es.audit.since import SKEW
from alloc_es.codec import encode_as
from tests.audit.forging import Copy, Place, found
from tests.audit.given import START, Logs, rows
from tests.rules.given import edited


def of_tenant(logs: Logs, tenant_id: str) -> list[int]:
    return [n for n, each in enumerate(logs.runs) if each.event.tenant_id == tenant_id]


def broken_twice(logs: Logs) -> Logs:
    """A run of each tenant is on another bucket, and one decision of acme has no link."""
    forged = logs.run(of_tenant(logs, "acme")[0], bucket=-1)
    forged = forged.run(of_tenant(logs, "beta")[0], bucket=-2)
    return forged._replace(decisions=edited(logs.decisions, logs.place(11), previous_digest=None))


PAGE = "alloc_es.audit.since._PAGE"


def test_one_tenants_audit_tells_nothing_of_another(copy: Copy, logs: Logs) -> None:
    """Red when another tenant's events are checked, counted, or missed by what is checked."""
    copy.hold(broken_twice(logs))
    own = audit(copy.url, tenant_id="beta")
    assert [(each.rule, each.tenant_id) for each in found(own)] == [("routing", "beta")]
    assert (own.workflows, own.decisions, own.runs) == (1, 3, len(of_tenant(logs, "beta")))
    assert [key.tenant_id for key in own.samples] == ["beta"]
    theirs = audit(copy.url, tenant_id="acme")
    rules = [(each.rule, each.tenant_id) for each in found(theirs)]
    # The runs of the decision that was edited carry the digest that it had.
    assert rules == [("routing", "acme")] + [("chain", "acme")] * 4
    with pytest.raises(InvalidSetting, match="nobody has no event"):
        audit(copy.url, tenant_id="nobody")


def test_rows_that_are_no_events_are_their_tenants(copy: Copy, logs: Logs) -> None:
    """Red when an unreadable row of another tenant is told, or one of the tenant is not."""
    decisions, runs = rows(logs.decisions), rows(logs.runs)
    for n in (logs.place(4), 0):
        decisions[n] = decisions[n]._replace(state=b"{}")
    for n in (of_tenant(logs, "acme")[0], of_tenant(logs, "beta")[0]):
        runs[n] = runs[n]._replace(state=b"{}")
    copy.write(decisions, runs)
    for tenant_id in ("acme", "beta"):
        places = found(audit(copy.url, tenant_id=tenant_id))
        assert [(each.log, each.tenant_id) for each in places] == [
            ("decisions", tenant_id),
            ("runs", tenant_id),
        ]


def test_what_was_recorded_before_a_time_is_not_told(copy: Copy, logs: Logs) -> None:
    """Red when --since tells of what came before, or forgets it."""
    late = len(logs.runs) - 1
    forged = logs.run(0, bucket=-1).run(late, decision_position=logs.decision(9).position)
    forged = forged._replace(decisions=edited(forged.decisions, logs.place(4), reason="another"))
    copy.hold(forged)
    assert [each.rule for each in found(audit(copy.url))] == ["routing", "newest", "chain"]
    since = logs.decision(10).time
    report = audit(copy.url, since=since)
    run = logs.runs[late].event
    assert found(report) == [
        Place("newest", "runs", late + 1, 11, "acme", "triage", None, run.run_id)
    ]
    assert report.since == since
    assert report.decisions == sum(each.time >= since for each in logs.decisions)
    assert report.runs == sum(each.time >= since for each in logs.runs)
    assert 0 < report.runs < len(logs.runs)


def test_a_chain_that_breaks_behind_the_time_is_held_against_what_lies_before(
    copy: Copy, logs: Logs
) -> None:
    """Red when the first decision since a time has nothing before it."""
    decisions = edited(logs.decisions, logs.place(4), reason="another")
    copy.hold(logs._replace(decisions=decisions))
    report = audit(copy.url, since=logs.decision(5).time)
    assert [(each.rule, each.generation) for each in found(report)] == [("chain", 5)]


@pytest.mark.parametrize("early", [timedelta(minutes=59), SKEW])
def test_a_run_whose_spawners_clock_was_early_within_the_hour_is_not_missed(
    copy: Copy, logs: Logs, early: timedelta, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Red when the log is read from the first run on that was recorded since the time."""
    monkeypatch.setattr("alloc_es.audit.since._PAGE", 1)
    since, minute = START + timedelta(days=1), timedelta(minutes=1)

    def at(place: int) -> datetime:
        """The time of all clocks but that of the run at place 3."""
        return since - timedelta(minutes=60) + (place - 3) * minute

    forged = logs
    for place in range(len(logs.runs)):
        forged = forged.run(place, recorded_at=at(place))
    fast = at(3) + early
    forged = forged.run(3, recorded_at=fast, bucket=-1)
    copy.hold(forged)
    times = [each.time for each in forged.runs]
    first, second, *_ = (n for n, time in enumerate(times) if time >= fast)
    assert (first, second > 60) == (3, True)
    report = audit(copy.url, since=fast)
    assert [(each.rule, each.position) for each in found(report)] == [("routing", 4)]
    assert report.runs == sum(time >= fast for time in times)


def test_a_time_behind_all_leaves_nothing_to_check(copy: Copy, logs: Logs) -> None:
    """Red when an end of the search is missed."""
    copy.hold(broken_twice(logs))
    late = audit(copy.url, since=START + timedelta(days=365))
    assert (found(late), late.decisions, late.runs) == ([], 0, 0)
    early = audit(copy.url, since=START - timedelta(days=365))
    assert (early.decisions, early.runs) == (len(logs.decisions), len(logs.runs))
    assert [each.rule for each in found(early)] == [each.rule for each in found(copy.audited())]


def test_a_search_that_meets_rows_that_are_no_events_goes_on(
    copy: Copy, logs: Logs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Red when a row without a time is taken for one of before the time."""
    monkeypatch.setattr(PAGE, 3)
    forged = logs
    for place in range(len(logs.runs)):
        forged = forged.run(place, recorded_at=START + timedelta(hours=place))
    runs = rows(forged.runs)
    for place in range(20, 60):
        runs[place] = runs[place]._replace(state=b"{}")
    copy.write(rows(logs.decisions), runs)
    assert audit(copy.url, since=START + timedelta(hours=15)).runs == len(logs.runs) - 15 - 40


def test_what_is_no_tenant_and_no_time_is_refused(copy: Copy) -> None:
    """Red when an audit of nothing is begun."""
    with pytest.raises(InvalidIdentifier):
        audit(copy.url, tenant_id=" ")
    with pytest.raises(InvalidSetting):
        audit(copy.url, since=datetime(2026, 1, 1))  # noqa: DTZ001


def test_a_few_wrong_clocks_hide_nothing_from_a_search_by_time(
    copy: Copy, logs: Logs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Red when one run that says it is old is believed for all that lie before it."""
    monkeypatch.setattr(PAGE, 5)
    forged = logs.run(3, bucket=-1)
    for place in range(len(logs.runs) // 4, len(logs.runs), 4):
        forged = forged.run(place, recorded_at=datetime(2000, 1, 1, tzinfo=UTC))
    copy.hold(forged)
    assert [each.position for each in found(audit(copy.url, since=START))] == [4]


FIRST, LAST = (datetime(*day, tzinfo=UTC) for day in ((1, 1, 1), (9999, 12, 31)))


@pytest.mark.parametrize("since", [FIRST, LAST])
def test_the_whole_log_and_nothing_of_it_are_asked_for_by_any_time(
    copy: Copy, logs: Logs, since: datetime
) -> None:
    """Red when the hour before the first time there is has no time."""
    copy.hold(logs)
    assert audit(copy.url, since=since).runs == (len(logs.runs) if since == FIRST else 0)


def test_archives_that_hold_nothing_since_a_time_are_not_needed(
    sqlite_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Red when the search for a time asks for an archive, or passes over what may be in one."""
    monkeypatch.setattr(PAGE, 1)
    hours = chain([0] * 9, [5, 5], repeat(6))
    clock = (START + timedelta(hours=hour) for hour in hours)
    with connect(sqlite_url, clock=lambda: next(clock)) as allocations:
        workflow = allocations.workflow("acme", "triage")
        workflow.start("v1")
        for number in range(10):
            workflow.spawn_run(f"run-{number}")
        assert [each.time.hour for each in allocations.runs()] == [12] * 8 + [17] * 2
        archive(allocations, tmp_path / "first", up_to=7)
    report = audit(sqlite_url, since=START + timedelta(hours=5))
    assert (found(report), report.runs) == ([], 2)
    with pytest.raises(RunsArchived):
        audit(sqlite_url, since=START + timedelta(minutes=30))
    whole = audit(sqlite_url, since=START, archives=[tmp_path / "first"])
    assert (found(whole), whole.runs) == ([], 10)


def test_a_tenant_without_events_is_refused(copy: Copy, logs: Logs) -> None:
    """Red when a misspelt tenant is clean."""
    copy.hold(logs)
    with pytest.raises(InvalidSetting, match="acmee has no event in"):
        audit(copy.url, tenant_id="acmee")


def test_a_log_without_digests_is_not_said_to_be_chained(copy: Copy, logs: Logs) -> None:
    """Red when a log that pretends to be older than the chain keeps it without a word."""
    before = (
        [
            stored._replace(state=encode_as(each.event, 1))
            for each, stored in zip(log, rows(log), strict=True)
        ]
        for log in logs
    )
    copy.write(*before)
    report = audit(copy.url)
    (rule,) = (each for each in report.rules if each.name == "chain")
    events = len(logs.decisions) + len(logs.runs)
    said = f"{events} of {events} events carry no digest, as before release 0.5"
    assert (found(report), rule.outcome, rule.note) == ([], "not checked", said)
