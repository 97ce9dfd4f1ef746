"""A store may be written to while it is audited: nothing is found that is not there."""

import uuid
from collections.abc import Callable, Iterator
from threading import Event, Thread
from typing import Any

import pytest

from alloc_es import Allocations, Patience, StoreUnavailable, Workflow, connect
from alloc_es.audit import audit
from alloc_es.projections import Projections
from tests.audit.forging import found, unchecked
from tests.audit.given import decide_and_spawn, settings
from tests.cli.terminal import Terminal
from tests.support.raw import Raw, raw

PATIENCE_SECONDS = 60
KEY = ("acme", "busy")


def one_round(allocations: Allocations, workflow: Workflow, number: int) -> None:
    """A challenger comes and goes, runs on the way, and its trigger is delivered."""
    workflow.register_challenger(f"v{number + 2}", 5_000)
    workflow.spawn_run(f"during-{number}")
    workflow.reject_challenger(f"v{number + 2}")
    workflow.spawn_run(f"after-{number}")
    with allocations.triggers("loop", follow=False) as triggers:
        for trigger in triggers:
            triggers.acknowledge(trigger)
    allocations.projections().catch_up("run_ledger")


def test_what_is_written_between_two_looks_is_no_finding(
    durable_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Red when an end is looked up before what must not lie behind it.

    Each time that an audit has looked up an end, a whole round is written.
    """
    position = Allocations.position
    with connect(durable_url) as other:
        workflow = other.workflow(*KEY)
        workflow.start("v1")
        rounds = iter(range(100))
        one_round(other, workflow, next(rounds))

        def busy(allocations: Allocations, *log: Any) -> int:
            end = position(allocations, *log)
            one_round(other, workflow, next(rounds))
            return end

        with monkeypatch.context() as patched:
            patched.setattr(Allocations, "position", busy)
            report = audit(durable_url)
        assert found(report) == []
        assert unchecked(report) == {"seal"}
        assert next(rounds) > 2
        decisions = [each.position <= report.ends["decisions"] for each in other.decisions()]
        assert report.decisions == sum(decisions) < len(decisions)
        assert position(other, "runs") > report.ends["runs"]
        assert position(other) > report.ends["decisions"]


def test_a_store_is_clean_whoever_writes_to_it_meanwhile(durable_url: str) -> None:
    """Red when an audit reads beyond the ends that it began with.

    Runs and decisions are written while each audit is between two looks at the store.
    """
    ended = Event()
    written = {"runs": Event(), "decisions": Event()}
    with connect(durable_url) as allocations:
        allocations.workflow(*KEY).start("v1")
        one_round(allocations, allocations.workflow(*KEY), 0)
        writers = [
            Thread(target=_repeat, args=(durable_url, act, written[log], ended))
            for log, act in (("decisions", _decide), ("runs", _spawn))
        ]
        for each in writers:
            each.start()
        try:
            for _ in range(3):
                before = allocations.position("runs")
                report = audit(durable_url, report=lambda _done, _goal: _await(written))
                assert found(report) == []
                assert unchecked(report) == {"seal"}
                assert allocations.position("runs") > report.ends["runs"] >= before
        finally:
            ended.set()
            for each in writers:
                each.join(PATIENCE_SECONDS)


def _await(written: dict[str, Event]) -> None:
    for each in written.values():
        each.clear()
    for each in written.values():
        assert each.wait(PATIENCE_SECONDS)


def _repeat(url: str, act: Callable[[Workflow, int], None], written: Event, ended: Event) -> None:
    with connect(url) as allocations:
        workflow = allocations.workflow(*KEY)
        number = 1
        while not ended.is_set():
            act(workflow, number)
            written.set()
            number += 1


def _decide(workflow: Workflow, number: int) -> None:
    workflow.register_challenger(f"w{number}", 5_000)
    workflow.commit_allocation({f"w{number}": 1_000})
    if number % 2:
        workflow.reject_challenger(f"w{number}")
    else:
        workflow.promote_challenger(f"w{number}")


def _spawn(workflow: Workflow, number: int) -> None:
    for place in range(5):
        workflow.spawn_run(f"run-{number}-{place}", unit=f"customer-{place}")


@pytest.fixture
def role(postgres_url: str) -> Iterator[str]:
    """The name of a role that may log in and look into the schema, and owns nothing."""
    name = f"alloc_es_auditor_{uuid.uuid4().hex[:12]}"
    with connect(postgres_url, **settings()) as allocations:
        decide_and_spawn(allocations)
        allocations.projections().catch_up("run_ledger")
    with raw(postgres_url) as database:
        database.execute(f"CREATE ROLE {name} LOGIN")
        database.execute(f"GRANT USAGE ON SCHEMA {database.schema} TO {name}")
        yield name
        database.execute(f"DROP OWNED BY {name} CASCADE")
        database.execute(f"DROP ROLE {name}")


def grant(database: Raw, role: str, *tables: str) -> None:
    database.execute(f"GRANT SELECT ON {', '.join(tables)} TO {role}")


@pytest.mark.postgresql
def test_a_role_that_may_read_the_logs_audits_them_and_says_what_it_could_not(
    postgres_url: str, role: str
) -> None:
    """Red when an audit asks for more rights than it needs, or calls kept what it has not read."""
    url = f"{postgres_url}&user={role}"
    with raw(postgres_url) as database:
        assert "permission denied for table" in Terminal(url).fails(4, "audit")
        grant(database, role, "alloc_es_schema", "decision_events", "run_events", "run_archives")
        report = audit(url)
        assert found(report) == []
        assert (report.decisions, report.runs) == (14, 85)
        notes = {each.name: each.note for each in report.rules if each.outcome == "not checked"}
        assert notes.keys() == {"deliveries", "read_models", "seal"}
        assert notes["deliveries"].endswith("permission denied for table trigger_deliveries")
        assert notes["read_models"].endswith("permission denied for table projection_builds")
        assert (
            Terminal(url)
            .ok("audit")
            .endswith("no finding; not checked: deliveries, read_models, seal\n")
        )
        grant(database, role, "trigger_consumers", "trigger_deliveries")
        assert unchecked(audit(url)) == {"read_models", "seal"}
        grant(database, role, f"ALL TABLES IN SCHEMA {database.schema}")
        assert unchecked(audit(url)) == {"seal"}


@pytest.mark.parametrize("where", ["accounts", "status", "verify"])
def test_a_store_that_goes_away_meanwhile_ends_the_audit(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    """Red when a rule that could not be looked at for a moment is said to be not checked."""

    def away(*_: Any, **__: Any) -> None:
        raise StoreUnavailable("it is away")

    with connect(sqlite_url, patience=Patience(0.001)) as allocations:
        allocations.workflow(*KEY).start("v1")
        allocations.projections().catch_up("run_ledger")
        if where == "accounts":
            monkeypatch.setattr("alloc_es.audit.read_side.read_accounts", away)
        else:
            monkeypatch.setattr(Projections, where, away)
        with pytest.raises(StoreUnavailable, match="it is away"):
            audit(allocations)
