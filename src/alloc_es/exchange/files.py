"""Files that are there whole or not at all: written beside their place, and put into it."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import file_digest
from pathlib import Path

PART = ".part"
"""What the name of a file ends with that is not whole yet."""


def part_of(path: Path) -> Path:
    """Where a file, or directory, is made."""
    return path.with_name(path.name + PART)


def settle(part: Path, path: Path) -> None:
    """Put what is whole into its place, on the disk too."""
    os.replace(part, path)
    sync(path.parent)


def sync(path: Path) -> None:
    """Wait until a file, or what a directory lists, is on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def written_whole(path: Path) -> Iterator[Path]:
    """A place to write a file to, which is put into its own one at the end."""
    part = part_of(path)
    yield part
    sync(part)
    settle(part, path)


def sha256_of(path: Path) -> str:
    """The SHA-256 of a file's bytes, in hexadecimal."""
    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()
