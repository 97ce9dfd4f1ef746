"""Given a store whose logs a forger can write, on each database that lasts."""

import pytest

from alloc_es import connect
from tests.audit.forging import Copy
from tests.audit.given import Logs, history
from tests.conftest import POSTGRESQL, SQLITE
from tests.support.postgres import with_schema


@pytest.fixture(scope="package")
def logs() -> Logs:
    """The logs of a store that keep every rule."""
    return history()


@pytest.fixture(scope="package", params=[SQLITE, POSTGRESQL])
def copy(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Copy:
    """A store that all tests of the package write their logs to, one after the other."""
    if request.param == "sqlite":
        url = f"sqlite:///{tmp_path_factory.mktemp('copy') / 'alloc.db'}"
    else:
        server = request.getfixturevalue("postgres_server")
        url = with_schema(server.url, "copy_of_a_log")
    with connect(url):
        return Copy(url)
