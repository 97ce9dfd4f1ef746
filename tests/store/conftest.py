"""Given an open store with one workflow in it."""

from collections.abc import Iterator

import pytest

from alloc_es import Allocations, Workflow, connect


@pytest.fixture
def allocations(store_url: str) -> Iterator[Allocations]:
    """A connection to an empty store, once for each kind of store."""
    with connect(store_url, actor="ada") as opened:
        yield opened


@pytest.fixture
def workflow(allocations: Allocations) -> Workflow:
    """A workflow that runs v1 and has no challenger: generation 1."""
    handle = allocations.workflow("acme", "triage")
    handle.start("v1")
    return handle
