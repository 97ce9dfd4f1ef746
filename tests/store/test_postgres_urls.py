"""PostgreSQL URLs: options reach the server, and what can't work is said soon and in words."""

import socket
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest

from alloc_es import Allocations, InvalidSetting, StoreUnavailable, connect
from tests.support.postgres import PostgresServer
from tests.support.raw import raw, until

pytestmark = pytest.mark.postgresql

LOCKED_HBA = """
local all postgres  trust
local all all       scram-sha-256
"""


def test_options_of_a_url_reach_the_server(postgres_url: str) -> None:
    """Red when the options are written with + for a blank."""
    options = "application_name=my%20scheduler&connect_timeout=3&options=-c%20geqo%3Doff"
    with connect(f"{postgres_url}&{options}") as allocations, raw(postgres_url) as observer:
        allocations.workflow("acme", "triage").start("v1")
        applications = observer.execute("SELECT DISTINCT application_name FROM pg_stat_activity")
    assert ("my scheduler",) in applications


def test_a_process_opens_no_more_connections_than_its_url_says(postgres_url: str) -> None:
    """Red when the pool grows as it likes."""
    url = f"{postgres_url}&application_name=few&connections=4"
    with connect(url, timeout=60) as allocations, raw(postgres_url) as observer:
        keys = [allocations.workflow("acme", f"workflow-{number}") for number in range(64)]
        with ThreadPoolExecutor(64) as callers:
            list(callers.map(lambda workflow: workflow.start("v1"), keys))
        counted = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'few'"
        ((opened,),) = observer.execute(counted)
        assert len(allocations.list("acme")) == 64
    assert 1 < opened <= 4


@pytest.mark.parametrize("connections", ["0", "1001", "many", "-1", ""])
def test_no_number_of_connections_is_refused(connections: str) -> None:
    """Red when whatever stands there is taken for a number."""
    with pytest.raises(InvalidSetting) as refused:
        connect(f"postgresql://localhost/?connections={connections}")
    assert refused.value.setting == "connections"


def test_a_schema_of_a_url_keeps_stores_apart(postgres_url: str) -> None:
    """Red when the migration leaves the search path as it is."""
    with connect(postgres_url) as allocations:
        allocations.workflow("acme", "triage").start("v1")
    with raw(postgres_url) as database:
        assert {"decision_events", "run_events"} <= set(database.tables())
        in_public = "SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace"
        assert ("decision_events",) not in database.execute(in_public)


def test_a_port_where_nobody_listens_is_reported(free_port: int) -> None:
    """Red when a connection that was refused counts as hopeless."""
    with pytest.raises(StoreUnavailable) as refused:
        connect(f"postgresql://ada@127.0.0.1:{free_port}/alloc")
    assert f"PostgreSQL alloc on 127.0.0.1:{free_port}" in str(refused.value)
    assert refused.value.retryable


