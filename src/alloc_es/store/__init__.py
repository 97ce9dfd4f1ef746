"""Stores: two logs, of decisions and of runs, behind one URL."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from alloc_es.clock import Patience
from alloc_es.errors import InvalidSetting
from alloc_es.events import DecisionEvent, Recorded
from alloc_es.incarnation import Incarnation
from alloc_es.store.log import EventLog
from alloc_es.store.recorder import LogName, StoreFactory
from alloc_es.store.run_log import RunLog
from alloc_es.store.session import Desk, Watch
from alloc_es.wording import shown

__all__ = ["EventLog", "Recorded", "Store", "open_store"]

_FORMS = "use memory:, sqlite:///path or postgresql://host/database"
_UNSAFE = "POSTGRES_ENABLE_DB_FUNCTIONS"
_OFF = frozenset({"", "n", "no", "f", "false", "off", "0"})


@dataclass(frozen=True, slots=True)
class Store:
    """An open store. `where` names it for people, without secrets.

    With an `incarnation` its logs take an event only while that is the newest of its name.
    """

    where: str
    decisions: EventLog[DecisionEvent]
    runs: RunLog
    desk: Desk
    watch: Callable[[], Watch]
    close_connections: Callable[[], None]
    incarnation: Incarnation | None = None

    def log(self, name: LogName) -> EventLog[Any]:
        """One of the two logs, by its name."""
        return self.decisions if name == "decisions" else self.runs

    def close(self) -> None:
        """Give back every connection; closing twice is allowed."""
        self.close_connections()


def open_store(
    url: str, *, patience: Patience, migrate: bool, incarnation: Incarnation | None = None
) -> Store:
    """Open the store that a URL names and check its schema.

    Raises `InvalidSetting` for a URL that is none of ours, `StoreUnavailable` when the
    store can't be reached or is not what it should be. With an `incarnation` the store's logs
    take an event only while it is the newest of its name, else `IncarnationSuperseded`.
    """
    _refuse_unsafe_option()
    factory = _factory(url, patience, incarnation)
    try:
        factory.prepare(migrate=migrate)
        return Store(
            factory.where,
            EventLog(factory, factory.log_recorder("decision_events")),
            RunLog(factory, factory.log_recorder("run_events")),
            factory.desk(),
            factory.watch,
            factory.close,
            incarnation,
        )
    except BaseException:
        factory.close()
        raise


def _factory(url: str, patience: Patience, incarnation: Incarnation | None) -> StoreFactory:
    if not _is_text(url):
        raise InvalidSetting("store", f"{shown(url)} is no URL; {_FORMS}")
    match url.partition(":"):
        case ("memory", ":", "" | "//"):
            from alloc_es.store import memory

            if incarnation is not None:
                problem = "memory: has one connection, of which no other can be the successor"
                raise InvalidSetting("incarnation", problem)
            return memory.Factory()
        case ("sqlite", _, _):
            from alloc_es.store import sqlite

            return sqlite.Factory(_sqlite_path(url), patience, incarnation)
        case ("postgresql" | "postgres", _, _):
            return _postgres_factory(url, patience, incarnation)
        case _:
            raise InvalidSetting(
                "store", f"no store's URL begins with {shown(url.partition(':')[0])}; {_FORMS}"
            )


def _sqlite_path(url: str) -> Path:
    path = url.removeprefix("sqlite:///")
    if path == url or not path or path == ":memory:" or "?" in path or "\0" in path:
        raise InvalidSetting("store", f"{url!r} names no file; {_FORMS}")
    try:
        return Path(path).absolute()
    except OSError as error:
        raise InvalidSetting("store", f"{url!r} has no place: {error.strerror}") from error


def _postgres_factory(
    url: str, patience: Patience, incarnation: Incarnation | None
) -> StoreFactory:
    try:
        from alloc_es.store import postgres
        from alloc_es.store.postgres_url import PostgresUrl
    except ImportError as error:
        problem = f"PostgreSQL needs the extra: pip install 'alloc-es[postgres]' ({error})"
        raise InvalidSetting("store", problem) from error
    return postgres.Factory(PostgresUrl.parse(url), patience.timeout, incarnation)


def _refuse_unsafe_option() -> None:
    """The library's option that inserts without a lock: followers miss events for ever.

    It has no effect on our recorders. Whoever sets it expects one, so it is refused.
    """
    for name, value in os.environ.items():
        if name.endswith(_UNSAFE) and value.strip().lower() not in _OFF:
            problem = f"{value!r} lets readers of the log miss events for ever; unset it"
            raise InvalidSetting(name, problem)


def _is_text(value: object) -> bool:
    """Whether it is a string that UTF-8 can write and C can read."""
    if not isinstance(value, str):
        return False
    try:
        return b"\0" not in value.encode()
    except UnicodeEncodeError:
        return False
