"""Given several empty stores at once."""

from collections.abc import Iterator

import pytest

from tests.support.raw import raw

ROUNDS = 10


@pytest.fixture
def empty_urls(durable_url: str) -> Iterator[list[str]]:
    """URLs of ten empty stores, once for each kind of store that outlives a process."""
    urls = [f"{durable_url}_{number}" for number in range(ROUNDS)]
    yield urls
    if durable_url.startswith("postgresql"):
        for url in urls:
            with raw(url) as database:
                database.execute("SET client_min_messages = 'warning'")
                database.execute(f"DROP SCHEMA IF EXISTS {database.schema} CASCADE")
