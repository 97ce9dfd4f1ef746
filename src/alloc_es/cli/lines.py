"""The lines of a file or a pipe, with or without waiting for those that have not arrived."""

import os
import select
import stat
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext

LONGEST_LINE = 65_536
"""Bytes that a line may have; five ids in the longest spelling of JSON fit four times."""

_BLOCK = 262_144
_BOM = b"\xef\xbb\xbf"


class InputLost(Exception):
    """The input can't be read any further; its cause is an `OSError`."""


class Lines:
    """Lines without their ends, in order, in memory that does not grow with their number.

    A line that is too long comes as its first `LONGEST_LINE + 1` bytes. `waiting` makes
    the context in which a read may wait for ever.
    """

    def __init__(
        self,
        descriptor: int,
        waiting: Callable[[], AbstractContextManager[object]] = nullcontext,
    ) -> None:
        self._descriptor = descriptor
        self._waiting = waiting
        status = os.fstat(descriptor)
        self._regular = stat.S_ISREG(status.st_mode)
        self._lines: deque[bytes] = deque()
        self._rest = b""
        self._ended = False
        self.size = status.st_size if self._regular else None
        """Bytes of the whole input, None where that is not known."""
        self.read = 0
        """Bytes that were read so far."""
        self.number = 0
        """The number of the line that was taken last."""

    @property
    def taken(self) -> int:
        """Bytes of the lines that were taken so far."""
        return self.read - len(self._rest) - len(self._lines) - sum(map(len, self._lines))

    @property
    def at_end(self) -> bool:
        """Whether the end is known to have come, and every line was taken."""
        return self._ended and not self._lines

    def arrived(self) -> bool:
        """Whether a line, or the end, is there to be taken without waiting."""
        while not self._lines and not self._ended:
            if not self._regular and not select.select([self._descriptor], [], [], 0)[0]:
                return False
            self._read()
        return True

    def take(self) -> bytes | None:
        """The next line, None at the end; waits for it. Raises `InputLost`."""
        while not self._lines:
            if self._ended:
                return None
            self._read()
        self.number += 1
        line = self._lines.popleft()
        return line.removeprefix(_BOM) if self.number == 1 else line

    def give_back(self, lines: Sequence[bytes]) -> None:
        """Let the lines that were taken last be taken again."""
        self._lines.extendleft(reversed(lines))
        self.number -= len(lines)

    def _read(self) -> None:
        try:
            with self._waiting():
                block = os.read(self._descriptor, _BLOCK)
        except OSError as error:
            raise InputLost(f"the input can't be read: {error.strerror}") from error
        self.read += len(block)
        *lines, rest = (self._rest + block).split(b"\n")
        self._ended = not block
        if self._ended and rest:
            lines, rest = [*lines, rest], b""
        self._lines.extend(lines)
        # What is cut off here belongs to a line that is too long already.
        self._rest = rest[: LONGEST_LINE + 1]
