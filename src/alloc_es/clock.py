"""The default sources of time, ids and patience; each can be replaced through `connect`."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from random import Random
from typing import TypeVar
from uuid import uuid4

from alloc_es.errors import AnswerLost, InvalidSetting, StoreUnavailable
from alloc_es.wording import shown

T = TypeVar("T")

_FIRST_WAIT = 0.002
_LONGEST_WAIT = 0.1


def utc_now() -> datetime:
    """The wall clock. It stamps events and orders nothing."""
    return datetime.now(UTC)


def aware_time(clock: Callable[[], object]) -> datetime:
    """What a clock says, in UTC; raises `InvalidSetting` for what is no moment."""
    now = clock()
    if not isinstance(now, datetime) or now.utcoffset() is None:
        raise InvalidSetting("clock", f"it says {shown(now)}, not a datetime with its time zone")
    try:
        return now.astimezone(UTC)
    except OverflowError:
        raise InvalidSetting("clock", f"it says {shown(now)}, which UTC can't say") from None


def new_id() -> str:
    """A fresh id for a command, or a salt: 32 hexadecimal digits of randomness."""
    return uuid4().hex


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a call tries, in seconds, and how it waits between two tries.

    Waits double from 2 ms to at most 100 ms and each is a random part of that ("full
    jitter"), so that callers who collided once do not collide again in step.
    """

    timeout: float
    sleep: Callable[[float], None] = time.sleep
    monotonic: Callable[[], float] = time.monotonic
    random: Random = field(default_factory=Random)

    def deadline(self) -> float:
        """The moment, on the monotonic clock, at which a call that begins now gives up."""
        return self.monotonic() + self.timeout

    def pause(self, attempt: int, deadline: float) -> bool:
        """Wait before the next attempt; False, at once, when the deadline has passed."""
        left = deadline - self.monotonic()
        if left <= 0:
            return False
        longest = min(_LONGEST_WAIT, _FIRST_WAIT * 2 ** min(attempt, 10))
        self.sleep(min(left, self.random.uniform(0, longest)))
        return True

    def insist(self, call: Callable[[], T], deadline: float | None = None) -> T:
        """Read again while the store is unavailable and the deadline is ahead.

        Without a deadline the read is a call of its own, which begins now.
        """
        deadline = self.deadline() if deadline is None else deadline
        attempt = 0
        while True:
            try:
                return call()
            except StoreUnavailable as error:
                attempt += 1
                if error.retryable and self.pause(attempt, deadline):
                    continue
                if isinstance(error, AnswerLost):
                    # Of a read nothing is in doubt.
                    raise StoreUnavailable(error.problem, retryable=error.retryable) from error
                raise
