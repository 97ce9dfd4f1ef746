"""A client behind a proxy that fails on order, and a witness that sees the log directly."""

from collections.abc import Iterator

import pytest

import alloc_es
from alloc_es import Allocations
from alloc_es.drill.proxy import Proxy
from tests.faults.admin import Admin, as_victim
from tests.support.postgres import ExistingServer, PostgresServer

SHORT = 0.5
"""A patience in seconds for calls that are meant to run out of it."""


@pytest.fixture
def proxy(postgres_server: PostgresServer | ExistingServer) -> Iterator[Proxy]:
    """A proxy in front of the tests' PostgreSQL."""
    with Proxy(postgres_server.url) as made:
        yield made


@pytest.fixture
def witness(postgres_url: str) -> Iterator[Allocations]:
    """A client that reaches the store past the proxy."""
    with alloc_es.connect(postgres_url, actor="witness") as made:
        yield made


@pytest.fixture
def proxied_url(postgres_url: str, proxy: Proxy, witness: Allocations) -> str:
    """The witness's store, through the proxy."""
    assert witness.position() == 0
    return proxy.url_of(postgres_url)


@pytest.fixture
def client(proxied_url: str) -> Iterator[Allocations]:
    """A client behind the proxy, more patient than any fault here is long."""
    with alloc_es.connect(proxied_url, actor="client", timeout=60) as made:
        yield made


@pytest.fixture
def impatient(proxied_url: str) -> Iterator[Allocations]:
    """A client behind the proxy that soon gives up."""
    with alloc_es.connect(proxied_url, actor="client", timeout=SHORT) as made:
        yield made


@pytest.fixture
def admin(postgres_server: PostgresServer | ExistingServer, postgres_url: str) -> Iterator[Admin]:
    made = Admin(postgres_server.url, postgres_url)
    yield made
    made.close()


@pytest.fixture
def victim(postgres_url: str) -> Iterator[Allocations]:
    with alloc_es.connect(as_victim(postgres_url), actor="victim", timeout=60) as made:
        yield made


@pytest.fixture
def impatient_victim(postgres_url: str, witness: Allocations) -> Iterator[Allocations]:
    assert witness.position() == 0
    with alloc_es.connect(as_victim(postgres_url), actor="victim", timeout=SHORT) as made:
        yield made
