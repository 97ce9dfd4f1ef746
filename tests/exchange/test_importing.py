"""An imported log is the one that was exported, or nothing is there."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from alloc_es import Allocations, connect
from alloc_es.errors import InvalidSetting
from alloc_es.evidence import open_evidence
from alloc_es.exchange import Format, Imported, export, import_
from alloc_es.exchange.errors import ExportDamaged, ImportRefused, StoreNotEmpty
from tests.docs.test_blocks import schema_of, server_of
from tests.exchange.given import exported, fill, looked_at, opened, sealed, spawn
from tests.projections.reading import rows
from tests.support.raw import RUNS, raw

KEY = ("acme", "triage/é")


@contextmanager
def empty(url: str) -> Iterator[Allocations]:
    with connect(url, actor="ada") as allocations:
        yield allocations


def models(allocations: Allocations) -> dict[str, list[tuple[object, ...]]]:
    """Every row of every read model, once they have caught up."""
    projections = allocations.projections()
    for name in projections.known:
        projections.catch_up(name)
    relations = [each for model in projections.known.values() for each in model.relations]
    return {relation: rows(allocations, relation) for relation in relations}


def test_both_databases_hold_the_same_in_the_end(
    postgres_url: str, sqlite_url: str, tmp_path: Path, format: Format
) -> None:
    """Red when a position, a byte or a row of a read model differs: from PostgreSQL to SQLite,
    and back again.
    """
    with opened(postgres_url) as allocations:
        fill(allocations)
        burn_positions(postgres_url)
        spawn(allocations, KEY, "late", 3)
        expected = models(allocations)
        with open_evidence(allocations) as store:
            first = exported(store, tmp_path, format)
    assert [row.position for row in looked_at(first)[1]][-4:] == [12, 15, 16, 17]
    with empty(sqlite_url) as allocations:
        assert import_(first, allocations) == Imported(
            allocations.store, {"decisions": 9, "runs": 17}, 9, 15
        )
        assert models(allocations) == expected
        with open_evidence(allocations) as store:
            export(store, tmp_path / "second", format=format)
    assert looked_at(tmp_path / "second") == looked_at(first)
    with empty(f"{postgres_url}_again") as allocations:
        import_(tmp_path / "second", allocations)
        assert models(allocations) == expected
    assert looked_at(f"{postgres_url}_again") == looked_at(first)
    with psycopg.connect(server_of(postgres_url), autocommit=True) as connection:
        connection.execute(f'DROP SCHEMA "{schema_of(postgres_url)}_again" CASCADE'.encode())


def burn_positions(url: str) -> None:
    """Draw two positions of runs that are not used, as a group does that is undone."""
    with raw(url) as database:
        for _ in range(2):
            database.execute(
                "SELECT nextval(pg_get_serial_sequence('run_events', 'notification_id'))"
            )


def test_work_goes_on_behind_what_was_imported(durable_url: str, odd_url: str, made: Path) -> None:
    """Red when the next position is not behind the last one, or a generation not known."""
    with opened(durable_url) as allocations:
        import_(made / "log.jsonl", allocations)
        ends = (allocations.position(), allocations.position("runs"))
        assert ends == (16, 20_017)
        workflow = allocations.workflow(*KEY)
        known = workflow.spawn_run("early 2", unit="early 2")
        assert known.replayed
        assert workflow.spawn_run("new").decision_position == 16
        assert workflow.register_challenger("v9", command_id="new").generation == 7
        assert allocations.position() == 17
        # The look for the known run has drawn a position in PostgreSQL.
        assert allocations.position("runs") in (20_018, 20_019)
    assert looked_at(durable_url)[1][:-1] == looked_at(odd_url)[1]


@pytest.mark.parametrize("table", ["decisions", "runs"])
def test_a_store_that_holds_an_event_is_refused(durable_url: str, made: Path, table: str) -> None:
    """Red when an import looks at one of the logs only."""
    with opened(durable_url) as allocations:
        if table == "decisions":
            allocations.workflow(*KEY).start("v1")
        else:
            with raw(durable_url) as database:
                database.insert(RUNS, ("run/acme/1", 1, "RunSpawned", b"{}"))
        with pytest.raises(StoreNotEmpty) as refused:
            import_(made / "log.jsonl", allocations)
        assert refused.value.where == allocations.store
        assert allocations.position() + allocations.position("runs") == 1


def test_one_in_memory_is_refused(made: Path) -> None:
    """Red when somebody waits for an import that nobody can ever read."""
    with connect("memory:") as allocations, pytest.raises(InvalidSetting, match="in memory"):
        import_(made / "log.jsonl", allocations)


def test_nothing_is_imported_of_what_is_damaged(durable_url: str, lines: Path) -> None:
    """Red when rows are committed before the last one was read."""
    written = lines.read_bytes().splitlines(keepends=True)
    written[27] = written[27].replace(b'"bucket":', b'"bucket":1')
    lines.write_bytes(sealed(written))
    with opened(durable_url) as allocations:
        with pytest.raises(ExportDamaged) as refused:
            import_(lines, allocations)
        assert refused.value.line == 28
        assert (allocations.position(), allocations.position("runs")) == (0, 0)
        fill(allocations)
        assert allocations.position() == 9


def test_nothing_is_imported_that_the_store_forbids(durable_url: str, lines: Path) -> None:
    """Red when the rules of the tables are put aside for an import."""
    written = lines.read_bytes().splitlines(keepends=True)
    lines.write_bytes(sealed([*written[:2], *written[3:]]))
    with opened(durable_url) as allocations:
        with pytest.raises(ImportRefused) as refused:
            import_(lines, allocations)
        assert refused.value.path == str(lines)
        assert "generation" in refused.value.problem
        assert (allocations.position(), allocations.position("runs")) == (0, 0)


def test_runs_of_release_0_1_are_imported_and_no_other_is_let_in(
    durable_url: str, made: Path, tmp_path: Path
) -> None:
    """Red when a rule that old runs were let off is in their way, or gone behind them."""
    old = tmp_path / "old.db"
    old.write_bytes((made / "alloc.db").read_bytes())
    unverified = b'"decision_position":null'
    with sqlite3.connect(old) as connection:
        connection.execute("DROP TRIGGER run_events_no_update")
        for position in (2, 20_013):
            ((state,),) = connection.execute(
                "SELECT state FROM run_events WHERE notification_id = ?", (position,)
            )
            head, _, tail = state.partition(b'"decision_position":')
            state = head + unverified + tail[tail.index(b",") :]
            connection.execute(
                "UPDATE run_events SET state = ? WHERE notification_id = ?", (state, position)
            )
    with open_evidence(f"sqlite:///{old}") as store:
        path = exported(store, tmp_path, "cloudevents")
    with opened(durable_url) as allocations:
        import_(path, allocations)
        with raw(durable_url) as database, pytest.raises((sqlite3.Error, psycopg.Error)):
            database.insert(RUNS, ("run/acme/late", 1, "RunSpawned", b"{%s}" % unverified))
    found = looked_at(durable_url)[1]
    assert [row.position for row in found if unverified in row.state] == [2, 20_013]
    assert found == looked_at(path)[1]
