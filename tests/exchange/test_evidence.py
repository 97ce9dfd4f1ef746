"""An export answers what the store would answer."""

import shutil
import sqlite3
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from alloc_es import WorkflowKey
from alloc_es.errors import UnreadableEvent
from alloc_es.events import Recorded
from alloc_es.evidence import Unreadable, open_evidence
from alloc_es.exchange import Format, export
from alloc_es.identity import RunId, TenantId
from tests.exchange.given import (
    FORMATS,
    ODD_RUNS,
    QUOTED,
    exported,
    fill,
    looked_at,
    opened,
    stored,
    told,
)
from tests.support.raw import DECISIONS, RUNS


def test_an_export_has_the_rows_of_the_store(odd_url: str, export_path: Path) -> None:
    """Red when a row is left out, or a byte of one differs: with blanks, of an old schema."""
    assert looked_at(export_path) == looked_at(odd_url)
    with open_evidence(odd_url) as store, open_evidence(export_path) as held:
        assert held.ends() == store.ends()
        assert told(held.decisions()) == told(store.decisions())
        assert told(held.runs()) == told(store.runs())


def test_what_can_not_be_read_is_there_too(export_path: Path) -> None:
    """Red when an event that no release knows is left out of an export, or of its evidence."""
    with open_evidence(export_path) as held:
        *_, run = held.runs()
        *_, decision = held.decisions()
    assert isinstance(run, Unreadable)
    assert isinstance(decision, Unreadable)
    assert (run.error.topic, decision.error.unreadable) == (
        "RunGuessed",
        "its schema version is 99, known is 2",
    )


@pytest.mark.parametrize(
    ("after", "up_to"),
    [(0, 1), (3, 7), (6, 6), (11, 20_012), (12, 20_011), (20_012, 20_014), (20_017, 99_999)],
)
def test_a_range_of_positions_is_found_in_the_file(
    odd_url: str, export_path: Path, after: int, up_to: int
) -> None:
    """Red when a search for a position ends a line, or a row group, beside it."""
    with open_evidence(odd_url) as store, open_evidence(export_path) as held:
        expected = [row for row in store.stored("runs") if after < row.position <= up_to]
        assert list(held.stored("runs", after, up_to)) == expected
        assert told(held.runs(after, up_to)) == told(store.runs(after, up_to))
        decisions = [row for row in store.stored("decisions") if after < row.position <= up_to]
        assert list(held.stored("decisions", after, up_to)) == decisions


def test_the_parts_of_an_export_are_the_whole(odd_url: str, export_path: Path) -> None:
    """Red when a run lies in no part, or in two."""
    with open_evidence(export_path) as held:
        parts = [row for part in held.parts() for row in held.stored("runs", *part)]
    assert parts == looked_at(odd_url)[1]


def test_a_workflow_and_a_run_are_found(odd_url: str, export_path: Path) -> None:
    """Red when a stream is looked up by what stands unescaped in the file."""
    key = WorkflowKey.parse("acme", "triage/é")
    with open_evidence(odd_url) as store, open_evidence(export_path) as held:
        assert held.history(key) == store.history(key) != []
        assert held.history(WorkflowKey.parse("acme", "other")) == []
        for run_id in map(RunId, (f"{QUOTED} 3", *ODD_RUNS)):
            found = held.run(TenantId(QUOTED), run_id)
            assert found == store.run(TenantId(QUOTED), run_id)
            assert found is not None
        assert held.run(key.tenant_id, RunId("of today")) is None


def test_a_history_that_can_not_be_read_is_an_error(export_path: Path) -> None:
    """Red when what can't be read is left out of a history."""
    with open_evidence(export_path) as held, pytest.raises(UnreadableEvent):
        held.history(WorkflowKey.parse(QUOTED, QUOTED))


