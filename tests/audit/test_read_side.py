"""What lies beside the logs of a store: read models, and who was given which trigger."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from alloc_es import connect
from alloc_es.audit import AuditReport, RuleReport, audit
from tests.audit.forging import Copy, Place, found, unchecked
from tests.audit.given import Logs, decide_and_spawn, logs_of, rows, settings
from tests.conftest import POSTGRESQL, SQLITE
from tests.support.postgres import with_schema
from tests.support.raw import Raw, raw

DELIVERIES, CONSUMERS, LEDGER = "trigger_deliveries", "trigger_consumers", "run_ledger__1"
OF_ACME = "WHERE run_id = 'b-1' AND tenant_id = 'acme'"

WITHOUT_KEY = {
    "sqlite": (
        "PRAGMA legacy_alter_table = ON",
        f"CREATE TABLE again AS SELECT * FROM {DELIVERIES}",
        f"DROP TABLE {DELIVERIES}",
        f"ALTER TABLE again RENAME TO {DELIVERIES}",
    ),
    "postgresql": (f"ALTER TABLE {DELIVERIES} DROP CONSTRAINT {DELIVERIES}_pkey",),
}


@pytest.fixture(scope="module", params=[SQLITE, POSTGRESQL])
def url(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A store with a read model, and a consumer that has acknowledged every trigger."""
    if request.param == "sqlite":
        url = f"sqlite:///{tmp_path_factory.mktemp('whole') / 'alloc.db'}"
    else:
        url = with_schema(request.getfixturevalue("postgres_server").url, "a_whole_store")
    with connect(url, **settings()) as allocations:
        decide_and_spawn(allocations)
        with allocations.triggers("loop", follow=False) as triggers:
            for trigger in triggers:
                triggers.acknowledge(trigger)
        allocations.projections().catch_up("run_ledger")
    return url


@pytest.fixture
def database(url: str) -> Iterator[Raw]:
    with raw(url) as opened:
        yield opened


@pytest.fixture
def logs(url: str) -> Logs:
    with connect(url) as allocations:
        return logs_of(allocations)


@contextmanager
def changed(database: Raw, table: str, *statements: str) -> Iterator[None]:
    """Change a table of the store; afterwards its rows are what they were."""
    before = database.execute(f"SELECT * FROM {table}")
    try:
        for statement in statements:
            database.execute(statement)
        yield
    finally:
        database.execute(f"DELETE FROM {table}")
        for each in before:
            database.execute(f"INSERT INTO {table} VALUES ({', '.join('?' * len(each))})", *each)


def rule(report: AuditReport, name: str) -> RuleReport:
    return next(each for each in report.rules if each.name == name)


def test_a_store_that_keeps_every_rule_is_clean(url: str) -> None:
    """Red when what the library delivered and folded is found fault with, or is not looked at."""
    report = audit(url)
    assert found(report) == []
    assert unchecked(report) == {"seal"}
    assert rule(report, "read_models").note == "compared run_ledger"


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (f"DELETE FROM {DELIVERIES} WHERE generation = 7", "was not given it"),
        (
            f"UPDATE {DELIVERIES} SET generation = 6 WHERE generation = 7",
            "was given it as generation 6 of acme/triage",
        ),
        (
            f"UPDATE {DELIVERIES} SET attempts = 0 WHERE generation = 7",
            "has acknowledged it, and it was handed to nobody",
        ),
    ],
)
def test_a_trigger_that_was_not_delivered_as_it_is_is_found(
    url: str, database: Raw, logs: Logs, change: str, problem: str
) -> None:
    """Red when the audit leaves a consumer's account out, or reads it without one of its facts."""
    trigger = logs.decision(7)
    with changed(database, DELIVERIES, change):
        report = audit(url)
    command = trigger.event.command_id
    assert found(report) == [
        Place("deliveries", "decisions", trigger.position, 7, "acme", "triage", command, None)
    ]
    assert report.findings[0].problem == f"consumer loop {problem}"


