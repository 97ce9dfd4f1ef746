"""The builds of read models, as the store keeps account of them."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from alloc_es.projection import Projection
from alloc_es.reader_errors import ProjectionNotBuilt, ProjectionOutdated, ProjectionStopped
from alloc_es.store.recorder import LOGS, LogName
from alloc_es.store.session import Session

State = Literal["building", "live", "old"]

_COLUMNS = (
    "name, build, version, state, tenant_id, tables, views, decisions_position, runs_position,"
    " revision, writer, updated_at, failed_log, failed_position, failed_event, failed_error"
)
# All of its checkpoints, also where one is moved: what was prepared was made of all its rows.
_AS_HELD = (
    " WHERE name = ? AND build = ? AND state = ? AND revision = ?"
    " AND coalesce(decisions_position, -1) = ? AND coalesce(runs_position, -1) = ?"
)
_NO_FAILURE = "failed_log = NULL, failed_position = NULL, failed_event = NULL, failed_error = NULL"
_ADVANCE: Mapping[LogName, str] = {
    log: (
        f"UPDATE projection_builds SET {log}_position = ?, writer = ?, updated_at = ?,"
        f" {_NO_FAILURE}{_AS_HELD}"
    )
    for log in LOGS
}
_FAIL = (
    "UPDATE projection_builds SET failed_log = ?, failed_position = ?, failed_event = ?,"
    f" failed_error = ?, writer = ?, updated_at = ?{_AS_HELD}"
)


@dataclass(frozen=True, slots=True)
class Build:
    """One build of a read model: whose rows, in which tables, and how far they go.

    `positions` are its checkpoints, one for each log that it follows. Of the tenant
    `tenant_id` only, or of all where that is None.
    """

    name: str
    build: int
    version: int
    state: State
    tenant_id: str | None
    tables: tuple[str, ...]
    views: tuple[str, ...]
    positions: Mapping[LogName, int]
    revision: int
    writer: str | None
    updated_at: datetime
    failure: ProjectionStopped | None

    def table(self, name: str) -> str:
        """What one of its tables is called in the store."""
        return f"{name}__{self.build}"


@dataclass(frozen=True, slots=True)
class Books:
    """Keeps the account of builds: who wrote to which of them, and when."""

    writer: str
    clock: Callable[[], datetime]

    def of(self, session: Session, name: str) -> list[Build]:
        """The builds of a projection, oldest first."""
        where = "WHERE name = ? ORDER BY build"
        return [_build(r) for r in session.rows(f"SELECT {_COLUMNS} FROM {_TABLE} {where}", name)]

    def all(self, session: Session) -> list[Build]:
        """The builds of all projections that readers see, or that are unfinished, by name."""
        which = "WHERE state <> 'old' ORDER BY name, build"
        return [_build(row) for row in session.rows(f"SELECT {_COLUMNS} FROM {_TABLE} {which}")]

    def live(self, session: Session, name: str) -> Build | None:
        """The build that readers see."""
        return next((build for build in self.of(session, name) if build.state == "live"), None)

    def usable(self, session: Session, projection: Projection) -> Build:
        """The build that readers see, made by this version of the projection.

        Raises `ProjectionNotBuilt` and `ProjectionOutdated`.
        """
        live = self.live(session, projection.name)
        if live is None:
            raise ProjectionNotBuilt(projection.name)
        if live.version != projection.version:
            raise outdated(live, projection)
        return live

    def unfinished(
        self, session: Session, projection: Projection, tenant_id: str | None
    ) -> Build | None:
        """A build that was begun for the same, by the same code, and not finished."""
        return next(
            (
                build
                for build in self.of(session, projection.name)
                if build.state == "building"
                and (build.version, build.tenant_id) == (projection.version, tenant_id)
            ),
            None,
        )

    def lock(self, session: Session, name: str) -> list[Build]:
        """Keep everybody else off the builds of a projection until the transaction ends."""
        session.run(f"UPDATE {_TABLE} SET name = name WHERE name = ?", name)
        return self.of(session, name)

    def create(
        self,
        session: Session,
        projection: Projection,
        tenant_id: str | None,
        locked: Sequence[Build] = (),
    ) -> Build:
        """Begin a build, with empty tables, in front of the first event.

        `locked` are all that there were: where there is another one by now, the number is
        taken, and the library's `IntegrityError` is raised.
        """
        number = 1 + max((build.build for build in locked), default=0)
        tables = [f"{table.name}__{number}" for table in projection.tables]
        self._note(session, projection, number, "building", tenant_id, tables)
        for table, name in zip(projection.tables, tables, strict=True):
            session.create(table, name)
        return next(b for b in self.of(session, projection.name) if b.build == number)

    def reserve(self, session: Session, projection: Projection) -> None:
        """Take the number of the first build, and make no tables.

        So there is something to lock, and nobody begins the first build meanwhile. Where
        somebody has, the library's `IntegrityError` is raised.
        """
        self._note(session, projection, 1, "old", None, [])

    def _note(
        self,
        session: Session,
        projection: Projection,
        number: int,
        state: State,
        tenant_id: str | None,
        tables: Sequence[str],
    ) -> None:
        session.run(
            f"INSERT INTO {_TABLE} (name, build, version, state, tenant_id, tables, views,"
            " decisions_position, runs_position, writer, updated_at)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            projection.name,
            number,
            projection.version,
            state,
            tenant_id,
            json.dumps(tables),
            json.dumps(projection.relations),
            *(0 if log in projection.logs else None for log in ("decisions", "runs")),
            self.writer,
            self.clock(),
        )

    def advance(self, session: Session, build: Build, log: LogName, position: int) -> bool:
        """Move a checkpoint; False, and nothing is moved, where somebody else came first."""
        moved = session.run(_ADVANCE[log], position, self.writer, self.clock(), *_as_held(build))
        return moved == 1

    def fail(self, session: Session, build: Build, met: ProjectionStopped) -> bool:
        """Note the event that a build can't go past; False where somebody else came first."""
        facts = (met.log, met.position, met.event, met.error)
        noted = session.run(_FAIL, *facts, self.writer, self.clock(), *_as_held(build))
        return noted == 1

    def set_state(self, session: Session, build: Build, state: State) -> None:
        """Make a build the live one, or an old one."""
        session.run(
            f"UPDATE {_TABLE} SET state = ?, {_NO_FAILURE} WHERE name = ? AND build = ?",
            state,
            build.name,
            build.build,
        )

    def disturb(self, session: Session, build: Build) -> None:
        """Let nobody apply what was prepared before rows were changed by other hands."""
        session.run(
            f"UPDATE {_TABLE} SET revision = revision + 1 WHERE name = ? AND build = ?",
            build.name,
            build.build,
        )

    def drop(self, session: Session, build: Build) -> None:
        """Remove a build and its tables.

        The newest number stays on record: were it given again, whoever still works on the
        old build would take the new one for it.
        """
        for table in build.tables:
            session.run(f"DROP TABLE IF EXISTS {table}")
        session.run(
            f"UPDATE {_TABLE} SET state = 'old', tables = '[]' WHERE name = ? AND build = ?",
            build.name,
            build.build,
        )
        session.run(
            f"DELETE FROM {_TABLE} WHERE name = ? AND build = ?"
            f" AND build < (SELECT max(build) FROM {_TABLE} WHERE name = ?)",
            build.name,
            build.build,
            build.name,
        )

    def purge(self, session: Session, name: str, tenant_id: str) -> None:
        """Leave a tenant out of a read model from now on."""
        session.run(
            "INSERT INTO projection_purges (name, tenant_id, purged_at) VALUES (?, ?, ?)"
            " ON CONFLICT (name, tenant_id) DO NOTHING",
            name,
            tenant_id,
            self.clock(),
        )

    def take_back(self, session: Session, name: str, tenant_id: str) -> bool:
        """Leave a tenant out no more; whether it was left out."""
        return bool(
            session.run(
                "DELETE FROM projection_purges WHERE name = ? AND tenant_id = ?", name, tenant_id
            )
        )

    def forget_purges(self, session: Session, name: str) -> bool:
        """Leave no tenant out; whether one was."""
        return bool(session.run("DELETE FROM projection_purges WHERE name = ?", name))

    def all_purged(self, session: Session) -> dict[str, list[str]]:
        """The tenants that each read model leaves out, in order."""
        found: dict[str, list[str]] = {}
        for name, tenant in session.rows(
            "SELECT name, tenant_id FROM projection_purges ORDER BY name, tenant_id"
        ):
            found.setdefault(name, []).append(tenant)
        return found

    def purged(self, session: Session, name: str) -> frozenset[str]:
        """The tenants that a read model leaves out."""
        rows = session.rows("SELECT tenant_id FROM projection_purges WHERE name = ?", name)
        return frozenset(row[0] for row in rows)


