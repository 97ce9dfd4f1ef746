"""A bell that wakes threads and tasks alike, and misses nobody who is about to wait."""

import asyncio
from concurrent.futures import Future, wait
from threading import Lock

Ring = Future[None]
"""A ring that is to come; it is done when the bell has rung."""


class Bell:
    """Rings for all who wait. Take the ring to come, look around, and then wait for it:
    what rings while you look is not missed."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._coming = _ring()

    def coming(self) -> Ring:
        """The next ring."""
        with self._lock:
            return self._coming

    def ring(self) -> None:
        """Wake all who wait for the next ring."""
        with self._lock:
            rung, self._coming = self._coming, _ring()
        rung.set_result(None)

    def wait(self, coming: Ring, seconds: float) -> None:
        """Wait for a ring, so long at most. Who has waited in vain rings for the others."""
        if not wait([coming], seconds).done:
            self.ring()

    async def hear(self, coming: Ring, seconds: float) -> None:
        """As `wait`, for tasks."""
        heard = asyncio.wrap_future(coming)
        try:
            done, _ = await asyncio.wait([heard], timeout=seconds)
        finally:
            heard.cancel()
        if not done:
            self.ring()


def _ring() -> Ring:
    made = Ring()
    # From then on nobody who waits for it can cancel it for the others.
    made.set_running_or_notify_cancel()
    return made
