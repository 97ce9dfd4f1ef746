"""A PostgreSQL connection that never waits for ever."""

from time import monotonic
from typing import Any, TypeVar

from psycopg import Connection
from psycopg.abc import PQGen
from psycopg.errors import OperationalError
from psycopg.rows import DictRow

T = TypeVar("T")

CONNECT_TIMEOUT = 2.0
"""Seconds to wait for a connection; a server that is up answers in milliseconds."""


class BoundedConnection(Connection[DictRow]):
    """Gives up on a server, or a network, that has gone silent.

    libpq waits for ever for an answer to what the other side has acknowledged; the server's
    own statement timeout is no help when its report can't come through.
    """

    longest_wait = CONNECT_TIMEOUT

    def wait(self, gen: PQGen[T], *args: Any, **options: Any) -> T:
        """Consume what operates on the connection, for a limited time."""
        return super().wait(self._in_time(gen), *args, **options)

    def _in_time(self, steps: PQGen[T]) -> PQGen[T]:
        give_up = monotonic() + self.longest_wait
        try:
            wish = next(steps)
            while True:
                ready = yield wish
                if not ready and monotonic() > give_up:
                    self.close()
                    raise OperationalError(f"no answer within {self.longest_wait:g} s")
                wish = steps.send(ready)
        except StopIteration as end:
            result: T = end.value
            return result
