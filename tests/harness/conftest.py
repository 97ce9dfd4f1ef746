"""Participants in each mode, on each durable store, shared by the tests of a module."""

import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import get_args

import pytest

from alloc_es import Workflow, WorkflowKey
from alloc_es.harness import Launcher, Mode
from tests.conftest import POSTGRESQL, SQLITE
from tests.support.postgres import ExistingServer, PostgresServer, with_schema

MODES: tuple[Mode, ...] = get_args(Mode)
ROLES = ("scheduler", "spawner")


@pytest.fixture(scope="module", params=[SQLITE, POSTGRESQL])
def crew(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Launcher]:
    """A scheduler and a spawner in each mode, named "process scheduler" and so on."""
    with Launcher(_url(request, tmp_path_factory.mktemp("crew")), threads=12) as launcher:

        def start(mode: Mode, role: str) -> None:
            launcher.start(f"{mode} {role}", role, ["acme", "beta"], mode=mode, threads=2)

        with ThreadPoolExecutor(2) as starting:
            started = [starting.submit(start, mode, role) for mode in MODES for role in ROLES]
            for each in started:
                each.result()
        yield launcher


def _url(request: pytest.FixtureRequest, directory: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{directory / 'alloc.db'}"
    server: PostgresServer | ExistingServer = request.getfixturevalue("postgres_server")
    # Left behind: the server of a run is gone with it.
    return with_schema(server.url, f"t_{uuid.uuid4().hex}")


@pytest.fixture
def contested(crew: Launcher) -> Callable[[str], Workflow]:
    """Makes a workflow that no other test uses, with a challenger; its id begins as asked."""

    def make(kind: str = "any") -> Workflow:
        key = WorkflowKey.parse("acme", f"{kind}-{uuid.uuid4().hex}")
        workflow = crew.allocations.workflow(*key)
        workflow.start("v1")
        workflow.register_challenger("v2")
        return workflow

    return make
