"""Connecting to a store."""

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path

from alloc_es.app import Allocations
from alloc_es.arguments import parse_count, parse_paths, parse_timeout
from alloc_es.clock import Patience, aware_time, new_id, utc_now
from alloc_es.identity import Actor, parse_identifier
from alloc_es.incarnation import Incarnation, parse_incarnation
from alloc_es.store import Store, open_store

DEFAULT_STORE = "sqlite:///alloc.db"
DEFAULT_ACTOR = "application"
DEFAULT_TIMEOUT = 10.0

_MOST_CHALLENGERS = 1_000
_MOST_CACHED = 10_000_000


def connect(
    url: str = DEFAULT_STORE,
    *,
    actor: str | None = None,
    incarnation: Incarnation | None = None,
    max_challengers: int = 1,
    timeout: float = DEFAULT_TIMEOUT,
    cached_workflows: int = 10_000,
    migrate: bool = True,
    archives: Iterable[str | Path] = (),
    clock: Callable[[], datetime] = utc_now,
    new_id: Callable[[], str] = new_id,
    patience: Patience | None = None,
) -> Allocations:
    """Open a store: `memory:`, `sqlite:///path` or `postgresql://…`.

    An empty database gets its tables, an older one the changes of this release, once,
    under a lock, however many processes start together; with `migrate=False` it is
    refused with `StoreNotInitialised` instead. PostgreSQL tables go into the schema
    `alloc_es`, or the one named by `?schema=` in the URL.

    `actor` is recorded with every command that names no other; by default it is
    "application". With an `incarnation`, from `Allocations.new_incarnation`, it is the
    participant's name, and decisions and runs are taken only while no newer incarnation of
    it has begun: the store refuses others with `IncarnationSuperseded`, in the transaction
    that would record them.

    `max_challengers` above 1 is tournament mode. A call that meets an unavailable store
    tries for `timeout` seconds, 0.001 to 86,400. A command or a read that is under way then
    may take as long again, a run that is being recorded as long again but at most 1 second;
    `connect` itself gives up on a server that can't be reached after 2. The allocations of the
    `cached_workflows` workflows used last are kept in memory: about 1 KB each, and 3 KB
    where runs are spawned. `archives` are directories of `alloc_es.archiving.archive`, or such as
    hold some of them, from which the runs are read that were moved there; what is in others is
    refused, with `RunsArchived` or `RunArchived`. `clock`, `new_id` (for command ids and salts)
    and `patience` replace the sources of time, randomness and waiting.

    Raises `InvalidSetting`, `ArchiveMismatch`, `StoreUnavailable` (also `StoreNotInitialised`
    and `SchemaTooNew`). Close what it returns, or use it in a `with` statement.
    """
    parse_count("max_challengers", max_challengers, _MOST_CHALLENGERS)
    parse_count("cached_workflows", cached_workflows, _MOST_CACHED)
    parse_timeout(timeout)
    incarnation = parse_incarnation(incarnation)
    if actor is None:
        actor = incarnation.name if incarnation else DEFAULT_ACTOR
    parsed_actor = Actor(parse_identifier("actor", actor))
    patience = patience or Patience(timeout)
    parse_timeout(patience.timeout)
    directories = parse_paths("archives", archives)
    store = open_store(url, patience=patience, migrate=migrate, incarnation=incarnation)
    if directories:
        _attach(store, directories, patience)
    return Allocations(
        store,
        actor=parsed_actor,
        max_challengers=max_challengers,
        cached_workflows=cached_workflows,
        patience=patience,
        clock=partial(aware_time, clock),
        new_id=new_id,
    )


def _attach(store: Store, directories: Sequence[Path], patience: Patience) -> None:
    """Let the runs that are archived in some directories be read from there."""
    from alloc_es.archives import attach

    try:
        known = patience.insist(store.runs.recorder.select_archives)
        store.runs.archives = attach(directories, known)
    except BaseException:
        store.close()
        raise
