"""PostgreSQL URLs: options reach the server, and what can't work is said soon and in words."""

import socket
from collections.abc import Iterator

import psycopg
import pytest

from alloc_es import StoreUnavailable, connect
from tests.support.postgres import PostgresServer
from tests.support.raw import raw

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
