"""Places that exports are written to: nothing is removed from there but what is of an export."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from alloc_es.errors import InvalidSetting
from alloc_es.exchange.errors import ExportExists
from alloc_es.exchange.files import PART
from alloc_es.exchange.parquet import DECISIONS, MANIFEST
from alloc_es.exchange.run_file import is_run_file

_FIRST_LINE = b'{"specversion":"1.0","id":"began-'
_MANIFEST = b'{\n  "type": "alloc_es.export'


@contextmanager
def alone_at(part: Path, *, is_directory: bool) -> Iterator[None]:
    """A place to write to that nobody else writes to meanwhile.

    What is there of an interrupted export stays if it is of the same sort, and is removed
    else. Raises `ExportExists` where anything else is there, and `InvalidSetting` where
    another process writes to it.
    """
    _refuse_strange(part)
    if part.exists() and part.is_dir() != is_directory:
        with _locked(part):
            remove(part)
    if is_directory:
        part.mkdir(exist_ok=True)
    else:
        part.touch()
    with _locked(part):
        yield


@contextmanager
def _locked(part: Path) -> Iterator[None]:
    # Here, because not every system has it, and the command line is imported on all of them.
    import fcntl

    descriptor = os.open(part, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError as error:
        raise InvalidSetting("target", f"another process writes to {part}") from error
    finally:
        os.close(descriptor)


def refuse_others(directory: Path) -> None:
    """Raise `ExportExists` where a directory holds what is no part of an export."""
    others = sorted(each.name for each in directory.iterdir() if not _is_part(each))
    if others:
        raise ExportExists(directory, f"holds {others[0]}, which is no part of an export")


def remove(path: Path) -> None:
    """Remove an export, or what there is of one; nothing where there is none."""
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _is_part(path: Path) -> bool:
    name = path.name.removesuffix(PART).removesuffix(PART)
    known = name in (DECISIONS, MANIFEST) or is_run_file(name)
    return known and path.is_file() and not path.is_symlink()


def _refuse_strange(part: Path) -> None:
    """Raise `ExportExists` where what is there is no export that was interrupted."""
    if part.is_dir() and not part.is_symlink():
        refuse_others(part)
    if os.path.lexists(part) and not _is_unfinished(part):
        raise ExportExists(part, "is no export that was interrupted")


def _is_unfinished(part: Path) -> bool:
    """Whether what is there was begun by an export, which an empty place may have been."""
    if part.is_symlink():
        return False
    if not part.is_dir():
        return part.is_file() and _begins(part, _FIRST_LINE)
    names = list(part.iterdir())
    told = [each for each in names if each.name.startswith(MANIFEST)]
    return bool(told or not names) and all(_begins(each, _MANIFEST) for each in told)


def _begins(path: Path, text: bytes) -> bool:
    """Whether a file begins with a text, as far as it goes."""
    with path.open("rb") as file:
        found = file.read(len(text))
    return text.startswith(found)
