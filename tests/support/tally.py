"""Which stores a run of the tests has exercised, and whether that will do."""

import os
from collections import Counter

import pytest

REQUIRE_POSTGRES = "ALLOC_ES_REQUIRE_POSTGRES"

STORES = ("memory", "sqlite", "postgresql")


class StoreTally:
    """Counts the outcomes of tests per store and refuses a full run without PostgreSQL.

    It reads nothing but reports, which workers send to the process that started them.
    """

    def __init__(self) -> None:
        self.passed: Counter[str] = Counter()
        self.skipped: Counter[str] = Counter()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        stores = [str(value) for name, value in report.user_properties if name == "store"]
        if report.skipped:
            self.skipped.update(stores)
        elif report.when == "call" and report.passed:
            self.passed.update(stores)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self.complaint(session.config):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        counts = ", ".join(f"{store} {self.passed[store]}" for store in STORES)
        terminalreporter.write_line(f"stores exercised: {counts}")
        if complaint := self.complaint(terminalreporter.config):
            terminalreporter.write_line(complaint, red=True)

    def complaint(self, config: pytest.Config) -> str:
        """What is wrong with a full run that had to exercise PostgreSQL, or nothing."""
        if os.environ.get(REQUIRE_POSTGRES) != "1" or not _is_full_run(config):
            return ""
        if skipped := self.skipped["postgresql"]:
            return f"{REQUIRE_POSTGRES}=1, but {skipped} PostgreSQL tests were skipped"
        if not self.passed["postgresql"]:
            return f"{REQUIRE_POSTGRES}=1, but no PostgreSQL test passed"
        return ""


def note_stores(item: pytest.Item) -> None:
    """Have the reports of a test say on which stores it runs, as its markers do."""
    marks = {mark.name for mark in item.iter_markers()}
    item.user_properties.extend(("store", store) for store in STORES if store in marks)


def _is_full_run(config: pytest.Config) -> bool:
    narrowing = ("collectonly", "deselect", "ignore", "ignore_glob", "keyword", "lf", "markexpr")
    narrowed = any(config.getoption(name) for name in narrowing)
    return config.args_source is pytest.Config.ArgsSource.TESTPATHS and not narrowed
