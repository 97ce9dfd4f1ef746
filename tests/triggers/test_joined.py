"""An acknowledgement in the caller's own transaction: its effects are exactly once."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing

import psycopg
import pytest

from alloc_es import Allocations, InvalidSetting, Trigger, TriggerLost, Triggers, connect
from alloc_es.delivering import Deliveries
from tests.support.overlap import in_threads
from tests.support.raw import raw
from tests.triggers.workers import HOUR, Office, Time, deliveries, positions, reject

# Where what is waited for never comes, it is told soon.
pytestmark = pytest.mark.timeout(30)

Own = psycopg.Connection[tuple[int]]
EFFECT = "INSERT INTO effects (position) VALUES (%s)"
postgresql = pytest.mark.parametrize(
    "store_url", [pytest.param("postgresql", marks=pytest.mark.postgresql)], indirect=True
)
sqlite = pytest.mark.parametrize(
    "store_url", [pytest.param("sqlite", marks=pytest.mark.sqlite)], indirect=True
)


@pytest.fixture
def own(store_url: str, allocations: Allocations) -> Iterator[Own]:
    """The handler's own connection, with a table of its own; it knows of no schema."""
    assert allocations.position() == 0
    server, _, _ = store_url.rpartition("schema=")
    with psycopg.connect(server[:-1]) as connection:
        connection.execute("CREATE TEMPORARY TABLE effects (position bigint)")
        connection.commit()
        yield connection


def effects(own: Own) -> list[int]:
    """What was committed of what handlers did."""
    own.rollback()
    return [position for (position,) in own.execute("SELECT position FROM effects ORDER BY 1")]


def handle(own: Own, worker: Triggers, trigger: Trigger) -> None:
    """What a handler does: its effect and the acknowledgement, in one transaction."""
    with own.transaction():
        own.execute(EFFECT, [trigger.position])
        worker.acknowledge(trigger, connection=own)


@postgresql
def test_effects_and_acknowledgement_are_committed_together(
    allocations: Allocations, office: Office, own: Own
) -> None:
    """Red when the acknowledgement is not made on the caller's connection."""
    expected = reject(allocations, "v2", "v3")
    worker = office.hire()
    for trigger in worker:
        own.execute(EFFECT, [trigger.position])
        worker.acknowledge(trigger, connection=own)
        assert deliveries(allocations)[-1][3] == 0
        own.commit()
    assert effects(own) == expected
    assert deliveries(allocations) == [(position, 1, 1, 1) for position in expected]


@postgresql
def test_what_is_rolled_back_comes_again_and_nothing_is_lost(
    allocations: Allocations, office: Office, own: Own
) -> None:
    """Red when what a transaction was to acknowledge is not given back when that is undone."""
    (position,) = reject(allocations, "v2")
    worker = office.hire()
    trigger = next(worker)
    own.execute(EFFECT, [trigger.position])
    worker.acknowledge(trigger, connection=own)
    own.rollback()
    again = next(worker)
    assert (again.position, again.attempt) == (position, 2)
    own.execute(EFFECT, [again.position])
    worker.acknowledge(again, connection=own)
    own.commit()
    assert list(worker) == []
    assert effects(own) == [position]