def test_a_trigger_that_was_delivered_twice_is_found(url: str, database: Raw, logs: Logs) -> None:
    """Red when deliveries are told by their positions only."""
    again = f"INSERT INTO {DELIVERIES} SELECT * FROM {DELIVERIES} WHERE generation = 7"
    with changed(database, DELIVERIES, *WITHOUT_KEY[database.kind], again):
        report = audit(url)
    (place,) = found(report)
    assert (place.rule, place.position) == ("deliveries", logs.decision(7).position)
    assert report.findings[0].problem == "consumer loop was given it 2 times"


def test_a_delivery_of_what_is_no_trigger_is_found(url: str, database: Raw, logs: Logs) -> None:
    """Red when only what is owed is looked at."""
    position = logs.decision(4).position
    made_up = f"INSERT INTO {DELIVERIES} VALUES ('loop', {position}, 'acme', 'triage', 4, 1, 'w', "
    with changed(database, DELIVERIES, f"{made_up} '2026-03-01')"):
        report = audit(url)
    place = Place("deliveries", "decisions", position, 4, "acme", "triage", None, None)
    assert found(report) == [place]
    problem = "consumer loop was given what is no trigger of its own"
    assert report.findings[0].problem == problem


def test_a_consumer_that_has_seen_more_than_there_is_is_found(url: str, database: Raw) -> None:
    """Red when the accounts are not held against the end of the log."""
    with changed(database, CONSUMERS, f"UPDATE {CONSUMERS} SET scanned_to = 64"):
        report = audit(url)
    assert found(report) == [Place("deliveries", *[None] * 7)]
    problem = "consumer loop has seen position 64, and the log ends at 14"
    assert report.findings[0].problem == problem


@pytest.mark.parametrize(
    ("change", "run_id", "problem"),
    [
        ("SET version = 'v9'", "b-1", "version is v9, not v2"),
        ("SET run_id = 'b-1x'", "b-1", "is missing"),
        ("SET run_id = 'a'", "a", "is in no log"),
    ],
)
def test_a_read_model_that_was_edited_is_found(
    url: str, database: Raw, change: str, run_id: str, problem: str
) -> None:
    """Red when no read model is compared, or its rows are compared by their keys only."""
    with changed(database, LEDGER, f"UPDATE {LEDGER} {change} {OF_ACME}"):
        report = audit(url)
    assert found(report) == [Place("read_models", None, None, None, "acme", "triage", None, run_id)]
    assert report.findings[0].problem.startswith("run_ledger: run_ledger: ")
    assert report.findings[0].problem.endswith(problem)


def test_a_read_model_that_differs_in_anothers_rows_is_not_one_tenants_finding(
    url: str, database: Raw
) -> None:
    """Red when --tenant tells what is another's, or says that such a model was kept."""
    with changed(database, LEDGER, f"UPDATE {LEDGER} SET version = 'v9' {OF_ACME}"):
        theirs, own = audit(url, tenant_id="beta"), audit(url, tenant_id="acme")
    assert found(theirs) == []
    said = rule(theirs, "read_models")
    problem = "the first row that differs is another tenant's; audit all tenants"
    assert (said.outcome, said.note) == ("not checked", f"run_ledger: {problem}")
    assert [each.rule for each in found(own)] == ["read_models"]


def test_a_trigger_that_is_no_event_any_more_is_one_finding(url: str, logs: Logs) -> None:
    """Red when what was delivered of an unreadable decision is called made up."""
    decisions = rows(logs.decisions)
    damaged = decisions[logs.place(7)]
    decisions[logs.place(7)] = damaged._replace(state=b"{}")
    Copy(url).write(decisions, rows(logs.runs))
    try:
        report = audit(url)
    finally:
        Copy(url).hold(logs)
    assert found(report) == [
        Place("readable", "decisions", damaged.position, 7, "acme", "triage", None, None)
    ]
    assert rule(report, "deliveries").outcome == "kept"
