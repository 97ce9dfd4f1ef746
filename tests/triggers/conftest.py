"""A store with a time that stands still, and workers of its consumers."""

from collections.abc import Iterator

import pytest

from alloc_es import Allocations, Patience, connect
from tests.faults.conftest import client, impatient, proxied_url, proxy, witness
from tests.triggers.workers import Office, Time

__all__ = ["client", "impatient", "proxied_url", "proxy", "witness"]


@pytest.fixture
def time() -> Time:
    """The monotonic clock of every worker; it moves when it is told to."""
    return Time()


@pytest.fixture
def allocations(store_url: str, time: Time) -> Iterator[Allocations]:
    """A connection to an empty store, once for each kind of store."""
    with connect(store_url, actor="scheduler-a", patience=patience(time)) as opened:
        yield opened


@pytest.fixture
def office(allocations: Allocations) -> Iterator[Office]:
    """Where workers are hired; they leave when the test is over."""
    with Office(allocations) as opened:
        yield opened


def patience(time: Time) -> Patience:
    return Patience(60, sleep=time.sleep, monotonic=time.monotonic)
