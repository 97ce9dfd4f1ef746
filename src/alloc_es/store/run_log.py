"""The log of runs, the oldest of which may have been moved into archives."""

from collections.abc import Mapping, Sequence
from typing import Protocol
from urllib.parse import unquote

from alloc_es.archive_errors import RunArchived, RunsArchived
from alloc_es.errors import AllocationError
from alloc_es.events import Recorded, RunSpawned
from alloc_es.store.log import PAGE, Batch, EventLog
from alloc_es.store.recorder import UNLIMITED, Stored


class Archives(Protocol):
    """Archives that are at hand."""

    def batch(self, after: int, *, up_to: int, limit: int) -> Batch[RunSpawned] | None:
        """The next runs behind a position; None where they are in none of these archives."""

    def stored(self, after: int, *, up_to: int, limit: int) -> Sequence[Stored] | None:
        """The next rows behind a position; None where they are in none of these archives."""

    def at(self, position: int) -> Recorded[RunSpawned] | None:
        """The run at a position; None where it is in none of these archives."""


class RunLog(EventLog[RunSpawned]):
    """The runs of a store, of which the oldest may be in archives.

    What is not at hand is refused, with `RunsArchived` or `RunArchived`: nobody is ever given
    a part of the log for the whole.
    """

    archives: Archives | None = None
    """Those that are at hand."""

    def batch(self, after: int, *, up_to: int = UNLIMITED, limit: int = PAGE) -> Batch[RunSpawned]:
        """The next runs behind a position, in commit order; none at the end of the log.

        Raises `RunsArchived` where they are in an archive that is not at hand.
        """
        if self.archives is not None:
            archived = self.archives.batch(max(after, 0), up_to=up_to, limit=limit)
            if archived is not None:
                return archived
        batch = super().batch(after, up_to=up_to, limit=limit)
        # Behind the read, from which an archive that came in between has taken runs away.
        self.require(after, up_to=up_to)
        return batch

    def stored(self, after: int, *, up_to: int = UNLIMITED, limit: int = PAGE) -> Sequence[Stored]:
        """The next rows behind a position as they are stored; none at the end of the log.

        Raises `RunsArchived` where they are in an archive that is not at hand.
        """
        if self.archives is not None:
            archived = self.archives.stored(max(after, 0), up_to=up_to, limit=limit)
            if archived is not None:
                return archived
        rows = super().stored(after, up_to=up_to, limit=limit)
        self.require(after, up_to=up_to)
        return rows

    def require(self, after: int, *, up_to: int = UNLIMITED) -> None:
        """Raise `RunsArchived` where the runs behind a position are in no archive at hand."""
        archived_to, after = self.recorder.archived_to(), max(after, 0)
        if after >= min(archived_to, up_to):
            return
        if self.archives is None or self.archives.batch(after, up_to=up_to, limit=1) is None:
            raise RunsArchived(self._archive_of(after + 1), archived_to=archived_to, after=after)

    def newest(self, stream: str) -> Recorded[RunSpawned] | None:
        """The run of a stream, or None. Raises `RunArchived` where it is not at hand."""
        # First the log: a run is not taken from there before its archive is recorded.
        held = super().newest(stream) or self._archived([stream]).get(stream)
        if isinstance(held, AllocationError):
            raise held
        return held

    def newest_of(
        self, streams: Sequence[str]
    ) -> dict[str, Recorded[RunSpawned] | AllocationError]:
        """The run of each of these streams that has one, by stream, or why it can't be had."""
        found = super().newest_of(streams)
        return {**found, **self._archived([each for each in streams if each not in found])}

    def _archived(
        self, streams: Sequence[str]
    ) -> Mapping[str, Recorded[RunSpawned] | AllocationError]:
        positions = self.recorder.select_archived(streams) if streams else {}
        return {stream: self._moved(stream, place) for stream, place in positions.items()}

    def _moved(self, stream: str, position: int) -> Recorded[RunSpawned] | AllocationError:
        try:
            held = None if self.archives is None else self.archives.at(position)
        except AllocationError as error:
            return error
        if held is not None:
            return held
        # What an id has of these signs is escaped as in a URL.
        _, tenant_id, run_id = map(unquote, stream.split("/"))
        archive = self._archive_of(position)
        return RunArchived(tenant_id, run_id, position=position, archive=archive)

    def _archive_of(self, position: int) -> str:
        known = self.recorder.select_archives()
        held = (each.name for each in known if each.last_position >= position)
        return next(held, "that the store does not know of")
