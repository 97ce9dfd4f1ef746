"""Given a store with two workflows of one tenant and one of another, and a gate before it."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from alloc_es import Allocations, Workflow, connect
from tests.groups.gate import Gate

KEYS = (("acme", "triage"), ("acme", "billing"), ("beta", "triage"))


@pytest.fixture
def allocations(store_url: str) -> Iterator[Allocations]:
    """A connection to each kind of store, with three workflows that run v1."""
    with connect(store_url, actor="ada", timeout=30) as opened:
        start_all(opened)
        yield opened


@pytest.fixture
def durable(durable_url: str) -> Iterator[Allocations]:
    """The same, for stores that another connection can reach."""
    with connect(durable_url, actor="ada", timeout=30) as opened:
        start_all(opened)
        yield opened


@pytest.fixture
def workflow(allocations: Allocations) -> Workflow:
    """A workflow that runs v1 and has no challenger: generation 1."""
    return allocations.workflow(*KEYS[0])


@pytest.fixture
def gate(allocations: Allocations) -> Gate:
    """What stands before the recorder of `allocations`."""
    return Gate(allocations)


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    """Threads for as many callers as a test has."""
    with ThreadPoolExecutor(128) as made:
        yield made


def start_all(allocations: Allocations) -> None:
    """Start the three workflows."""
    for key in KEYS:
        allocations.workflow(*key).start("v1")
