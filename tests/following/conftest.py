"""A client that follows, and what looks at it."""

from collections.abc import Iterator

import pytest

import alloc_es
from alloc_es import Allocations
from alloc_es.drill.proxy import Proxy
from tests.faults.admin import as_victim
from tests.following.backends import Backends, backends
from tests.following.tracing import Told
from tests.support.postgres import ExistingServer, PostgresServer


@pytest.fixture
def told() -> Told:
    return Told()


@pytest.fixture
def client(postgres_url: str) -> Iterator[Allocations]:
    """A client whose backends are known, more patient than any fault here is long."""
    with alloc_es.connect(as_victim(postgres_url), timeout=60) as made:
        yield made


@pytest.fixture
def behind(postgres_url: str) -> Iterator[Backends]:
    """The client's backends."""
    with backends(postgres_url) as found:
        yield found


@pytest.fixture
def proxy(postgres_server: PostgresServer | ExistingServer) -> Iterator[Proxy]:
    """A proxy in front of the tests' PostgreSQL."""
    with Proxy(postgres_server.url) as made:
        yield made