@postgresql
def test_while_the_transaction_is_open_the_trigger_stays_with_its_worker(
    allocations: Allocations, office: Office, own: Own, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Red when it is waited for, or forgotten, before the transaction has ended."""
    first, second = reject(allocations, "v2", "v3")
    worker = office.hire()
    trigger = next(worker)
    worker.acknowledge(trigger, connection=own)
    with monkeypatch.context() as patched:
        patched.delattr(Deliveries, "settle")
        assert next(worker).position == second
        assert list(worker) == []
    assert worker._held == {(first, 1), (second, 1)}
    own.commit()
    assert list(worker) == []
    assert worker._held == {(second, 1)}


@postgresql
def test_who_did_not_hear_of_the_commit_can_t_double_its_effects(
    allocations: Allocations, office: Office, own: Own
) -> None:
    """Red when an acknowledgement in a transaction is idempotent, as one by itself is."""
    (position,) = reject(allocations, "v2")
    worker = office.hire()
    trigger = next(worker)
    worker.acknowledge(trigger, connection=own)
    own.execute(EFFECT, [trigger.position])
    own.commit()
    with pytest.raises(TriggerLost):
        handle(own, worker, trigger)
    assert effects(own) == [position]


@postgresql
def test_a_worker_that_lost_its_trigger_rolls_back(
    allocations: Allocations, office: Office, own: Own, time: Time
) -> None:
    """Red when a transaction's acknowledgement does not look at who holds the trigger."""
    (position,) = reject(allocations, "v2")
    paused, other = office.hire(), office.hire()
    lost = next(paused)
    time.pace = HOUR
    again = next(other)
    with pytest.raises(TriggerLost):
        handle(own, paused, lost)
    handle(own, other, again)
    assert effects(own) == [position]


@postgresql
def test_two_deliveries_in_open_transactions_are_one_effect(
    allocations: Allocations, office: Office, own: Own, store_url: str
) -> None:
    """The second one waits for the first, which commits, and is then refused.

    Red when `_ACKNOWLEDGE` passes over what is acknowledged.
    """
    (position,) = reject(allocations, "v2")
    worker = office.hire()
    trigger = next(worker)
    server, _, _ = store_url.rpartition("schema=")
    with psycopg.connect(server[:-1], application_name="second") as second, raw(store_url) as eye:
        worker.acknowledge(trigger, connection=own)
        own.execute(EFFECT, [position])

        def commit_when_the_other_waits() -> None:
            waits = "SELECT 1 FROM pg_stat_activity WHERE application_name = 'second'"
            while not eye.execute(f"{waits} AND wait_event_type = 'Lock'"):
                pass
            own.commit()

        refused, committed = in_threads(
            lambda: worker.acknowledge(trigger, connection=second), commit_when_the_other_waits
        )
    assert isinstance(refused, TriggerLost)
    assert committed is None
    assert effects(own) == [position]


@postgresql
def test_autocommit_is_refused_unless_a_transaction_is_open(
    allocations: Allocations, office: Office, own: Own
) -> None:
    """Red when `PostgresDesk.joined` does not look for a transaction."""
    (position,) = reject(allocations, "v2")
    worker = office.hire()
    trigger = next(worker)
    own.rollback()
    own.autocommit = True
    with pytest.raises(InvalidSetting, match="no transaction is open on it"):
        worker.acknowledge(trigger, connection=own)
    with own.transaction():
        worker.acknowledge(trigger, connection=own)
    assert deliveries(allocations) == [(position, 1, 1, 1)]


def test_what_is_no_connection_is_refused_in_words(
    allocations: Allocations, office: Office
) -> None:
    """Red when `joined` takes whatever it is given."""
    reject(allocations, "v2")
    worker = office.hire()
    trigger = next(worker)
    for wrong in ("postgresql://localhost", object(), psycopg.AsyncConnection):
        with pytest.raises(InvalidSetting, match=r"is no connection by (psycopg|sqlite3)"):
            worker.acknowledge(trigger, connection=wrong)
    worker.acknowledge(trigger)


@sqlite
def test_on_sqlite_effects_and_acknowledgement_are_committed_together(
    allocations: Allocations, office: Office, store_url: str
) -> None:
    """Red when what a transaction was to acknowledge is not given back when that is undone."""
    expected = reject(allocations, "v2", "v3")
    worker = office.hire()
    with closing(sqlite3.connect(store_url.removeprefix("sqlite:///"))) as connection:
        connection.execute("CREATE TABLE effects (position INTEGER)")
        trigger = next(worker)
        with pytest.raises(InvalidSetting, match="no transaction is open on it"):
            worker.acknowledge(trigger, connection=connection)
        connection.execute("INSERT INTO effects VALUES (?)", [trigger.position])
        worker.acknowledge(trigger, connection=connection)
        connection.rollback()
        for trigger in worker:
            connection.execute("INSERT INTO effects VALUES (?)", [trigger.position])
            worker.acknowledge(trigger, connection=connection)
            connection.commit()
        rows = connection.execute("SELECT position FROM effects ORDER BY 1").fetchall()
    assert [position for (position,) in rows] == expected
    assert [row[3] for row in deliveries(allocations)] == [1, 1]


def test_a_connection_that_was_closed_gives_the_trigger_back(durable_url: str) -> None:
    """Red when a closed connection counts as one with an open transaction, or is an error."""
    with (
        connect(durable_url) as allocations,
        allocations.triggers("loop", follow=False, lease=HOUR) as worker,
    ):
        expected = reject(allocations, "v2")
        trigger = next(worker)
        if durable_url.startswith("sqlite"):
            local = sqlite3.connect(durable_url.removeprefix("sqlite:///"))
            local.execute("BEGIN IMMEDIATE")
            worker.acknowledge(trigger, connection=local)
            local.close()
        else:
            remote = psycopg.connect(durable_url.rpartition("schema=")[0][:-1])
            worker.acknowledge(trigger, connection=remote)
            remote.close()
        assert positions(worker) == expected
