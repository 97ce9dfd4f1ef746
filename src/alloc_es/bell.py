"""A bell that wakes threads and tasks alike, and misses nobody who is about to wait."""

import asyncio
from concurrent.futures import Future
from threading import Lock


class Ring:
    """A ring that is to come."""

    def __init__(self) -> None:
        # Opened by the ring, and by each who passes for the next. Not an Event, nor a
        # Condition: those are Python inside, which a Ctrl-C may leave half done.
        self.turnstile = Lock()
        self.turnstile.acquire()
        self.rung: Future[None] = Future()
        # From now on a task that waits for it can't cancel it for the others.
        self.rung.set_running_or_notify_cancel()


class Bell:
    """Rings for all who wait. Take the ring to come, look around, and then wait for it:
    what rings while you look is not missed."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._coming = Ring()

    def coming(self) -> Ring:
        """The next ring."""
        return self._coming

    def ring(self) -> None:
        """Wake all who wait for the next ring."""
        with self._lock:
            rung, self._coming = self._coming, Ring()
        rung.turnstile.release()
        rung.rung.set_result(None)

    def wait(self, ring: Ring, seconds: float) -> None:
        """Wait for a ring, so long at most. Who has waited in vain rings for the others."""
        if ring.turnstile.acquire(timeout=seconds):
            ring.turnstile.release()
        else:
            self.ring()

    async def hear(self, ring: Ring, seconds: float) -> None:
        """As `wait`, for tasks."""
        heard = asyncio.wrap_future(ring.rung)
        try:
            done, _ = await asyncio.wait([heard], timeout=seconds)
        finally:
            heard.cancel()
        if not done:
            self.ring()
