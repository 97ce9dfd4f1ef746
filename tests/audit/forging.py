"""What an administrator does to a log: its protection off, and other rows in its place."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from alloc_es.audit import AuditReport, Seal, audit
from alloc_es.rules import Finding
from alloc_es.store.recorder import Stored
from tests.audit.given import Logs, rows
from tests.support.raw import DECISIONS, RUNS, Raw, raw

_COLUMNS = (
    "notification_id INTEGER PRIMARY KEY, originator_id TEXT, originator_version INTEGER,"
    " topic TEXT, state BLOB"
)


class Place(NamedTuple):
    """Where a finding is, and whose."""

    rule: str
    log: str | None
    position: int | None
    generation: int | None
    tenant_id: str | None
    workflow_id: str | None
    command_id: str | None
    run_id: str | None


class Copy(NamedTuple):
    """A store whose logs hold whatever a forger puts there."""

    url: str

    def hold(self, logs: Logs) -> None:
        """Put other logs in the place of both."""
        self.write(rows(logs.decisions), rows(logs.runs))

    def write(self, decisions: Iterable[Stored], runs: Iterable[Stored]) -> None:
        """Put other rows in the place of both logs, whatever they are."""
        with raw(self.url) as database:
            database.execute("BEGIN")
            for table, stored in ((DECISIONS, decisions), (RUNS, runs)):
                _empty(database, table)
                for each in stored:
                    _insert(database, table, each)
            database.execute("COMMIT")

    def audited(self, *, seals: Sequence[Seal] = (), processes: int = 1) -> AuditReport:
        """What an audit says."""
        return audit(self.url, seals=seals, processes=processes)


def _empty(database: Raw, table: str) -> None:
    if database.kind == "sqlite":
        database.execute(f"DROP TABLE {table}")
        database.execute(f"CREATE TABLE {table} ({_COLUMNS})")
        return
    database.execute(f"ALTER TABLE {table} DISABLE TRIGGER USER")
    database.execute(f"ALTER TABLE {table} DROP CONSTRAINT IF EXISTS {table}_place")
    database.execute(f"DROP INDEX IF EXISTS {table}_command_id")
    database.execute(f"TRUNCATE {table}")


def _insert(database: Raw, table: str, stored: Stored) -> None:
    identity = "" if database.kind == "sqlite" else "OVERRIDING SYSTEM VALUE"
    database.execute(
        f"INSERT INTO {table}"
        " (notification_id, originator_id, originator_version, topic, state)"
        f" {identity} VALUES (?, ?, ?, ?, ?)",
        *stored,
    )


def file_of(url: str) -> Path:
    """The file of a store in SQLite."""
    return Path(url.removeprefix("sqlite:///"))


def place_of(finding: Finding) -> Place:
    """Where a finding is, and whose."""
    return Place(*(getattr(finding, name) for name in Place._fields))


def found(report: AuditReport) -> list[Place]:
    """Where all findings are; the rules count as many, and all others were kept."""
    places = [place_of(each) for each in report.findings]
    broken = {each.name: each.found for each in report.rules if each.outcome == "broken"}
    assert sum(broken.values()) == len(places), broken
    assert broken.keys() == {each.rule for each in places}
    assert report.clean == (not places)
    return places


def unchecked(report: AuditReport) -> set[str]:
    """The rules that were not checked."""
    return {each.name for each in report.rules if each.outcome == "not checked"}
