"""The database refuses a run that was verified nowhere, whoever writes it."""

import pytest

from alloc_es import connect
from tests.support.raw import REFUSED, RUNS, raw


def test_a_run_without_a_decision_position_is_refused_by_the_database(durable_url: str) -> None:
    """Red when the tables take what a release without the fence writes."""
    with connect(durable_url) as allocations:
        workflow = allocations.workflow("acme", "triage")
        workflow.start("v1")
        workflow.spawn_run("run-1")

    with raw(durable_url) as database:
        ((_, stream, version, topic, state),) = database.rows(RUNS)
        unverified = state.replace(b'"decision_position":1,', b'"decision_position":null,')
        assert unverified != state

        with pytest.raises(REFUSED):
            database.insert(RUNS, (f"{stream}0", version, topic, unverified))
        database.insert(RUNS, (f"{stream}0", version, topic, state))


def test_an_id_that_reads_like_an_unverified_run_is_recorded(durable_url: str) -> None:
    """Red when the database looks for the words alone, without the quotation marks."""
    name = '"decision_position":null'

    with connect(durable_url) as allocations:
        workflow = allocations.workflow("acme", "triage")
        workflow.start("v1")

        assert workflow.spawn_run(name, unit=name, actor=name).unit == name
