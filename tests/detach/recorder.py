"""A pytest plugin that writes what became of each test to the file `ALLOC_ES_DETACH_RECORD`."""

import json
import os

import pytest

RECORD = "ALLOC_ES_DETACH_RECORD"


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """A line for each phase of each test."""
    if report.when == "call" or not report.passed:
        _write(report.nodeid, "failed" if report.failed else report.outcome)


def pytest_collectreport(report: pytest.CollectReport) -> None:
    """A line for each file that can't be collected."""
    if report.failed:
        _write(report.nodeid, "uncollectable")


def _write(test: str, outcome: str) -> None:
    with open(os.environ[RECORD], "a") as record:
        record.write(json.dumps([test, outcome]) + "\n")
