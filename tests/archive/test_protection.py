"""The database lets a run go only behind its archive, whoever asks; and whoever may spawn, may."""

import uuid
from collections.abc import Iterator

import psycopg
import pytest

from alloc_es import connect
from alloc_es.store import schema
from tests.archive.filling import KEY, Filled
from tests.support.raw import REFUSED, Raw, raw
from tests.support.raw import RUNS as TABLE

KEEP_IDS = (
    "INSERT INTO archived_runs (originator_id, position)"
    " SELECT originator_id, notification_id FROM run_events WHERE notification_id <= {0}"
)
KEEP_ARCHIVE = (
    "INSERT INTO run_archives (name, last_position, runs, digest, archived_at)"
    " VALUES ('by hand', {0}, 3, '', '2026-03-01T00:00:00Z')"
)
TAKE_OUT = "DELETE FROM run_events WHERE notification_id <= {0}"

SHORT_OF_SOMETHING = {
    "no archive": [KEEP_IDS.format(3), TAKE_OUT.format(3)],
    "no ids": [KEEP_ARCHIVE.format(3), TAKE_OUT.format(3)],
    "an id too few": [KEEP_IDS.format(2), KEEP_ARCHIVE.format(3), TAKE_OUT.format(3)],
    "a run too many": [KEEP_IDS.format(4), KEEP_ARCHIVE.format(3), TAKE_OUT.format(4)],
    "another position": [
        KEEP_IDS.format(3).replace("notification_id FROM", "notification_id + 1 FROM"),
        KEEP_ARCHIVE.format(3),
        TAKE_OUT.format(3),
    ],
    "the newest run": [KEEP_IDS.format(99), KEEP_ARCHIVE.format(99), TAKE_OUT.format(99)],
}
FOR_EVER = [
    "UPDATE archived_runs SET position = position + 1",
    "DELETE FROM archived_runs",
    "UPDATE run_archives SET digest = 'x'",
    "DELETE FROM run_archives",
]


def test_no_run_leaves_the_log_without_its_archive_and_its_id(store: Filled) -> None:
    """Red when the trigger lets go what has no archive, no kept id, or is the newest."""
    with raw(store.url) as database:
        before = database.rows(TABLE)
        for attempt, (*preparing, removing) in SHORT_OF_SOMETHING.items():
            database.execute("BEGIN")
            for statement in preparing:
                database.execute(statement)
            try:
                database.execute(removing)
                raise AssertionError(attempt)
            except REFUSED:
                database.execute("ROLLBACK")
            assert database.rows(TABLE) == before


def test_an_archive_is_never_forgotten(store: Filled) -> None:
    """Red when what is known of archives, or an id that was given out, can be removed."""
    store.archive(5)
    with raw(store.url) as database:
        for statement in FOR_EVER:
            with pytest.raises(REFUSED):
                database.execute(statement)
        assert database.execute("SELECT count(*) FROM archived_runs") == [(5,)]
        assert database.execute("SELECT name FROM run_archives") == [("first",)]


@pytest.fixture
def role(postgres_url: str) -> Iterator[str]:
    """The name of a role that may log in, and owns nothing."""
    name = f"alloc_es_spawner_{uuid.uuid4().hex[:12]}"
    with raw(postgres_url) as database:
        database.execute(f"CREATE ROLE {name} LOGIN")
        yield name
        database.execute(f"DROP OWNED BY {name} CASCADE")
        database.execute(f"DROP ROLE {name}")


@pytest.mark.postgresql
def test_a_role_of_before_reads_and_spawns_behind_the_migration(
    postgres_url: str, role: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Red when the migration leaves those who may record runs without a right they now need."""
    with monkeypatch.context() as release_before:
        release_before.setattr(schema, "SCHEMA_VERSION", 4)
        connect(postgres_url).close()
    with raw(postgres_url) as database:
        grant(database, role)
    connect(postgres_url).close()
    with connect(f"{postgres_url}&user={role}", migrate=False) as allocations:
        workflow = allocations.workflow(*KEY)
        workflow.start("v1")
        workflow.spawn_run("run 01")
        assert workflow.find_run("run 02") is None
        assert len(list(allocations.runs())) == 1
    with psycopg.connect(f"{postgres_url.partition('&schema')[0]}&user={role}") as connection:
        for view in ("decision_log", "run_log"):
            count = f"SELECT count(*) FROM {postgres_url.rpartition('=')[2]}.{view}"
            assert connection.execute(count.encode()).fetchall() == [(1,)]


def grant(database: Raw, role: str) -> None:
    """What the documents of release 0.4 had an administrator grant."""
    place = database.schema
    columns = "originator_id, originator_version, topic, state"
    database.execute(f"GRANT USAGE ON SCHEMA {place} TO {role}")
    database.execute(f"GRANT SELECT ON ALL TABLES IN SCHEMA {place} TO {role}")
    database.execute(
        f"GRANT INSERT ({columns}) ON {place}.decision_events, {place}.run_events TO {role}"
    )
