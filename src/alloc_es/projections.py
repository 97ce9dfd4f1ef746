"""The read models of one store: what they are at, and what can be done to them."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from alloc_es.archive_errors import RunsArchived
from alloc_es.arguments import parse_ordinal, parse_seconds, parse_timeout
from alloc_es.building import Books, Build
from alloc_es.clock import Patience
from alloc_es.errors import AllocationError, InvalidSetting
from alloc_es.following import POLL, Follower, Tell, surely, tell_log
from alloc_es.identity import parse_identifier
from alloc_es.projection import Projection
from alloc_es.reader_errors import (
    ProjectionBehind,
    ProjectionNotBuilt,
    ProjectionOutdated,
    ProjectionStopped,
)
from alloc_es.rebuilding import Rebuilding, Report, _unreported
from alloc_es.standing import ProjectionStatus, standing_of
from alloc_es.store import Store
from alloc_es.store.recorder import LogName
from alloc_es.store.session import Row
from alloc_es.tables import listed
from alloc_es.verifying import Verified, verify
from alloc_es.wording import shown
from alloc_es.worker import Worker

_LOOK_EVERY = 0.005
_LONGEST_POLL = 3_600.0


def _untold(sentence: str) -> None:
    """Nobody is there to be told."""


class Projections:
    """The read models of one store. Made by `Allocations.projections`."""

    def __init__(
        self,
        store: Store,
        known: Mapping[str, Projection],
        broken: Mapping[str, InvalidSetting],
        books: Books,
        patience: Patience,
        check_usable: Callable[[], None],
    ) -> None:
        self._store = store
        self._known = known
        self._broken = broken
        self._books = books
        self._patience = patience
        self._check_usable = check_usable

    @property
    def known(self) -> Mapping[str, Projection]:
        """The projections by their names."""
        return self._known

    @property
    def broken(self) -> Mapping[str, InvalidSetting]:
        """Why installed ones can't be loaded, by the names of their entry points."""
        return self._broken

    def status(self) -> list[ProjectionStatus]:
        """How each read model stands, by name; also of projections that are not installed."""
        self._check_usable()
        return self._patience.insist(self._status)

    def _status(self) -> list[ProjectionStatus]:
        with self._store.desk.reading() as session:
            builds = self._books.all(session)
            left_out = self._books.all_purged(session)
        ends: dict[LogName, int] = {
            "decisions": self._store.decisions.end(),
            "runs": self._store.runs.end(),
        }
        own = {name: [b for b in builds if b.name == name] for name in self._names(builds)}
        return [
            standing_of(
                name,
                self._known.get(name),
                builds,
                ends,
                left_out.get(name, ()),
                str(self._broken.get(name, "")),
            )
            for name, builds in own.items()
        ]

    def _names(self, builds: Sequence[Build]) -> list[str]:
        return sorted(self._known.keys() | self._broken.keys() | {build.name for build in builds})

    def follow(
        self, *names: str, poll: float = POLL, listen: bool = True, tell: Tell = tell_log
    ) -> Follower:
        """Keep read models up to date, all or the named ones, until what it returns is closed.

        A model that is not built yet is built first. It hears of new events at once, by a
        connection of its own, and looks every `poll` seconds besides; with `listen=False`,
        for a pooler of connections that passes no notifications on, it only looks.
        `tell` is called, from other threads, with what an operator should know; by
        default it goes to the logger `alloc_es`.
        """
        parse_seconds("poll", poll, _LONGEST_POLL)
        told = surely(tell)
        for error in () if names else self._broken.values():
            told(str(error))
        workers = [Worker(self._rebuilding(each), told) for each in self._chosen(names)]
        return Follower(
            self._store,
            workers,
            tell=told,
            poll=poll,
            listen=listen,
            check_usable=self._check_usable,
        )

    def catch_up(self, *names: str) -> None:
        """Bring read models, all or the named ones, to the end of the logs; then return.

        Raises `ProjectionStopped`, `ProjectionOutdated`, `RunsArchived`, or `InvalidSetting` for
        one that can't be loaded, of the first that can't be, after the others were.
        """
        failures: list[AllocationError] = []
        for projection in self._chosen(names):
            worker = Worker(self._rebuilding(projection), _untold, give_way=False)
            try:
                while self._patience.insist(worker.turn):
                    pass
            except (ProjectionStopped, ProjectionOutdated, RunsArchived) as error:
                failures.append(error)
        if not names:
            failures.extend(self._broken.values())
        if failures:
            raise failures[0]

    def rebuild(
        self, name: str, *, tenant_id: str | None = None, report: Report = _unreported
    ) -> None:
        """Build a read model afresh beside the live one, and put it in its place.

        Who reads the model sees the old rows until the moment in which the new ones take
        their place, *atomic*. What was interrupted goes on where it was. With `tenant_id`
        only that tenant's rows are replaced, and all others stay as they are to the byte;
        a tenant that was purged comes back. `report` is called with how many positions of
        the logs are done, and how many there are.

        Raises `ProjectionStopped` at an event that can't be handled, with the live model
        untouched; `ProjectionNotBuilt` and `ProjectionOutdated` for a tenant of a model
        that is not there; `RunsArchived` where runs are in an archive that is not at hand.
        """
        tenant = None if tenant_id is None else parse_identifier("tenant id", tenant_id)
        rebuilding = self._rebuilding(self._one(name))
        rebuilding.run(self._patience.insist(lambda: rebuilding.begin(tenant)), report)

    def verify(self, name: str, *, report: Report = _unreported) -> Verified:
        """Compare a read model, row by row, with a fresh fold of the logs up to its checkpoint.

        It writes nothing to the store. Raises `ProjectionNotBuilt`, `ProjectionOutdated`,
        `RunsArchived`, and `ProjectionStopped` where the logs can't be folded so far.
        """
        return verify(self._store, self._one(name), self._books, report)

    def purge(self, name: str, tenant_id: str) -> int:
        """Remove a tenant from a read model, for as long as the tenant is not rebuilt by itself.

        Return how many rows it had; of a model that is not built, none, and it will be left
        out. Rows of other tenants are not touched; nothing is removed from the logs. Raises
        `ProjectionOutdated`.
        """
        tenant = parse_identifier("tenant id", tenant_id)
        rebuilding = self._rebuilding(self._one(name))
        return self._patience.insist(lambda: rebuilding.purge(tenant))

    def remove(self, name: str) -> None:
        """Drop a read model: its views, its tables, and the account of what it leaves out.

        Also of a projection that is not installed any more. One that is gets built again by
        whoever follows it. Raises `ProjectionNotBuilt`, and `InvalidSetting` for a name of
        none.
        """
        self._check_usable()
        remove = partial(Rebuilding.remove, self._store.desk, self._books, str(name))
        if self._patience.insist(remove):
            return
        if name in self._names([]):
            raise ProjectionNotBuilt(name)
        raise InvalidSetting("projection", f"{shown(name)} has no read model here")

    def rows(
        self, table: str, *, tenant_id: str | None = None, workflow_id: str | None = None
    ) -> list[dict[str, object]]:
        """The rows of one table of a read model, in the order of the key.

        All, or those of a tenant, of a workflow id, or of both.

        By the names of the columns; times are aware `datetime`s. All are read at once: for
        tests and small models, and SQL on the views for the rest. Raises
        `ProjectionNotBuilt`, `ProjectionOutdated`, and `InvalidSetting` for an unknown table.
        """
        self._check_usable()
        owners = [p for p in self._known.values() if table in [each.name for each in p.tables]]
        if not owners:
            raise InvalidSetting("table", f"no projection has a table {shown(table)}")
        found = owners[0].table(table)
        asked = {"tenant_id": tenant_id, "workflow_id": workflow_id}
        given = {
            name: parse_identifier(name.replace("_", " "), value)
            for name, value in asked.items()
            if value is not None
        }
        where = f" WHERE {' AND '.join(f'{name} = ?' for name in given)}" if given else ""
        select, order = f"SELECT {listed(found.names)} FROM", f"ORDER BY {listed(found.key)}"

        def read() -> list[Row]:
            with self._store.desk.snapshot() as session:
                name = self._books.usable(session, owners[0]).table(table)
                rows = session.rows(f"{select} {name}{where} {order}", *given.values())
                return session.read(found, rows)

        return [dict(zip(found.names, row, strict=True)) for row in self._patience.insist(read)]

    def wait_for(
        self,
        name: str,
        position: int | None = None,
        *,
        log: LogName | None = None,
        timeout: float = 10.0,
    ) -> None:
        """Return when a read model has applied a position, so that a caller reads its own write.

        Without `position`, when it has applied all that is in its logs now. `log` says of
        which log it is, where the projection follows both. Raises `ProjectionBehind` after
        `timeout` seconds, `ProjectionStopped` at once where it will not get there.
        """
        projection = self._one(name)
        seconds = parse_timeout(timeout)
        goal = self._goal(projection, position, log)
        deadline = self._patience.monotonic() + seconds
        while True:
            build = self._patience.insist(lambda: self._in_front(name))
            reached = build.positions if build and build.state == "live" else {}
            missing = [each for each, wanted in goal.items() if reached.get(each, -1) < wanted]
            if not missing:
                return
            if build and build.failure and _halts(projection, build.failure, missing):
                raise build.failure
            if self._patience.monotonic() >= deadline:
                late = missing[0]
                raise ProjectionBehind(
                    name,
                    log=late,
                    position=goal[late],
                    reached=reached.get(late),
                    seconds=seconds,
                )
            self._patience.sleep(_LOOK_EVERY)

    def _goal(
        self, projection: Projection, position: int | None, log: LogName | None
    ) -> dict[LogName, int]:
        followed = projection.logs if log is None else (log,)
        if log is not None and log not in projection.logs:
            raise InvalidSetting("log", f"{projection.name} does not follow {shown(log)}")
        if position is None:
            return {each: self._patience.insist(self._store.log(each).end) for each in followed}
        if len(followed) > 1:
            problem = f"{projection.name} follows both; say of which log the position is"
            raise InvalidSetting("log", problem)
        return {followed[0]: parse_ordinal("position", "position", position)}

    def _in_front(self, name: str) -> Build | None:
        """The live build, or else the one that will be the first."""
        with self._store.desk.reading() as session:
            builds = [b for b in self._books.of(session, name) if b.state != "old"]
        whole = [build for build in builds if build.tenant_id is None]
        return next((b for b in whole if b.state == "live"), next(iter(whole), None))

    def _one(self, name: str) -> Projection:
        self._check_usable()
        if not isinstance(name, str):
            raise InvalidSetting("projection", f"{shown(name)} is no name of one")
        if name in self._broken:
            raise self._broken[name]
        if name not in self._known:
            known = ", ".join(sorted(self._known)) or "none"
            raise InvalidSetting("projection", f"{shown(name)} is not installed; there is {known}")
        return self._known[name]

    def _chosen(self, names: Sequence[str]) -> list[Projection]:
        chosen = [self._one(name) for name in names or self._known]
        return list({projection.name: projection for projection in chosen}.values())

    def _rebuilding(self, projection: Projection) -> Rebuilding:
        self._check_usable()
        return Rebuilding(self._store, projection, self._books, self._patience)


def _halts(projection: Projection, met: ProjectionStopped, missing: Sequence[LogName]) -> bool:
    """Whether what is missing comes behind a failure: the logs are gone through in order."""
    order = [str(log) for log in projection.logs]
    return any(order.index(str(met.log)) <= order.index(log) for log in missing)
