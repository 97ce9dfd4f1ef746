"""Importing an export into an empty store, as it was or not at all."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from alloc_es.app import Allocations
from alloc_es.errors import AnswerLost, InvalidSetting, StoreUnavailable
from alloc_es.evidence import Evidence
from alloc_es.exchange.errors import ImportRefused, StoreNotEmpty
from alloc_es.exchange.opening import open_export
from alloc_es.rebuilding import Report, _unreported
from alloc_es.store.recorder import LOGS, LogName, Stored
from alloc_es.store.session import BadRow, Session


@dataclass(frozen=True, slots=True)
class Imported:
    """A log that was imported: into which store, and how many events of each log.

    `ends` are the last positions of the logs.
    """

    where: str
    ends: Mapping[LogName, int]
    decisions: int
    runs: int


def import_(
    path: Path,
    allocations: Allocations,
    *,
    report: Report = _unreported,
) -> Imported:
    """Import an export, of either format, into an empty store.

    *Atomic*: in one transaction, however large the export is. Every event has the position
    and the very bytes that it had, so digests, generations and read models come out the same.
    The rules of the store's tables hold for each row.

    Raises `StoreNotEmpty`, `ExportDamaged`, `ImportRefused`, `InvalidSetting` and
    `StoreUnavailable`.
    """
    store = allocations._store
    if allocations.store == "memory":
        raise InvalidSetting("store", "what is imported into one in memory is gone with it")
    with open_export(path) as held:
        try:
            with store.desk.writing() as session:
                _refuse_events(session, store.where)
                loading = _Loading(held, session, report)
                for log in LOGS:
                    loading.load(log)
        except BadRow as error:
            raise ImportRefused(path, str(error)) from error
        except AnswerLost as error:
            problem = f"{error.problem}; the whole log was imported, or nothing: look with list"
            raise StoreUnavailable(problem) from error
        ends = held.ends()
    return Imported(store.where, ends, loading.counts["decisions"], loading.counts["runs"])


def _refuse_events(session: Session, where: str) -> None:
    """Raise `StoreNotEmpty`, now or never: nobody can append until the transaction ends."""
    # In this order: who appends runs may wait for who decides, and never the other way round.
    for table in ("run_events", "decision_events"):
        session.take_turn(table)
    for table in LOGS.values():
        if session.rows(f"SELECT 1 FROM {table} LIMIT 1"):
            raise StoreNotEmpty(where)


class _Loading:
    """What was loaded so far."""

    def __init__(self, held: Evidence, session: Session, report: Report) -> None:
        self.counts: dict[LogName, int] = dict.fromkeys(LOGS, 0)
        self._held = held
        self._session = session
        self._report = report
        self._goal = sum(held.ends().values())
        self._before = 0

    def load(self, log: LogName) -> None:
        """Load one of the logs."""
        self._session.load(LOGS[log], self._counted(log))
        self._before += self._held.ends()[log]

    def _counted(self, log: LogName) -> Iterator[Stored]:
        for number, row in enumerate(self._held.stored(log), start=1):
            if number % 1_000 == 0:
                self._report(self._before + row.position, self._goal)
            yield row
            self.counts[log] = number
        self._report(self._before + self._held.ends()[log], self._goal)
