"""Given a filled store, on each database that lasts."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.archive.filling import Filled, filled


@pytest.fixture
def store(durable_url: str, tmp_path: Path) -> Iterator[Filled]:
    """A store with 12 runs, none of which is archived."""
    with filled(durable_url, tmp_path) as found:
        yield found


@pytest.fixture
def sqlite_store(sqlite_url: str, tmp_path: Path) -> Iterator[Filled]:
    """The same, on SQLite only."""
    with filled(sqlite_url, tmp_path) as found:
        yield found
