"""Archives of runs: what their manifests say, and reading them in the place of the log."""

import json
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence, Set
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from threading import local
from typing import Any

from alloc_es import codec
from alloc_es.archive_errors import ArchiveMismatch
from alloc_es.events import Recorded, RunSpawned
from alloc_es.exchange.files import sha256_of, written_whole
from alloc_es.exchange.parquet_runs import RunFiles
from alloc_es.exchange.run_file import RunFile
from alloc_es.store.log import Batch
from alloc_es.store.recorder import Archive, Stored

MANIFEST = "manifest.json"
"""The file that says what is in an archive. It is the last one to be written."""

_TYPE = "alloc_es.archive"
_FORMAT = 1


@dataclass(frozen=True, slots=True)
class ArchivedFile:
    """A file of an archive: what it `holds`, and the SHA-256 of its bytes in hexadecimal."""

    holds: RunFile
    sha256: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """What an archive is: the `runs` at the positions `(after, up_to]`, in its `files`."""

    name: str
    after: int
    up_to: int
    runs: int
    files: tuple[ArchivedFile, ...]

    @classmethod
    def of(cls, name: str, after: int, up_to: int, directory: Path) -> "Manifest":
        """What to write of the files that are in a directory."""
        held = RunFiles(directory).files
        files = tuple(ArchivedFile(each, sha256_of(directory / each.name)) for each in held)
        return cls(name, after, up_to, sum(each.rows for each in held), files)

    @classmethod
    def read(cls, directory: Path) -> tuple["Manifest", str]:
        """The manifest in a directory, and its digest. Raises `ArchiveMismatch`."""
        try:
            written = (directory / MANIFEST).read_bytes()
            return _parsed(json.loads(written)), codec.digest(written)
        except OSError as error:
            problem = f"it holds no archive ({MANIFEST}: {error.strerror})"
            raise ArchiveMismatch(directory, problem) from error
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise ArchiveMismatch(directory, f"{MANIFEST} is not that of an archive") from error

    def write(self, directory: Path) -> str:
        """Write it to a directory, whole and on the disk; its digest."""
        files = [asdict(each.holds) | {"sha256": each.sha256} for each in self.files]
        said = {"type": _TYPE, "format": _FORMAT, **asdict(self), "files": files}
        written = f"{json.dumps(said, indent=2)}\n".encode()
        with written_whole(directory / MANIFEST) as part:
            part.write_bytes(written)
        return codec.digest(written)


def _parsed(said: dict[str, Any]) -> Manifest:
    if (said.pop("type"), said.pop("format")) != (_TYPE, _FORMAT):
        raise ValueError("another format")
    files = []
    for each in said.pop("files"):
        sha256 = each.pop("sha256")
        files.append(ArchivedFile(RunFile(**each), sha256))
    return Manifest(**said, files=tuple(files))


class AttachedArchive:
    """An archive that can be read; safe for threads.

    A file is compared with the manifest before the first run of it is given out.
    """

    def __init__(self, directory: Path, manifest: Manifest) -> None:
        self.manifest = manifest
        self._directory = directory
        # Not where their ranges end: behind its last run a file has nothing to answer with, and
        # to its reader that would be the end of the log.
        self._ends = [each.holds.last for each in manifest.files]
        self._sound: set[str] = set()
        # What reads a file is not safe for threads.
        self._own = local()
        if self._files().files != [each.holds for each in manifest.files] or (
            manifest.up_to not in self._ends[-1:]
        ):
            raise ArchiveMismatch(directory, f"its files are not those that {MANIFEST} names")

    def batch(self, after: int, *, up_to: int, limit: int) -> Batch[RunSpawned]:
        """The next runs behind a position, of one file. Raises `ArchiveMismatch`."""
        up_to = min(up_to, self._end_of_file(after))
        return self._files().batch(after, up_to=up_to, limit=limit)

    def stored(self, after: int, *, up_to: int, limit: int) -> Sequence[Stored]:
        """The next rows behind a position, of one file. Raises `ArchiveMismatch`."""
        up_to = min(up_to, self._end_of_file(after))
        rows = islice(self._files().rows(after, up_to=up_to), limit)
        return [row.stored for row in rows]

    def at(self, position: int) -> Recorded[RunSpawned] | None:
        """The run at a position, or None. Raises `ArchiveMismatch`."""
        self._check(self.manifest.files[bisect_left(self._ends, position)])
        return self._files().at(position)

    def _end_of_file(self, after: int) -> int:
        """The last position in the file that holds the next run behind one."""
        place = bisect_right(self._ends, after)
        self._check(self.manifest.files[place])
        return self._ends[place]

    def _files(self) -> RunFiles:
        found: RunFiles | None = getattr(self._own, "files", None)
        if found is None:
            found = self._own.files = RunFiles(self._directory)
        return found

    def _check(self, file: ArchivedFile) -> None:
        name = file.holds.name
        if name in self._sound:
            return
        if sha256_of(self._directory / name) != file.sha256:
            problem = f"the SHA-256 of {name} is not the one in {MANIFEST}"
            raise ArchiveMismatch(self._directory, problem)
        self._sound.add(name)