@pytest.mark.timeout(30)
def test_a_server_that_never_answers_is_reported_within_a_few_seconds() -> None:
    """Red when connecting has no timeout of its own: libpq then waits for minutes."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        with pytest.raises(StoreUnavailable) as refused:
            connect(f"postgresql://ada@127.0.0.1:{port}/alloc")
    assert refused.value.retryable


@pytest.fixture
def free_port() -> Iterator[int]:
    """A port that is held so that nobody else listens there."""
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        yield holder.getsockname()[1]


def test_a_database_or_role_that_does_not_exist_is_not_worth_a_retry(postgres_url: str) -> None:
    """Red when a failed login without an SQLSTATE counts as a server that is away."""
    for setting in ("dbname=no_such_database", "user=no_such_role"):
        with pytest.raises(StoreUnavailable, match="does not exist") as refused:
            connect(f"{postgres_url}&{setting}")
        assert not refused.value.retryable


def test_a_wrong_password_is_not_worth_a_retry_and_in_no_message() -> None:
    """Red when "authentication failed" is not among the phrases that are final."""
    with PostgresServer() as server:
        (server.home / "data" / "pg_hba.conf").write_text(LOCKED_HBA)
        with psycopg.connect(server.url, autocommit=True) as admin:
            admin.execute("CREATE ROLE ada LOGIN PASSWORD 'right'")
            admin.execute("GRANT CREATE ON DATABASE postgres TO ada")
        server.restart()
        url = server.url.replace("user=postgres", "user=ada")
        connect(f"{url}&password=right").close()
        with pytest.raises(StoreUnavailable, match="authentication failed") as refused:
            connect(f"{url}&password=wr0ng")
    assert (refused.value.retryable, "wr0ng" in str(refused.value)) == (False, False)


@pytest.mark.parametrize("setting", ["client_encoding=SQL_ASCII", "client_encoding=LATIN1"])
def test_the_encoding_of_a_connection_is_ours_to_choose(postgres_url: str, setting: str) -> None:
    """Red when `client_encoding` is left to the URL, the environment or the role."""
    with connect(f"{postgres_url}&{setting}") as allocations:
        allocations.workflow("acme", "триаж").start("v1")
        assert [found.workflow_id for found in allocations.list()] == ["триаж"]


def test_a_role_that_does_not_wait_for_the_disk_is_made_to(postgres_url: str) -> None:
    """Red when `synchronous_commit` stays off, and an acknowledged commit may be lost."""
    for asked, holds in (("off", "on"), ("local", "local")):
        options = f"options=-csynchronous_commit%3D{asked}"
        with connect(f"{postgres_url}&{options}") as allocations:
            recorder: Any = allocations._store.decisions.recorder
            with recorder.datastore.get_connection() as connection:
                row = connection.execute("SHOW synchronous_commit").fetchone()
        assert row == {"synchronous_commit": holds}


def test_a_renamed_schema_goes_on_working(postgres_url: str) -> None:
    """Red when a function holds the name of the schema, or of a table, that it was made in."""
    schema = postgres_url.partition("schema=")[2]
    with connect(postgres_url) as allocations:
        allocations.workflow("acme", "triage").start("v1")
    with raw(postgres_url) as database:
        database.execute(f"ALTER SCHEMA {schema} RENAME TO {schema}_r")
    renamed = f"{postgres_url}_r"
    with connect(renamed, migrate=False) as mine, connect(renamed, migrate=False) as others:
        workflow = mine.workflow("acme", "triage")
        assert workflow.spawn_run("run-1").generation == 1
        assert others.workflow("acme", "triage").register_challenger("v2").generation == 2
        assert workflow.spawn_run("run-2").generation == 2
        assert_decisions_wait_for_runs(renamed, mine)
    with raw(f"{postgres_url}_r") as database:
        database.execute(f"ALTER SCHEMA {schema}_r RENAME TO {schema}")


def assert_decisions_wait_for_runs(url: str, allocations: Allocations) -> None:
    """While a transaction holds the fence as runs do, a decision waits for its end."""
    workflow = allocations.workflow("acme", "triage")
    with raw(url) as holder, raw(url) as observer, ThreadPoolExecutor(1) as pool:
        holder.execute("BEGIN")
        holder.execute("SELECT share_fence(ARRAY[?])", workflow.key.stream)
        decision = pool.submit(workflow.promote_challenger, "v2")
        waits = (
            "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
            " AND classid = 'decision_events'::regclass::oid"
        )
        until(lambda: observer.execute(waits), "the decision waits at the fence")
        holder.execute("COMMIT")
        assert decision.result().generation == 3


def test_a_taken_position_is_a_fault_of_the_store_and_no_lost_race(postgres_url: str) -> None:
    """Red when every uniqueness error is taken for a conflict."""
    with connect(postgres_url, timeout=5) as allocations:
        workflow = allocations.workflow("acme", "triage")
        workflow.start("v1")
        workflow.spawn_run("run-1")
        with raw(postgres_url) as database:
            for table in ("decision_events", "run_events"):
                database.execute(f"ALTER TABLE {table} ALTER COLUMN notification_id RESTART WITH 1")
        with pytest.raises(StoreUnavailable, match="notification_id"):
            workflow.register_challenger("v2")
        with pytest.raises(StoreUnavailable, match="notification_id"):
            workflow.spawn_run("run-2")


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://me:se%zzcret@127.0.0.1:1/db",
        "postgresql://me:se@cret:x@127.0.0.1:1/db",
        "postgresql://127.0.0.1:1/db?password=secret&nonsense=1",
        "mysql://me:secret@127.0.0.1/db?password=secret",
    ],
)
def test_no_message_shows_a_password(url: str) -> None:
    """Red when libpq's own words, or the URL, go into a message."""
    with pytest.raises(InvalidSetting) as refused:
        connect(url)
    assert "cret" not in str(refused.value)


def test_a_role_without_rights_on_participants_is_told_which_it_needs(postgres_url: str) -> None:
    """Red when a role that is to be an incarnation is only told that it may not."""
    role = f"r_{uuid.uuid4().hex}"
    with connect(postgres_url) as launcher:
        launcher.workflow("acme", "triage").start("v1")
        held = launcher.new_incarnation("scheduler-a")
    url = f"{postgres_url}&options=-crole%3D{role}"
    with raw(postgres_url) as admin:
        admin.execute(f"CREATE ROLE {role}")
        try:
            admin.execute(f"GRANT USAGE ON SCHEMA {admin.schema} TO {role}")
            admin.execute(f"GRANT SELECT ON ALL TABLES IN SCHEMA {admin.schema} TO {role}")
            with connect(url, migrate=False) as allocations:
                with pytest.raises(StoreUnavailable, match="GRANT SELECT, INSERT, UPDATE") as found:
                    allocations.new_incarnation("scheduler-a")
                words = f"run: GRANT SELECT ON {admin.schema}.participants TO the role"
                assert (words in str(found.value), found.value.retryable) == (True, False)
            admin.execute(f"REVOKE SELECT ON participants FROM {role}")
            with (
                connect(url, migrate=False, incarnation=held) as allocations,
                pytest.raises(StoreUnavailable, match="run: GRANT SELECT ON "),
            ):
                allocations.workflow("acme", "triage").register_challenger("v2")
        finally:
            admin.execute(f"DROP OWNED BY {role}")
            admin.execute(f"DROP ROLE {role}")
