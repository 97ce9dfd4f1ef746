"""Taking runs out of the log whose archive is complete."""

from datetime import datetime
from pathlib import Path

from alloc_es.archive_errors import ArchivedMeanwhile, ArchiveMismatch, NotYetFollowed
from alloc_es.store import Store
from alloc_es.store.recorder import Archive
from alloc_es.store.session import Session

AGAIN = "remove it, and archive again"
"""What to do about an archive that is not what it should be, while the log has its runs."""

_BEHIND = (
    "SELECT name, state, runs_position FROM projection_builds"
    " WHERE state <> 'old' AND runs_position < ? ORDER BY runs_position, name LIMIT 1"
)
_NEWEST_ARCHIVE = (
    "SELECT name, last_position, runs, digest FROM run_archives ORDER BY last_position DESC LIMIT 1"
)
_KEEP_IDS = (
    "INSERT INTO archived_runs (originator_id, position)"
    " SELECT originator_id, notification_id FROM run_events WHERE notification_id <= ?"
    " ON CONFLICT (originator_id) DO NOTHING"
)
_KEEP_ARCHIVE = (
    "INSERT INTO run_archives (name, last_position, runs, digest, archived_at)"
    " VALUES (?, ?, ?, ?, ?)"
)
_TAKE_OUT = "DELETE FROM run_events WHERE notification_id <= ?"


class Move:
    """Takes runs out of the log, in three transactions each of which may be made again.

    Their ids are kept first, in a transaction of its own: so a group of runs that asks for
    one of them again is refused at once, and never waits for the long one that takes them out.
    """

    def __init__(self, store: Store, directory: Path, archive: Archive, after: int) -> None:
        self._desk = store.desk
        self._directory = directory
        self._archive = archive
        self._after = after

    def keep_ids(self) -> None:
        """Note the ids of the runs, which can't be given out again from then on."""
        with self._desk.writing() as session:
            session.take_time()
            if not self._is_made(session):
                session.run(_KEEP_IDS, self._archive.last_position)
                # Those who spawn may have made a plan for a table without rows, and keep it.
                session.tell_size("archived_runs")

    def outwait(self) -> None:
        """Wait until nobody records runs who began before the ids were noted."""
        with self._desk.writing() as session:
            session.take_turn("run_events")

    def take_out(self, now: datetime) -> None:
        """Record the archive and take its runs out of the log; *atomic*."""
        with self._desk.writing() as session:
            session.take_time()
            if not self._is_made(session):
                require_followed(session, self._archive.last_position)
                session.run(_KEEP_ARCHIVE, *self._archive, now)
                if session.run(_TAKE_OUT, self._archive.last_position) != self._archive.runs:
                    problem = "the log does not hold as many runs as it"
                    raise ArchiveMismatch(self._directory, problem, AGAIN)

    def _is_made(self, session: Session) -> bool:
        """Whether it is recorded; raises `ArchivedMeanwhile` where another one is."""
        session.take_turn("run_archives")
        rows = session.rows(_NEWEST_ARCHIVE)
        newest = Archive(*rows[0]) if rows else None
        if newest == self._archive:
            return True
        if newest is not None and newest.last_position != self._after:
            raise ArchivedMeanwhile(
                self._directory, archive=newest.name, archived_to=newest.last_position
            )
        return False


def require_followed(session: Session, up_to: int) -> None:
    """Raise `NotYetFollowed` where a read model has not passed a position of the run log."""
    for name, state, position in session.rows(_BEHIND, up_to):
        raise NotYetFollowed(name, state, position=position, up_to=up_to)
