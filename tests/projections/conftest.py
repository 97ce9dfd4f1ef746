"""Given an open store, whose clock goes on by a second with each look at it."""

from collections.abc import Iterator

import pytest

from alloc_es import Allocations
from tests.projections.writing import opened


@pytest.fixture
def allocations(store_url: str) -> Iterator[Allocations]:
    """A connection to an empty store, once for each kind of store."""
    with opened(store_url) as connected:
        yield connected


@pytest.fixture
def durable(durable_url: str) -> Iterator[Allocations]:
    """A connection to an empty store that outlives a process, once for each kind."""
    with opened(durable_url) as connected:
        yield connected
