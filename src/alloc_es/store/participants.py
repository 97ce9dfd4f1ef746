"""Who is alive as which incarnation, as the table `participants` keeps it."""

from datetime import datetime

from alloc_es.incarnation import Incarnation
from alloc_es.scheduler_errors import IncarnationSuperseded
from alloc_es.store.session import Desk, Session

NEWEST = "SELECT incarnation FROM participants WHERE name = ?"
_COUNT_UP = (
    "INSERT INTO participants AS held (name, incarnation, started_at) VALUES (?, 1, ?)"
    " ON CONFLICT (name) DO UPDATE"
    " SET incarnation = held.incarnation + 1, started_at = excluded.started_at"
)


def begin(desk: Desk, name: str, now: datetime) -> Incarnation:
    """Count a participant's incarnation up; *atomic*, and behind every commit of the old one."""
    with desk.writing() as session:
        session.run(_COUNT_UP, name, now)
        begun = _newest(session, name)
    assert begun is not None
    return begun


def newest(desk: Desk, name: str) -> Incarnation | None:
    """The incarnation that is counted now; None where there never was one."""
    with desk.reading() as session:
        return _newest(session, name)


def look(desk: Desk, held: Incarnation) -> None:
    """Raise `IncarnationSuperseded` unless it is the newest of its name, at this moment."""
    found = newest(desk, held.name)
    refuse_superseded(held, found and found.number)


def refuse_superseded(held: Incarnation, newest: int | None) -> None:
    """Raise `IncarnationSuperseded` unless what is held is what the store counts."""
    if newest != held.number:
        raise IncarnationSuperseded(held.name, held.number, newest)


def _newest(session: Session, name: str) -> Incarnation | None:
    rows = session.rows(NEWEST, name)
    return Incarnation(name, int(rows[0][0])) if rows else None
