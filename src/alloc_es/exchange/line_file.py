"""A file of lines, read from any place in it, in memory that does not grow with it."""

from collections.abc import Iterator
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import IO, NamedTuple

from alloc_es.errors import InvalidSetting
from alloc_es.exchange.errors import ExportDamaged

LONGEST_LINE = 2**26
"""Bytes that a line may have; the largest decision, of a thousand challengers, has a few MB."""

_BLOCK = 2**20


class Line(NamedTuple):
    """A line, with its end if it has one, and the place in its file where it begins."""

    offset: int
    text: bytes


class LineFile:
    """A file of lines. Raises `InvalidSetting` where it can't be opened, or is no file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        # A pipe can be read once, from its beginning.
        if path.exists() and not path.is_file():
            problem = (
                f"{path} is no file, and an export is looked at in many places: store it as one"
            )
            raise InvalidSetting("path", problem)
        with self._opened() as file:
            self.size = file.seek(0, 2)

    def lines(self, offset: int = 0) -> Iterator[Line]:
        """The lines from one that begins at `offset`. Raises `ExportDamaged` for an endless one."""
        with self._opened() as file:
            file.seek(offset)
            for text in iter(partial(file.readline, LONGEST_LINE), b""):
                if len(text) == LONGEST_LINE:
                    raise self.damaged(offset, f"it is longer than {LONGEST_LINE:,} bytes")
                yield Line(offset, text)
                offset += len(text)

    def first_behind(self, place: int) -> int:
        """Where the first line begins that does so at a place, or behind it."""
        if place == 0:
            return 0
        with self._opened() as file:
            file.seek(place - 1)
            return place - 1 + len(file.readline())

    def last(self) -> int:
        """Where the last line begins."""
        with self._opened() as file:
            end = self.size - 1
            while end > 0:
                begin = max(0, end - _BLOCK)
                file.seek(begin)
                found = file.read(end - begin).rfind(b"\n")
                if found >= 0:
                    return begin + found + 1
                end = begin
        return 0

    def digest(self, end: int) -> str:
        """The SHA-256 of what is before a place."""
        found = sha256()
        for block in self._blocks(end):
            found.update(block)
        return found.hexdigest()

    def damaged(self, offset: int, problem: str) -> ExportDamaged:
        """The error for the line that begins at a place."""
        number = 1 + sum(block.count(b"\n") for block in self._blocks(offset))
        return ExportDamaged(self.path, number, problem)

    def _blocks(self, end: int) -> Iterator[bytes]:
        with self._opened() as file:
            while end > 0 and (block := file.read(min(end, _BLOCK))):
                yield block
                end -= len(block)

    def _opened(self) -> IO[bytes]:
        try:
            return self.path.open("rb")
        except OSError as error:
            raise InvalidSetting("path", f"{self.path}: {error.strerror}") from error