class Archives:
    """Archives of one store that are at hand, in the order of their positions."""

    def __init__(self, attached: Iterable[AttachedArchive]) -> None:
        self._attached = sorted(attached, key=lambda each: each.manifest.after)

    def batch(self, after: int, *, up_to: int, limit: int) -> Batch[RunSpawned] | None:
        """The next runs behind a position; None where they are in none of these archives."""
        held = self._with(after + 1)
        return None if held is None else held.batch(after, up_to=up_to, limit=limit)

    def stored(self, after: int, *, up_to: int, limit: int) -> Sequence[Stored] | None:
        """The next rows behind a position; None where they are in none of these archives."""
        held = self._with(after + 1)
        return None if held is None else held.stored(after, up_to=up_to, limit=limit)

    def at(self, position: int) -> Recorded[RunSpawned] | None:
        """The run at a position; None where it is in none of these archives."""
        held = self._with(position)
        return None if held is None else held.at(position)

    def _with(self, position: int) -> AttachedArchive | None:
        """The archive whose range has a position in it."""
        held = (each for each in self._attached if position <= each.manifest.up_to)
        found = next(held, None)
        return found if found and found.manifest.after < position else None


def attach(directories: Sequence[Path], known: Sequence[Archive]) -> Archives:
    """The archives in some directories, which a store must know as they are.

    One that is no archive may hold archives, of which those are read that the store knows.
    Raises `ArchiveMismatch` for another one, and `InvalidSetting` where `pyarrow` is missing.
    """
    found = [each for given in directories for each in _archives_in(given, known)]
    return Archives([AttachedArchive(each, known_manifest(each, known)) for each in found])


def _archives_in(directory: Path, known: Sequence[Archive]) -> Sequence[Path]:
    """A directory, or in its place those in it that are archives."""
    if (directory / MANIFEST).exists():
        return [directory]
    names = {each.name for each in known}
    held = [path.parent for path in sorted(directory.glob(f"*/{MANIFEST}"))]
    return [each for each in held if _is_meant(each, names)] or held or [directory]


def _is_meant(directory: Path, names: Set[str]) -> bool:
    """Whether a manifest is that of an archive of these names, or can't be told from one."""
    try:
        said = json.loads((directory / MANIFEST).read_bytes())
        return said["type"] == _TYPE and said["name"] in names
    except (OSError, TypeError, KeyError, ValueError):
        return True


def known_manifest(directory: Path, known: Sequence[Archive]) -> Manifest:
    """The manifest in a directory, if the store knows it. Raises `ArchiveMismatch`."""
    manifest, digest = Manifest.read(directory)
    recorded = next((each for each in known if each.name == manifest.name), None)
    if recorded is None:
        problem = f"the store knows no archive of the name {manifest.name}"
        raise ArchiveMismatch(directory, problem)
    if recorded.digest != digest:
        problem = f"{MANIFEST} is not the one that the store knows of {manifest.name}"
        raise ArchiveMismatch(directory, problem)
    return manifest
