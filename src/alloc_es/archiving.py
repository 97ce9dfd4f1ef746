"""Moving old runs into an archive: files first, and from the log only what they hold."""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from itertools import islice
from pathlib import Path

from alloc_es.app import Allocations
from alloc_es.archive_errors import ArchiveMismatch
from alloc_es.archives import MANIFEST, Manifest, known_manifest
from alloc_es.arguments import parse_ordinal, parse_time
from alloc_es.clock import Patience
from alloc_es.errors import InvalidSetting
from alloc_es.exchange.files import sha256_of, sync
from alloc_es.exchange.parquet_runs import SPAN, RunFiles, write_runs
from alloc_es.exchange.run_file import run_file_name
from alloc_es.identity import parse_identifier
from alloc_es.rebuilding import Report, _unreported
from alloc_es.removing import AGAIN, Move, require_followed
from alloc_es.store import Store
from alloc_es.store.log import PAGE
from alloc_es.store.recorder import UNLIMITED, Archive, SqlRecorder, Stored

_LAST = (
    "SELECT coalesce(max(notification_id), 0) FROM run_events WHERE notification_id <= ?"
    " AND notification_id < (SELECT max(notification_id) FROM run_events)"
)
# What a call that was interrupted leaves behind.
_UNFINISHED = re.compile(r"runs-\d{20}\.parquet(\.part)?|manifest\.json\.part")
_ELSEWHERE = "choose a directory that is empty"
_COUNT = "SELECT count(*) FROM run_events WHERE notification_id <= ?"


@dataclass(frozen=True, slots=True)
class ArchivePlan:
    """What would be archived: so many `runs`, at the positions `(after, up_to]`."""

    after: int
    up_to: int
    runs: int


@dataclass(frozen=True, slots=True)
class Archived:
    """An archive: its `name`, that of its `directory`, and its `runs`, the last at `up_to`.

    `digest` is the SHA-256 of its manifest, as the store has recorded it.
    """

    name: str
    runs: int
    up_to: int
    digest: str
    directory: Path


def plan_archive(
    allocations: Allocations, *, up_to: int | None = None, before: datetime | None = None
) -> ArchivePlan | None:
    """What `archive` would archive, None where that is nothing; writes nothing.

    Raises what `archive` raises before it begins.
    """
    return _Archiving(allocations, _unreported).plan(_Wish(up_to, before))


def archive(
    allocations: Allocations,
    target: Path | str,
    *,
    up_to: int | None = None,
    before: datetime | None = None,
    report: Report = _unreported,
) -> Archived | None:
    """Move the oldest runs of the log into an archive, the directory `target`.

    Those `up_to` a position of the run log, or those in front of the first one that was not
    recorded `before` a time; the newest run of all stays in the log. None where no run is
    left to be archived. The files are written and compared with the log, byte by byte,
    before a run is taken from it; that is *atomic*, and the same call again goes on where one
    was interrupted. `report` is called with how many steps are done, and how many there are.

    Raises `InvalidSetting` (for a store in memory, for a directory that holds anything else,
    and where `pyarrow` is missing), `NotYetFollowed`, `ArchivedMeanwhile`, `ArchiveMismatch`,
    `RunsArchived` and `StoreUnavailable`.
    """
    directory = Path(target).absolute()
    parse_identifier("archive", directory.name)
    return _Archiving(allocations, report).archive(directory, _Wish(up_to, before))


class _Wish:
    """How far to archive, as a caller said it."""

    def __init__(self, up_to: int | None, before: datetime | None) -> None:
        if (up_to is None) == (before is None):
            raise InvalidSetting("up_to", "give it or before, one of the two")
        self.up_to = UNLIMITED if up_to is None else parse_ordinal("up_to", "position", up_to)
        self.before = None if before is None else parse_time("before", before)


