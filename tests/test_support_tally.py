"""The tally of stores: what it refuses, in one process and when workers run the tests."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.tally import REQUIRE_POSTGRES

ROOT = Path(__file__).parents[1]

SETTINGS = """
[tool.pytest]
testpaths = ["checks"]
strict_markers = true
markers = ["memory", "sqlite", "postgresql"]
"""

CONFTEST = """
from tests.support.tally import StoreTally, note_stores

def pytest_configure(config):
    config.pluginmanager.register(StoreTally())

def pytest_collection_modifyitems(items):
    for item in items:
        note_stores(item)
"""

CHECKS = """
import pytest

@pytest.mark.sqlite
@pytest.mark.parametrize("number", range(4))
def test_sqlite(number):
    pass

@pytest.mark.{store}
def test_another():
    {what}
"""

serially_and_by_workers = pytest.mark.parametrize("workers", ["0", "2"])


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project that keeps a tally."""
    (tmp_path / "checks").mkdir()
    (tmp_path / "pyproject.toml").write_text(SETTINGS)
    (tmp_path / "checks/conftest.py").write_text(CONFTEST)
    return tmp_path


def ended(
    project: Path, *arguments: str, store: str = "postgresql", what: str = "pass"
) -> tuple[int, list[str]]:
    """The exit code of a run of the project's tests, and what the tally says at its end."""
    (project / "checks/test_stores.py").write_text(CHECKS.format(store=store, what=what))
    others = {key: text for key, text in os.environ.items() if not key.startswith("PYTEST_")}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "xdist.plugin", *arguments],
        cwd=project,
        env={
            **others,
            REQUIRE_POSTGRES: "1",
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            "PYTHONPATH": str(ROOT),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    _, told = done.stdout.split("stores exercised: ")
    return done.returncode, [line for line in told.splitlines() if not line.startswith("=")]


@serially_and_by_workers
def test_a_full_run_on_all_stores_counts_the_tests_of_each(project: Path, workers: str) -> None:
    """Red when what is counted is known to the process alone that runs the test."""
    assert ended(project, "-n", workers) == (0, ["memory 0, sqlite 4, postgresql 1"])


@serially_and_by_workers
def test_a_full_run_that_skipped_a_test_on_postgresql_is_refused(
    project: Path, workers: str
) -> None:
    """Red when what is skipped passes for exercised, or a run by workers for a narrowed one."""
    assert ended(project, "-n", workers, what="pytest.skip('no server')") == (
        1,
        [
            "memory 0, sqlite 4, postgresql 0",
            f"{REQUIRE_POSTGRES}=1, but 1 PostgreSQL tests were skipped",
        ],
    )


def test_a_full_run_without_a_test_on_postgresql_is_refused(project: Path) -> None:
    """Red when it is enough that nothing was skipped."""
    assert ended(project, store="memory") == (
        1,
        [
            "memory 1, sqlite 4, postgresql 0",
            f"{REQUIRE_POSTGRES}=1, but no PostgreSQL test passed",
        ],
    )


@pytest.mark.parametrize("narrowed", [["-k", "sqlite"], ["checks/test_stores.py"]])
def test_a_narrowed_run_need_not_exercise_postgresql(project: Path, narrowed: list[str]) -> None:
    """Red when somebody who runs one file is told to run them all."""
    assert ended(project, *narrowed, store="memory")[0] == 0
