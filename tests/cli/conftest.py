"""What the tests of `spawn --from` share; files that begin otherwise have fixtures of their own."""

import pytest

import alloc_es
from tests.cli.terminal import Terminal


@pytest.fixture
def terminal(durable_url: str) -> Terminal:
    return started(durable_url)


@pytest.fixture
def sqlite(sqlite_url: str) -> Terminal:
    return started(sqlite_url)


def started(url: str) -> Terminal:
    with alloc_es.connect(url, actor="operator") as allocations:
        for workflow_id in ("triage", "other"):
            workflow = allocations.workflow("acme", workflow_id)
            workflow.start("v1")
            workflow.register_challenger("v2", 3000)
    return Terminal(url)