class _Archiving:
    """Archives runs of one store, once."""

    def __init__(self, allocations: Allocations, report: Report) -> None:
        self._store: Store = allocations._store
        self._patience: Patience = allocations._ledger.patience
        self._clock = allocations._ledger.clock
        self._report = report
        recorder = self._store.runs.recorder
        if not isinstance(recorder, SqlRecorder):
            raise InvalidSetting("store", "one in memory ends with the process; archive another")
        self._recorder = recorder

    def plan(self, wish: _Wish) -> ArchivePlan | None:
        """What there is to archive. Raises `NotYetFollowed`."""
        after = self._patience.insist(self._recorder.archived_to)
        last = self._last(min(wish.up_to, self._recorded_before(after, wish)))
        if last <= after:
            return None
        return ArchivePlan(after, last, self._patience.insist(partial(self._count, last)))

    def _count(self, up_to: int) -> int:
        """How many runs there are up to a position, which every read model has passed."""
        # To count so many may take longer than a statement is given elsewhere.
        with self._store.desk.snapshot() as session:
            require_followed(session, up_to)
            ((runs,),) = session.rows(_COUNT, up_to)
        return int(runs)

    def archive(self, directory: Path, wish: _Wish) -> Archived | None:
        """Archive what there is, or go on with what was begun."""
        known = self._patience.insist(self._recorder.select_archives)
        own = next((each for each in known if each.name == directory.name), None)
        plan = self.plan(wish)
        if own is not None:
            return self._done(directory, own, plan)
        if plan is None:
            return None
        with _alone_in(directory):
            begun = self._begun(directory, plan)
            manifest, digest = begun or self._write(directory, plan)
            # What lies there whole and is not as the log may be the archive of another store.
            self._compare(directory, manifest, _ELSEWHERE if begun else AGAIN)
            self._move(directory, manifest, digest)
        return Archived(manifest.name, manifest.runs, manifest.up_to, digest, directory)

    def _done(self, directory: Path, own: Archive, plan: ArchivePlan | None) -> Archived:
        """What an earlier call has archived, which is all that there was."""
        if not directory.exists() or plan is not None:
            problem = (
                f"an archive is called {own.name}, of the runs up to position "
                f"{own.last_position}; give the new one another name"
            )
            raise InvalidSetting("target", problem)
        known_manifest(directory, [own])
        return Archived(own.name, own.runs, own.last_position, own.digest, directory)

    def _last(self, bound: int) -> int:
        """The position of the last run up to a bound, the newest of all left aside."""

        def read() -> int:
            with self._store.desk.reading() as session:
                ((last,),) = session.rows(_LAST, bound)
            return int(last)

        return self._patience.insist(read)

    def _recorded_before(self, after: int, wish: _Wish) -> int:
        """The position up to which every run was recorded before the time that was wished."""
        if wish.before is None:
            return UNLIMITED
        log, end = self._store.runs, self._patience.insist(self._store.runs.end)
        reached = after
        while True:
            batch = self._patience.insist(partial(log.batch, reached))
            for entry in batch.events:
                if entry.time >= wish.before:
                    return reached
                reached = entry.position
            if batch.failure is not None:
                raise batch.failure
            if not batch.events:
                return reached
            self._report(reached - after, 3 * max(end - after, reached - after))

    def _begun(self, directory: Path, plan: ArchivePlan) -> tuple[Manifest, str] | None:
        """What an earlier call has written and not recorded; None where that is not whole."""
        entries = [each.name for each in directory.iterdir()]
        if MANIFEST not in entries:
            for name in entries:
                if not _UNFINISHED.fullmatch(name):
                    problem = f"{directory} holds {name}; {_ELSEWHERE}"
                    raise InvalidSetting("target", problem)
            return None
        manifest, digest = Manifest.read(directory)
        is_ours = (manifest.name, manifest.after) == (directory.name, plan.after)
        if not is_ours or manifest.up_to > plan.up_to:
            problem = (
                f"{directory} holds the files of another archive, {manifest.name}, of the runs "
                f"up to position {manifest.up_to}; {_ELSEWHERE}"
            )
            raise InvalidSetting("target", problem)
        return manifest, digest

    def _write(self, directory: Path, plan: ArchivePlan) -> tuple[Manifest, str]:
        """Write the files that are not there yet, and last the manifest."""
        ranges = {run_file_name(end): (begin, end) for begin, end in _ranges(plan)}
        for path in directory.iterdir():
            if path.name not in ranges:
                path.unlink()
        kept = {each.name: (each.after, each.up_to) for each in RunFiles(directory).files}
        for name, (begin, end) in ranges.items():
            if kept.get(name) != (begin, end):
                self._write_range(directory, plan, begin, end)
            self._tell(plan, end - plan.after)
        manifest = Manifest.of(directory.name, plan.after, plan.up_to, directory)
        return manifest, manifest.write(directory)

    def _write_range(self, directory: Path, plan: ArchivePlan, begin: int, end: int) -> None:
        rows = (row for page in self._pages(begin, end) for row in page)
        for _ in write_runs(
            directory,
            rows,
            after=begin,
            up_to=end,
            report=lambda position: self._tell(plan, position - plan.after),
        ):
            pass

    def _tell(self, plan: ArchivePlan | Manifest, done: int) -> None:
        """Report how many positions are behind: each is looked at, written, and compared."""
        span = plan.up_to - plan.after
        self._report(span + done, 3 * span)

    def _pages(self, after: int, up_to: int) -> Iterator[list[Stored]]:
        """The rows of the log at the positions `(after, up_to]`, as they are stored."""
        read = self._recorder.select_batch
        while rows := self._patience.insist(partial(read, after, up_to, PAGE)):
            yield [Stored(*row[:4], bytes(row[4])) for row in rows]
            after = rows[-1][0]

    def _compare(self, directory: Path, manifest: Manifest, advice: str) -> None:
        """Read back what was written: it must be what the log holds, byte for byte."""
        span = manifest.up_to - manifest.after
        written = RunFiles(directory).rows(manifest.after, up_to=manifest.up_to)
        runs = 0
        for page in self._pages(manifest.after, manifest.up_to):
            if [row.stored for row in islice(written, len(page))] != page:
                problem = f"behind position {page[0].position - 1} it is not as the log"
                raise ArchiveMismatch(directory, problem, advice)
            runs += len(page)
            self._tell(manifest, span + page[-1].position - manifest.after)
        same = all(sha256_of(directory / f.holds.name) == f.sha256 for f in manifest.files)
        if not same or next(written, None) or runs != manifest.runs:
            raise ArchiveMismatch(directory, "it does not hold what its manifest says", advice)

    def _move(self, directory: Path, manifest: Manifest, digest: str) -> None:
        """Take the runs out of the log, whose ids stay taken."""
        move = Move(
            self._store,
            directory,
            Archive(manifest.name, manifest.up_to, manifest.runs, digest),
            manifest.after,
        )
        self._patience.insist(move.keep_ids)
        self._patience.insist(move.outwait)
        self._patience.insist(partial(move.take_out, self._clock()))


def _ranges(plan: ArchivePlan) -> Iterator[tuple[int, int]]:
    """What each file is to hold of the positions of a plan."""
    begin = plan.after
    while begin < plan.up_to:
        end = min(plan.up_to, (begin // SPAN + 1) * SPAN)
        yield begin, end
        begin = end


@contextmanager
def _alone_in(directory: Path) -> Iterator[None]:
    """A directory that nobody else archives to meanwhile, made where there is none."""
    # Here, because not every system has it, and the command line is imported on all of them.
    import fcntl

    try:
        directory.mkdir(exist_ok=True)
        sync(directory.parent)
        descriptor = os.open(directory, os.O_RDONLY)
    except OSError as error:
        raise InvalidSetting("target", f"{directory}: {error.strerror}") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError as error:
        raise InvalidSetting("target", f"another process archives to {directory}") from error
    finally:
        os.close(descriptor)
