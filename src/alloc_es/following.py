"""Keeping read models up to date: catch up, then live, through whatever happens to the store."""

import logging
from collections.abc import Callable, Sequence
from contextlib import closing
from threading import Event, Thread
from types import TracebackType
from typing import Self

from alloc_es.applying import Overtaken
from alloc_es.building import Build
from alloc_es.errors import AllocationError, StoreUnavailable
from alloc_es.reader_errors import ProjectionOutdated, ProjectionStopped
from alloc_es.rebuilding import Rebuilding
from alloc_es.store import Store

Tell = Callable[[str], None]
"""Called with a sentence for the operator, from any thread."""

POLL = 1.0
"""How often a follower looks by itself, in seconds, whatever it hears."""

_HEAR = 0.25
_FIRST_PAUSE = 0.1
_LONGEST_PAUSE = 2.0

tell_log: Tell = logging.getLogger("alloc_es").warning
"""Where a follower says what happens to it, unless it is told where."""


class Worker:
    """Brings one read model on, a batch at a time; several of them take no harm.

    Two workers of one read model apply nothing twice, because each batch moves the
    checkpoint from where it was found. The one that came late stands by from then on: it
    leaves new events alone, until they lie there for the time between two looks.
    """

    def __init__(self, rebuilding: Rebuilding, tell: Tell) -> None:
        self.rebuilding = rebuilding
        self._tell = tell
        self._build: Build | None = None
        self._halted: AllocationError | None = None
        self._stands_by = False
        self.state = "starting"
        """What it does, in a word or two."""

    @property
    def name(self) -> str:
        """The name of its projection."""
        return self.rebuilding.name

    def turn(self) -> bool:
        """Apply the next batch, if there is one and it is this worker's; whether there was.

        Raises `StoreUnavailable`, and `ProjectionStopped` or `ProjectionOutdated` where it
        can't go on.
        """
        if self._build is None:
            self._build = self.rebuilding.live()
        if self._build is None:
            return self._first_build()
        try:
            moved = self.rebuilding.applier.step(self._build)
        except Overtaken:
            self._give_way(self._build)
            return not self._stands_by
        except StoreUnavailable:
            # It may be that the build was replaced and its tables are gone.
            self._build = None
            raise
        self.state = "following"
        self._build = moved or self._build
        return moved is not None

    def look(self) -> bool:
        """Look by itself, as often as `POLL` says, at what the others do; as `turn`."""
        held, self._build = self._build, None
        self._build = self.rebuilding.live()
        if self._is_halted(self._build):
            return False
        if self._stands_by:
            if held is None or self._build is None or self._moved(held, self._build):
                return False
            self._stands_by = False
            self._tell(f"{self.name}: takes over, {self._build.writer} stands still")
        return self.turn()

    def _is_halted(self, build: Build | None) -> bool:
        return bool(build and build.failure and str(build.failure) == str(self._halted))

    def _moved(self, held: Build, now: Build) -> bool:
        """Whether somebody brings it on, or nothing is there to be done."""
        ends = self.rebuilding.applier.ends()
        behind = any(now.positions[log] < end for log, end in ends.items())
        return not behind or (held.build, held.positions) != (now.build, now.positions)

    def _first_build(self) -> bool:
        self.state = "building"
        build = self.rebuilding.begin()
        try:
            if self.rebuilding.step(build) is None:
                self.rebuilding.promote(build)
        except Overtaken:
            pass
        return True

    def _give_way(self, held: Build) -> None:
        self._build = self.rebuilding.live()
        now = self._build
        if now and (now.build, now.revision) == (held.build, held.revision):
            self._stands_by = True
            self.state = "standing by"
            self._tell(f"{self.name}: stands by, {now.writer} brings it on")

    @property
    def stands_by(self) -> bool:
        """Whether it leaves new events to another worker."""
        return self._stands_by

    def halt(self, error: AllocationError) -> None:
        """Do nothing before something has changed."""
        if str(error) != str(self._halted):
            self._tell(str(error))
        self._halted = error
        self._build = None
        self.state = "stopped" if isinstance(error, ProjectionStopped) else "outdated"


class Follower:
    """Keeps read models up to date in threads of their own until it is closed.

    It hears of new events by a connection of its own, and looks about once a second
    besides. When the store goes away it says so, tries again for as long as it takes, and
    says when it is back. A projection that can't handle an event stops, the others go on.
    """

    def __init__(
        self, store: Store, workers: Sequence[Worker], *, tell: Tell, poll: float, listen: bool
    ) -> None:
        self._store = store
        self._workers = workers
        self._tell = tell
        self._poll = poll
        self._stop = Event()
        self._bells = [Event() for _ in workers]
        self._threads = [
            Thread(target=self._follow, args=pair, name=f"alloc-es {pair[0].name}", daemon=True)
            for pair in zip(workers, self._bells, strict=True)
        ]
        if listen:
            self._threads.append(Thread(target=self._hear, name="alloc-es hears", daemon=True))
        for thread in self._threads:
            thread.start()

    @property
    def states(self) -> dict[str, str]:
        """What each projection's worker does: `following`, `building`, `standing by`,
        `waiting for the store`, `stopped` or `outdated`."""
        return {worker.name: worker.state for worker in self._workers}

    def close(self) -> None:
        """Stop; the batches that are under way are finished. Closing twice is allowed."""
        self._stop.set()
        self._ring()
        for thread in self._threads:
            thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _ring(self) -> None:
        for bell in self._bells:
            bell.set()

    def _follow(self, worker: Worker, bell: Event) -> None:
        heard = False
        trouble = Trouble(worker.name, self._tell)
        while not self._stop.is_set():
            bell.clear()
            try:
                moved = worker.turn() if heard else worker.look()
                trouble.over()
            except StoreUnavailable as error:
                worker.state = "waiting for the store"
                self._stop.wait(trouble.met(error))
                heard = False
                continue
            except (ProjectionStopped, ProjectionOutdated) as error:
                worker.halt(error)
                self._stop.wait(self._poll)
                heard = False
                continue
            except Exception as error:  # noqa: BLE001 - a thread has nobody else to tell
                worker.state = "failed"
                self._tell(f"{worker.name}: ended by {type(error).__name__}: {error}")
                return
            if moved:
                heard = True
            elif worker.stands_by:
                self._stop.wait(self._poll)
                heard = False
            else:
                heard = bell.wait(self._poll)

    def _hear(self) -> None:
        trouble = Trouble("new events", self._tell)
        while not self._stop.is_set():
            try:
                with closing(self._store.watch()) as watch:
                    trouble.over()
                    # What came before it listened.
                    self._ring()
                    while not self._stop.is_set():
                        if watch.wait(_HEAR):
                            self._ring()
            except StoreUnavailable as error:
                self._stop.wait(trouble.met(error))


class Trouble:
    """Says once that the store is away, and once that it is back; waits longer each time."""

    def __init__(self, what: str, tell: Tell) -> None:
        self._what = what
        self._tell = tell
        self._times = 0

    def met(self, error: StoreUnavailable) -> float:
        """Note a failure; how many seconds to wait before the next try."""
        if self._times == 0:
            self._tell(f"{self._what}: waits for the store: {error}")
        pause: float = min(_LONGEST_PAUSE, _FIRST_PAUSE * 2 ** min(self._times, 10))
        self._times += 1
        return pause

    def over(self) -> None:
        """Note a success."""
        if self._times:
            self._tell(f"{self._what}: the store is back")
        self._times = 0
