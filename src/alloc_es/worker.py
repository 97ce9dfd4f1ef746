"""Bringing one read model on, beside others who may do the same."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from alloc_es.applying import Overtaken
from alloc_es.archive_errors import RunsArchived
from alloc_es.building import Build
from alloc_es.errors import AllocationError, StoreUnavailable
from alloc_es.reader_errors import ProjectionOutdated
from alloc_es.rebuilding import Rebuilding
from alloc_es.store.recorder import LogName


@dataclass(frozen=True, slots=True)
class _Seen:
    """What a worker that stands by has seen at a look: how far a build was, with work left."""

    build: int
    state: str
    positions: Mapping[LogName, int]
    behind: bool


class Worker:
    """Brings one read model on, a batch at a time; several of them take no harm.

    Two workers of one read model apply nothing twice, because each batch moves the
    checkpoint from where it was found. The one that came late stands by from then on: it
    leaves new events alone, until some lie there from one look to the next and the
    checkpoint has not moved. One that does not `give_way` tries again at once.
    """

    def __init__(
        self, rebuilding: Rebuilding, tell: Callable[[str], None], *, give_way: bool = True
    ) -> None:
        self._rebuilding = rebuilding
        self._tell = tell
        self._gives_way = give_way
        self._build: Build | None = None
        self._halted: AllocationError | None = None
        self._seen: _Seen | None = None
        self._relieved: str | None = None
        self.stands_by = False
        """Whether it leaves new events to another worker."""
        self.state = "starting"
        """What it does, in a word or two."""

    @property
    def name(self) -> str:
        """The name of its projection."""
        return self._rebuilding.name

    def turn(self) -> bool:
        """Apply the next batch, if there is one; whether to go on at once.

        Raises `StoreUnavailable`, and `ProjectionStopped` or `ProjectionOutdated` where it
        can't go on.
        """
        build, self._build = self._build or self._find(), None
        try:
            moved = self._rebuilding.applier.step(build)
        except Overtaken:
            self._give_way(build)
            return not self.stands_by
        except StoreUnavailable as error:
            if error.retryable or self._is_there(build):
                raise
            return True
        unfinished = build.state == "building"
        if moved is None and unfinished:
            if self._rebuilding.promote(build):
                self._tell(f"{self.name}: is built, its views are there")
        else:
            self._build = moved or build
        self.state = "building" if unfinished else "following"
        self._goes_on(moved is not None or unfinished)
        return moved is not None or unfinished

    def look(self) -> bool:
        """Look at what others have done meanwhile; then as `turn`, if that is this worker's."""
        self._build = None
        self._rebuilding.drop_old()
        build = self._find()
        if build.failure and str(build.failure) == str(self._halted):
            self.state = "stopped"
            return False
        if self.stands_by:
            self.state = "standing by"
            if not self._is_left_alone(build):
                return False
            self.stands_by, self._relieved = False, build.writer or "the other one"
        self._build = build
        return self.turn()

    def halt(self, error: AllocationError) -> None:
        """Do nothing before something has changed."""
        if str(error) != str(self._halted):
            # The others name it themselves.
            whose = f"{self.name}: " if isinstance(error, RunsArchived) else ""
            self._tell(f"{whose}{error}")
        self._halted = error
        self.state = "outdated" if isinstance(error, ProjectionOutdated) else "stopped"

    def close(self) -> None:
        """End the thread that reads for it."""
        self._rebuilding.applier.close()

    def _find(self) -> Build:
        return self._rebuilding.live() or self._rebuilding.begin(unasked=True)

    def _is_there(self, build: Build) -> bool:
        """Whether a build was not replaced, so that its tables are not gone."""
        now = self._find()
        return (now.build, now.state) == (build.build, build.state)

    def _give_way(self, held: Build) -> None:
        """Stand by, if it was the checkpoint that moved, and not what it belongs to.

        After a crash of the server it may also have moved back.
        """
        now = self._find()
        same = (now.build, now.state, now.revision) == (held.build, held.state, held.revision)
        ahead = any(now.positions[log] > held.positions[log] for log in held.positions)
        if not (self._gives_way and same and ahead):
            return
        self.stands_by, self._seen = True, None
        self.state = "standing by"
        if self._relieved is None:
            self._tell(f"{self.name}: stands by, {now.writer} brings it on")
        self._relieved = None

    def _is_left_alone(self, now: Build) -> bool:
        """Whether there was work at the look before, and nobody has done any of it."""
        ends = self._rebuilding.applier.ends()
        behind = any(now.positions[log] < end for log, end in ends.items())
        before = self._seen
        self._seen = _Seen(now.build, now.state, now.positions, behind or now.state == "building")
        return before == self._seen and self._seen.behind

    def _goes_on(self, moved: bool) -> None:
        if self._halted is not None:
            self._tell(f"{self.name}: goes on")
            self._halted = None
        if moved and self._relieved is not None:
            self._tell(f"{self.name}: takes over, {self._relieved} stands still")
            self._relieved = None