def test_an_empty_store_has_an_export(store_url: str, tmp_path: Path) -> None:
    """Red when the beginning or the end of an export takes an event for granted."""
    with opened(store_url) as allocations, open_evidence(allocations) as store:
        for format in FORMATS:
            with open_evidence(exported(store, tmp_path, format)) as held:
                assert held.ends() == {"decisions": 0, "runs": 0}
                assert (list(held.decisions()), list(held.runs()), held.parts()) == ([], [], [])


def test_every_store_is_exported_alike(store_url: str, tmp_path: Path) -> None:
    """Red when what is stored depends on where, or a page of rows is read twice."""
    with opened(store_url) as allocations:
        fill(allocations, runs=1_200)
        with open_evidence(allocations) as store:
            expected = stored(store)
            for format in FORMATS:
                assert looked_at(exported(store, tmp_path, format)) == expected


def test_text_where_bytes_belong_is_no_event_in_an_export_either(
    made: Path, tmp_path: Path
) -> None:
    """Red when what a store does not read as an event is one in its export, or a `TypeError`."""
    path = Path(shutil.copy(made / "alloc.db", tmp_path))
    with closing(sqlite3.connect(path)) as database, database:
        for table, changed, as_stored in ((RUNS, 3, "9"), (DECISIONS, 4, "5")):
            database.execute(f"DROP TRIGGER {table}_no_update")
            update = f"UPDATE {table} SET state = {{}} WHERE notification_id = {{}}"
            database.execute(update.format("CAST(state AS TEXT)", changed))
            database.execute(update.format(as_stored, changed + 1))
    with open_evidence(f"sqlite:///{path}") as store:
        for format in FORMATS:
            with open_evidence(exported(store, tmp_path, format)) as held:
                assert stored(held) == stored(store)
                assert unreadable(held.runs()) == unreadable(store.runs())
                assert unreadable(held.runs()).keys() >= {3, 4}
                assert unreadable(held.decisions()) == unreadable(store.decisions())
                assert unreadable(held.decisions()).keys() >= {4, 5}
                for evidence in (store, held):
                    with pytest.raises(UnreadableEvent):
                        evidence.history(WorkflowKey.parse("acme", "triage/é"))
                    with pytest.raises(UnreadableEvent):
                        evidence.run(TenantId("acme"), RunId("early 2"))


def test_a_row_below_all_positions_is_not_left_out(
    made: Path, tmp_path: Path, format: Format
) -> None:
    """Red when an export lacks a row of the store and does not say so."""
    path = Path(shutil.copy(made / "alloc.db", tmp_path))
    for table in (RUNS, DECISIONS):
        with closing(sqlite3.connect(path)) as database, database:
            database.execute("PRAGMA ignore_check_constraints = ON")
            database.execute(f"DROP TRIGGER {table}_append")
            database.execute(
                f"INSERT INTO {table} SELECT -5, 'elsewhere', 1, topic, state FROM {table} LIMIT 1"
            )
        with (
            open_evidence(f"sqlite:///{path}") as store,
            pytest.raises(UnreadableEvent, match=r"of elsewhere.*it lies at position -5"),
        ):
            exported(store, tmp_path, format)
    assert sorted(tmp_path.iterdir()) == [path]


def unreadable(entries: Iterable[Recorded[Any] | Unreadable]) -> dict[int, str]:
    """Position of each row that is no event → the digest of its bytes."""
    return {each.position: each.digest for each in entries if isinstance(each, Unreadable)}


def test_an_export_of_an_export_is_the_same_in_both_formats(
    made: Path, export_path: Path, tmp_path: Path
) -> None:
    """Red when something of the log is in one format only, or a file says when it was made."""
    with open_evidence(export_path) as held:
        export(held, tmp_path / "again.jsonl")
        export(held, tmp_path / "again", format="parquet")
    assert (tmp_path / "again.jsonl").read_bytes() == (made / "log.jsonl").read_bytes()
    names = sorted(path.name for path in (made / "log").iterdir())
    assert sorted(path.name for path in (tmp_path / "again").iterdir()) == names
    for name in names:
        assert (tmp_path / "again" / name).read_bytes() == (made / "log" / name).read_bytes()
