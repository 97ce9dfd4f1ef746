"""Stores to test on, and the marks by which a run tells which of them it has exercised."""

import signal
import uuid
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from hypothesis import settings
from psycopg import sql

from tests.support.postgres import ExistingServer, PostgresServer, server_for_tests, with_schema
from tests.support.tally import StoreTally, note_stores

MEMORY = pytest.param("memory", marks=pytest.mark.memory, id="memory")
SQLITE = pytest.param("sqlite", marks=pytest.mark.sqlite, id="sqlite")
POSTGRESQL = pytest.param("postgresql", marks=pytest.mark.postgresql, id="postgresql")

STORE_OF_FIXTURE = {"sqlite_url": "sqlite", "postgres_url": "postgresql"}

# Hypothesis itself loads "ci" where it recognises one; a run there and here must be the same.
for profile in ("default", "ci"):
    settings.register_profile(profile, deadline=None, derandomize=True, print_blob=True)
settings.load_profile("default")


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer | ExistingServer]:
    """The PostgreSQL server that all tests of a run, or of its worker, share.

    A test that stops one makes its own.
    """
    with server_for_tests() as server:
        yield server


@pytest.fixture
def postgres_url(postgres_server: PostgresServer | ExistingServer) -> Iterator[str]:
    """A store URL on PostgreSQL with a schema that no other test uses."""
    schema = f"t_{uuid.uuid4().hex}"
    yield with_schema(postgres_server.url, schema)
    _drop_schema(postgres_server.url, schema)


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    """A store URL of a SQLite file that does not exist yet."""
    return f"sqlite:///{tmp_path / 'alloc.db'}"


@pytest.fixture(params=[MEMORY, SQLITE, POSTGRESQL])
def store_url(request: pytest.FixtureRequest) -> str:
    """The URL of an empty store, once for each kind of store."""
    return _store_url(request)


@pytest.fixture(params=[SQLITE, POSTGRESQL])
def durable_url(request: pytest.FixtureRequest) -> str:
    """The URL of an empty store that outlives a process, once for each kind of store."""
    return _store_url(request)


def _store_url(request: pytest.FixtureRequest) -> str:
    match request.param:
        case "memory":
            return "memory:"
        case "sqlite":
            return str(request.getfixturevalue("sqlite_url"))
        case "postgresql":
            return str(request.getfixturevalue("postgres_url"))
        case other:
            raise AssertionError(f"no store is called {other!r}")


def _drop_schema(url: str, schema: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        # A test that left a transaction open fails here and now instead of hanging.
        connection.execute("SET lock_timeout = '10s'")
        statement = sql.SQL("DROP SCHEMA IF EXISTS {} CASCADE").format(sql.Identifier(schema))
        connection.execute("SET client_min_messages = 'warning'")
        connection.execute(statement)


def pytest_configure(config: pytest.Config) -> None:
    # A shell starts what it sends to the background deaf to Ctrl-C, and so would be the
    # commands that tests start and interrupt.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    config.pluginmanager.register(StoreTally(), "store-tally")


# First, so that `-m postgresql` sees the markers.
@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        _mark_by_fixture(item)
        note_stores(item)


def _mark_by_fixture(item: pytest.Item) -> None:
    for fixture, store in STORE_OF_FIXTURE.items():
        if isinstance(item, pytest.Function) and fixture in item.fixturenames:
            item.add_marker(store)