_TABLE = "projection_builds"


def outdated(build: Build, projection: Projection) -> ProjectionOutdated:
    """What is said of a build that another version of its projection has made."""
    return ProjectionOutdated(build.name, built=build.version, known=projection.version)


def _as_held(build: Build) -> tuple[object, ...]:
    places = (build.positions.get("decisions", -1), build.positions.get("runs", -1))
    return (build.name, build.build, build.state, build.revision, *places)


def _build(row: tuple[Any, ...]) -> Build:
    held = dict(zip(_COLUMNS.split(", "), row, strict=True))
    at = held["updated_at"]
    reached = {log: held[f"{log}_position"] for log in LOGS}
    return Build(
        name=held["name"],
        build=held["build"],
        version=held["version"],
        state=held["state"],
        tenant_id=held["tenant_id"],
        tables=tuple(json.loads(held["tables"])),
        views=tuple(json.loads(held["views"])),
        positions={log: position for log, position in reached.items() if position is not None},
        revision=held["revision"],
        writer=held["writer"],
        updated_at=at if isinstance(at, datetime) else datetime.fromisoformat(at),
        failure=_failure(held) if held["failed_event"] else None,
    )


def _failure(held: dict[str, Any]) -> ProjectionStopped:
    return ProjectionStopped(
        held["name"],
        log=held["failed_log"],
        position=held["failed_position"],
        event=held["failed_event"],
        error=held["failed_error"],
    )
