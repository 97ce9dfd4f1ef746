"""Keeping read models up to date: catch up, then live, through whatever happens to the store."""

import logging
import os
from collections.abc import Callable, Sequence
from contextlib import closing
from threading import Condition, Thread, current_thread
from types import TracebackType
from typing import Self

from alloc_es.archive_errors import RunsArchived
from alloc_es.errors import StoreUnavailable
from alloc_es.reader_errors import ProjectionOutdated, ProjectionStopped
from alloc_es.store import Store
from alloc_es.worker import Worker

Tell = Callable[[str], None]
"""Called with a sentence for the operator, from any thread."""

POLL = 1.0
"""How often a follower looks by itself, in seconds, whatever it hears."""

_HEAR = 0.25
_FIRST_PAUSE = 0.1
_LONGEST_PAUSE = 2.0

_logger = logging.getLogger("alloc_es")
tell_log: Tell = _logger.warning
"""Where a follower says what happens to it, unless it is told where."""


class Follower:
    """Keeps read models up to date in threads of their own until it is closed.

    It hears of new events by a connection of its own, and looks about once a second
    besides. When the store goes away it says so, tries again for as long as it takes, and
    says when it is back. A projection that can't handle an event stops, the others go on.
    Where the connection to the store is closed under it, it says so and ends.
    """

    def __init__(
        self,
        store: Store,
        workers: Sequence[Worker],
        *,
        tell: Tell,
        poll: float,
        listen: bool,
        check_usable: Callable[[], None],
    ) -> None:
        self._store = store
        self._workers = workers
        self._tell = tell
        self._poll = poll
        self._check_usable = check_usable
        self._process = os.getpid()
        self._stop = Flag()
        self._bells = [Flag() for _ in workers]
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
        """What each projection's worker does: `starting`, `building`, `following`, `standing by`,
        `waiting for the store`, `stopped`, `outdated`, `failed` or `closed`."""
        return {worker.name: worker.state for worker in self._workers}

    def close(self) -> None:
        """Stop; the batches that are under way are finished. Closing twice is allowed.

        Where the store has gone silent that is after the `timeout` of the connection and a
        second, else at once. A signal handler may call it, and so may `tell`, which does
        not wait.
        """
        if os.getpid() != self._process:
            # The threads did not come along when this process was forked.
            return
        self._stop.set()
        self._ring()
        if current_thread() not in self._threads:
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

    def _follow(self, worker: Worker, bell: "Flag") -> None:
        try:
            with closing(worker):
                self._work(worker, bell)
        except Exception as error:  # noqa: BLE001 - a thread has nobody else to tell
            worker.state = "failed"
            self._tell(f"{worker.name}: ended by {type(error).__name__}: {error}")

    def _work(self, worker: Worker, bell: "Flag") -> None:
        trouble = Trouble(worker.name, self._tell)
        moved = False
        while not self._stop.is_set():
            # In front of the look: what comes behind it rings again.
            bell.clear()
            try:
                moved = worker.turn() if moved else worker.look()
                trouble.over()
            except StoreUnavailable as error:
                moved = False
                if self._is_over():
                    worker.state = "closed"
                    self._tell(f"{worker.name}: ends: {error.problem}")
                    return
                worker.state = "waiting for the store"
                self._stop.wait(trouble.met(error))
                continue
            except (ProjectionStopped, ProjectionOutdated, RunsArchived) as error:
                moved = False
                trouble.over()
                worker.halt(error)
            if not moved:
                (self._stop if worker.stands_by else bell).wait(self._poll)

    def _hear(self) -> None:
        try:
            self._listen()
        except Exception as error:  # noqa: BLE001 - a thread has nobody else to tell
            what = f"{type(error).__name__}: {error}"
            self._tell(
                f"new events: heard of no more, but looked for every {self._poll:g} s: {what}"
            )

    def _listen(self) -> None:
        trouble = Trouble("new events", self._tell)
        hear(self._store, self._ring, self._is_over, self._stop.wait, trouble)
        self._ring()

    def _is_over(self) -> bool:
        """Whether it was closed, or the connection that it works on was."""
        try:
            self._check_usable()
        except StoreUnavailable:
            return True
        return self._stop.is_set()


def hear(
    store: Store,
    ring: Callable[[], None],
    is_over: Callable[[], bool],
    wait: Callable[[float], object],
    trouble: "Trouble",
) -> None:
    """Ring whenever something may have been appended to the logs, until it is over."""
    while not is_over():
        try:
            with closing(store.watch()) as watch:
                # What came before it listened.
                ring()
                while not is_over():
                    heard = watch.wait(_HEAR)
                    trouble.over()
                    if heard:
                        ring()
        except StoreUnavailable as error:
            wait(trouble.met(error))


class Flag:
    """An event, of one thread to another, which a signal handler may set too.

    One of `threading` may not be set while it is being set, which a handler can't know.
    """

    def __init__(self) -> None:
        self._set = False
        # On a lock that the same thread may take again.
        self._changed = Condition()

    def is_set(self) -> bool:
        """Whether it was set, and not cleared since."""
        return self._set

    def set(self) -> None:
        """Wake who waits."""
        self._set = True
        with self._changed:
            self._changed.notify_all()

    def clear(self) -> None:
        """Let who comes wait."""
        self._set = False

    def wait(self, seconds: float) -> None:
        """Wait until it is set, so long at most."""
        with self._changed:
            self._changed.wait_for(self.is_set, seconds)


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


def surely(tell: Tell) -> Tell:
    """The same, but what can't be told goes to the log: nobody stops following for it."""

    def told(sentence: str) -> None:
        try:
            tell(sentence)
        except Exception:
            _logger.exception("could not be told: %s", sentence)

    return told
