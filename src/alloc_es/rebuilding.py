"""Building a read model beside the live one, and taking its place in one transaction."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial

from eventsourcing.persistence import IntegrityError

from alloc_es.applying import Applier, Overtaken, Place, Unapplied
from alloc_es.building import Books, Build, outdated
from alloc_es.clock import Patience
from alloc_es.errors import StoreUnavailable
from alloc_es.projection import Projection
from alloc_es.reader_errors import ProjectionNotBuilt, ProjectionStopped
from alloc_es.store import Store
from alloc_es.store.recorder import LogName
from alloc_es.store.session import BadView, Desk, Session
from alloc_es.tables import listed

Report = Callable[[int, int], None]
"""Called with how many positions of the logs are done, and how many there are."""


def _unreported(done: int, goal: int) -> None:
    """Nobody wants to know how far it is."""


class Rebuilding:
    """Builds one projection in one store."""

    def __init__(
        self, store: Store, projection: Projection, books: Books, patience: Patience
    ) -> None:
        self._patience = patience
        self._desk = store.desk
        self._runs = store.runs
        self._projection = projection
        self._books = books
        self.name = projection.name
        self.applier = Applier(store, projection, books)

    def live(self) -> Build | None:
        """The build that readers see. Raises `ProjectionOutdated` for another version's."""
        with self._desk.reading() as session:
            build = self._books.live(session, self._projection.name)
        if build is not None and build.version != self._projection.version:
            raise outdated(build, self._projection)
        return build

    def begin(self, tenant_id: str | None = None, *, unasked: bool = False) -> Build:
        """The unfinished build of the same to go on with, or a new one.

        Of one tenant only where a live build of this version is there to take its rows:
        else raises `ProjectionNotBuilt` or `ProjectionOutdated`. An unfinished build of
        another version is given up; not a newer one's, where it is begun `unasked`. Raises
        `RunsArchived`, and begins nothing, where its first runs are not at hand.
        """
        if tenant_id is not None and self.live() is None:
            raise ProjectionNotBuilt(self._projection.name)
        with self._desk.reading() as session:
            unfinished = self._books.unfinished(session, self._projection, tenant_id)
        try:
            return unfinished or self._create(tenant_id, unasked=unasked)
        except IntegrityError:
            # Another process began the first one at the same time.
            return self.begin(tenant_id, unasked=unasked)

    def _create(self, tenant_id: str | None, *, unasked: bool) -> Build:
        if "runs" in self._projection.logs:
            self._runs.require(0)
        with self._desk.writing() as session:
            builds = self._books.lock(session, self._projection.name)
            for build in builds:
                if build.state == "building" and build.tenant_id == tenant_id:
                    if build.version == self._projection.version:
                        return build
                    if unasked and build.version > self._projection.version:
                        raise outdated(build, self._projection)
                    self._books.drop(session, build)
            return self._books.create(session, self._projection, tenant_id, builds)

    def step(self, build: Build) -> Build | None:
        """Apply the next batch to an unfinished build; None when it has caught up."""
        try:
            if build.tenant_id is None:
                return self.applier.step(build)
            live = self.live()
            if live is None:
                raise ProjectionNotBuilt(build.name)
            # Its rows go into those of the live build, so they may not be ahead of them.
            return self.applier.step(build, up_to=live.positions)
        except StoreUnavailable as error:
            if self._unfinished(build)[0] is None:
                # Somebody else has finished it, or given it up, and its tables are gone.
                raise Overtaken(build.name) from error
            raise

    def run(self, build: Build, report: Report) -> None:
        """Bring a build to its end and put it in place; *atomic* for who reads the model."""
        ends = self.applier.ends()
        while True:
            report(total(build.positions), max(total(ends), total(build.positions)))
            try:
                moved = self._patience.insist(partial(self.step, build))
                if moved is None and self._patience.insist(partial(self.promote, build)):
                    return
            except Overtaken:
                moved = None
            left = moved or self._patience.insist(partial(self._again, build))
            if left is None:
                return
            build = left

    def _again(self, build: Build) -> Build | None:
        """The build as somebody else has left it; None if it is in place.

        One that was given up, because a tenant came back that it leaves out, is begun anew.
        """
        found, live = self._unfinished(build)
        if found is not None or build.tenant_id is not None:
            return found
        # Of two versions that rebuild at once the newer one wins.
        return None if live and live.build >= build.build else self.begin(unasked=True)

    def _unfinished(self, build: Build) -> tuple[Build | None, Build | None]:
        """The build as it stands, if it is unfinished, and the live one."""
        with self._desk.reading() as session:
            builds = self._books.of(session, build.name)
        same = (b for b in builds if (b.build, b.state) == (build.build, "building"))
        return next(same, None), next((b for b in builds if b.state == "live"), None)

    def promote(self, build: Build) -> bool:
        """Put a build that has caught up in the place of the live one.

        False where something was in the way: step again, and then try again.
        """
        try:
            with self._desk.writing() as session:
                session.take_time()
                builds = {b.build: b for b in self._books.lock(session, build.name)}
                if build.build not in builds or builds[build.build].state != "building":
                    return False
                live = next((b for b in builds.values() if b.state == "live"), None)
                self._catch_up(session, builds[build.build], live)
                if build.tenant_id is None:
                    self._replace(session, build, live)
                elif live is None:
                    raise ProjectionNotBuilt(build.name)
                elif live.version != build.version:
                    raise outdated(live, self._projection)
                else:
                    self._merge(session, build, live)
        except Unapplied:
            return False
        except ProjectionStopped as met:
            self._note(build, met)
            raise
        self.drop_old()
        return True

    def _create_view(self, session: Session, create: str, name: str, select: str) -> None:
        try:
            session.create_view(create, name, select)
        except BadView as error:
            raise ProjectionStopped(
                self.name, log=None, position=None, event=f"view {name}", error=str(error)
            ) from error

    def _note(self, build: Build, met: ProjectionStopped) -> None:
        found, _ = self._unfinished(build)
        if found is not None:
            with self._desk.writing() as session:
                self._books.fail(session, found, met)

    def _catch_up(self, session: Session, build: Build, live: Build | None) -> None:
        """Go as far as the live build, so that nobody sees the model step back."""
        if live is None:
            return
        goal: Mapping[LogName, int] = live.positions
        place = Place.inside(session)
        while (moved := self.applier.step(build, up_to=goal, place=place)) is not None:
            build = moved

    def _replace(self, session: Session, build: Build, live: Build | None) -> None:
        if live is not None:
            self._books.set_state(session, live, "old")
        self._books.set_state(session, build, "live")
        kept = live is not None and live.version == build.version and session.keeps_views
        if live is not None and not kept:
            for view in reversed(live.views):
                session.run(f'DROP VIEW IF EXISTS "{view}"')
        create = "CREATE OR REPLACE" if kept else "CREATE"
        for table in self._projection.tables:
            rows = f"SELECT {listed(table.names)} FROM {build.table(table.name)}"
            shown = session.shown(build.name, build.build)
            session.run(f'{create} VIEW "{table.name}" AS {rows}{shown}')
            session.describe(table)
        for name, select in self._projection.views.items():
            self._create_view(session, create, name, select)

    def _merge(self, session: Session, build: Build, live: Build) -> None:
        assert build.tenant_id is not None
        for table in self._projection.tables:
            columns, into = listed(table.names), live.table(table.name)
            session.run(f"DELETE FROM {into} WHERE tenant_id = ?", build.tenant_id)
            source = build.table(table.name)
            session.run(f"INSERT INTO {into} ({columns}) SELECT {columns} FROM {source}")
        self._books.disturb(session, live)
        self._books.set_state(session, build, "old")
        if self._books.take_back(session, build.name, build.tenant_id):
            for other in self._books.of(session, build.name):
                if other.state == "building" and other.tenant_id is None:
                    self._books.set_state(session, other, "old")

    def purge(self, tenant_id: str) -> int:
        """Remove a tenant's rows, and leave the tenant out until it is rebuilt by itself.

        Return how many rows readers see no more. Raises `ProjectionOutdated`.
        """
        self.live()
        try:
            gone = self._purge(tenant_id)
        except IntegrityError:
            # The first build was begun at the same time.
            gone = self._purge(tenant_id)
        self.drop_old()
        return gone

    def _purge(self, tenant_id: str) -> int:
        gone = 0
        with self._desk.writing() as session:
            session.take_time()
            builds = self._books.lock(session, self._projection.name)
            if not builds:
                self._books.reserve(session, self._projection)
            self._books.purge(session, self._projection.name, tenant_id)
            for build in builds:
                if build.state == "building" and build.tenant_id == tenant_id:
                    self._books.set_state(session, build, "old")
                for table in build.tables if build.state != "old" else ():
                    rows = session.run(f"DELETE FROM {table} WHERE tenant_id = ?", tenant_id)
                    gone += rows if build.state == "live" else 0
                self._books.disturb(session, build)
        return gone

    @staticmethod
    def remove(desk: Desk, books: Books, name: str) -> bool:
        """Drop a read model, whoever made it: its views, tables and accounts; whether it was."""
        with desk.writing() as session:
            session.take_time()
            builds = [build for build in books.lock(session, name) if build.tables]
            for build in builds:
                for view in reversed(build.views) if build.state == "live" else ():
                    session.run(f'DROP VIEW IF EXISTS "{view}"')
                books.drop(session, build)
            forgotten = books.forget_purges(session, name)
        return bool(builds) or forgotten

    def drop_old(self) -> None:
        """Drop the tables of builds that were replaced, if nobody reads them just now."""
        with self._desk.reading() as session:
            builds = self._books.of(session, self._projection.name)
        for build in builds:
            if build.state == "old" and (build.tables or build != builds[-1]):
                # Whoever still reads them is not disturbed; they go another time.
                with suppress(StoreUnavailable), self._desk.writing() as session:
                    session.take_time()
                    self._books.drop(session, build)


def total(positions: Mapping[LogName, int]) -> int:
    """The positions of all logs together."""
    return sum(positions.values())
