"""What `make bench` measures. A new case is a function here and a line in `cases`."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from statistics import median
from time import perf_counter
from typing import TypeVar
from uuid import uuid4

from tests.bench.auditing import auditing, chain
from tests.bench.crew import Crew
from tests.bench.flat_out import flat_out
from tests.bench.following import visible
from tests.bench.goals import AtMost
from tests.bench.harness import running_schedulers
from tests.bench.library import SNAPSHOT_EVERY
from tests.bench.measuring import Case, Contender, Measure
from tests.bench.memory import at_full_load, of_a_workflow
from tests.bench.parts import each, parts_of_a_commit
from tests.bench.peers import routing
from tests.bench.plain import ready_rows
from tests.bench.reading import counts, ledger
from tests.bench.reading_large import first_run, whole_log
from tests.bench.reading_logs import RunLog
from tests.bench.rivals import Opener, Rival
from tests.bench.run_parts import parts_of_a_list
from tests.bench.scale import Scale
from tests.bench.spawning import callers, lists, processes
from tests.bench.stores import Stores

T = TypeVar("T")

LEDGER = "alloc-es"
ROW = "hand-written row"
LIBRARY = "library"
SNAPSHOTS = f"library, a snapshot every {SNAPSHOT_EVERY}"

MILLISECONDS = "ms"
COMMITS_PER_SECOND = "commits/s"

_MOST_READS = 200


def cases(stores: list[Stores], crew: Crew, scale: Scale) -> list[Case]:
    """All cases, in the order in which they are measured and shown."""
    on_postgres = stores[:1]
    return [
        *(commit(store, scale) for store in stores),
        *(parts(store, scale) for store in stores),
        *(contended(store, crew, scale, writers) for store in stores for writers in scale.writers),
        *(spread(store, crew, scale) for store in stores),
        *(newest(store, scale) for store in stores),
        routing(scale),
        *(lone_run(store, scale) for store in stores),
        *(callers(store, scale) for store in on_postgres),
        *(lists(store, scale) for store in stores),
        *(processes(store, crew, scale) for store in on_postgres),
        *(parts_of_a_list(store, scale) for store in stores),
        *(chain(store, scale) for store in stores),
        *(flat_out(store, crew, scale) for store in stores),
        *(visible(store, scale) for store in stores),
        *(case for store in on_postgres for case in reading(store, scale)),
        *(
            case
            for store in stores[-scale.mode_stores :]
            for case in running_schedulers(store, scale)
        ),
        at_full_load(scale),
        of_a_workflow(scale),
    ]


def reading(stores: Stores, scale: Scale) -> list[Case]:
    """What reads the log of runs, or need not."""
    logs = {
        runs: RunLog(stores.base, f"bench_{runs}_runs", runs)
        for runs in (scale.read_runs, *scale.log_sizes)
    }
    few, many = (logs[runs] for runs in scale.log_sizes)
    return [
        ledger(logs[scale.read_runs], scale),
        counts(logs[scale.read_runs]),
        first_run(few, many, scale),
        # Before a read model is built, which an audit would fold as well.
        *auditing(few, many),
        *whole_log(many),
    ]


def commit(stores: Stores, scale: Scale) -> Case:
    """One commit that expects a generation, nobody else writing."""
    short, long, calls = scale.short, scale.long, scale.calls

    def contender(name: str, opener: Opener, length: int) -> Contender:
        return Contender(name, partial(_committing, opener, length, calls))

    return Case(
        f"One commit with an expected generation, {stores.kind}",
        MILLISECONDS,
        (
            contender(f"{LEDGER}, {long:,} events", stores.ledger, long),
            contender(f"{LEDGER}, {short:,} events", stores.ledger, short),
            contender(ROW, stores.row, short),
            contender(f"{LIBRARY}, {short:,} events", stores.library, short),
            contender(f"{LIBRARY}, {long:,} events", stores.library, long),
            contender(f"{SNAPSHOTS}, {long:,} events", stores.snapshotting, long),
        ),
        note="load, compare, write, durably",
    )


def parts(stores: Stores, scale: Scale) -> Case:
    """What one commit is made of."""
    whole = Contender(
        f"{LEDGER}, the whole commit",
        partial(_committing, stores.ledger, scale.short, scale.calls),
    )
    return parts_of_a_commit(stores, scale.calls, whole)


def contended(stores: Stores, crew: Crew, scale: Scale, writers: int) -> Case:
    """Processes that all commit on one key as fast as they can."""
    many = "1 writer" if writers == 1 else f"{writers} writers"
    return Case(
        f"One hot key, {many}, {stores.kind}",
        COMMITS_PER_SECOND,
        _writing(stores, crew, scale, [0] * writers),
        note="processes without an expected generation, which try again after a lost race",
    )


def spread(stores: Stores, crew: Crew, scale: Scale) -> Case:
    """Processes that each commit on a key of their own as fast as they can."""
    writers = scale.writers[-1]
    return Case(
        f"A key for each of {writers} writers, {stores.kind}",
        COMMITS_PER_SECOND,
        _writing(stores, crew, scale, range(writers)),
        note="no generation is contested; what is left is the store's own order of commits",
    )


def newest(stores: Stores, scale: Scale) -> Case:
    """Loading the newest state, by the length of the stream."""

    def contender(name: str, opener: Opener, length: int) -> Contender:
        return Contender(f"{name}, {length:,} events", partial(_reading, opener, length, scale))

    shortest, longest = scale.lengths[0], scale.lengths[-1]
    return Case(
        f"Reading the newest allocation, {stores.kind}",
        MILLISECONDS,
        (
            *(contender(LEDGER, stores.ledger, length) for length in scale.lengths),
            *(contender(LIBRARY, stores.library, length) for length in scale.lengths),
            contender(SNAPSHOTS, stores.snapshotting, longest),
            Contender(ROW, partial(_reading, stores.row, shortest, scale)),
        ),
        (AtMost(f"{LEDGER}, {longest:,} events", f"{LEDGER}, {shortest:,} events", 1.25),),
    )


def lone_run(stores: Stores, scale: Scale) -> Case:
    """One run, recorded in a transaction of its own."""
    own, plain = f"{LEDGER}, spawn_run", "plain INSERT"
    return Case(
        f"One lone run, {stores.kind}",
        MILLISECONDS,
        (
            Contender(own, partial(_inserting, stores.ledger, scale)),
            Contender(plain, partial(_inserting, stores.row, scale)),
            Contender("plain INSERT into an equal table", partial(_inserting_row, stores, scale)),
        ),
        (AtMost(own, plain, 2.5),) if stores.kind == "PostgreSQL" else (),
        note=(
            f"the p50 of {scale.lone_calls} runs, one after another; the INSERTs are told the "
            "version, and an equal table has the run log's columns and indexes"
        ),
    )


def _writing(
    stores: Stores, crew: Crew, scale: Scale, places: Sequence[int]
) -> tuple[Contender, ...]:
    """One writing process for each place; those of the same place write on the same key."""

    def contender(name: str, opener: Opener) -> Contender:
        return Contender(name, partial(_contending, crew, opener, places, scale))

    return (
        contender(LEDGER, stores.ledger),
        contender(ROW, stores.row),
        contender(SNAPSHOTS, stores.snapshotting),
    )


@contextmanager
def _committing(opener: Opener, length: int, calls: int) -> Iterator[Measure]:
    """Commits on streams of about a length: long ones take many commits, short ones one."""
    times = max(1, min(calls, length // 20))
    with opener() as rival:

        def measured() -> float:
            keys = [_new_key() for _ in range(-(-calls // times))]
            for key in keys:
                rival.fill(key, length)
                rival.read(key)
            started = perf_counter()
            for key in keys:
                _commit_often(rival, key, length, times)
            return (perf_counter() - started) * 1_000 / (times * len(keys))

        yield measured


def _commit_often(rival: Rival, key: str, generation: int, times: int) -> None:
    for _ in range(times):
        generation = rival.commit(key, 600 + generation % 2, generation)


@contextmanager
def _reading(opener: Opener, length: int, scale: Scale) -> Iterator[Measure]:
    with opener() as rival:
        key = _new_key()
        rival.fill(key, length)
        each([key] * 2, rival.read)
        # As many as fit into the same time: of a few quick calls, the first ones, which find
        # cold caches, would be the figure.
        fitting = scale.reading_ms / each([key], rival.read)
        yield partial(each, [key] * max(2, min(_MOST_READS, round(fitting))), rival.read)


@contextmanager
def _inserting(opener: Opener, scale: Scale) -> Iterator[Measure]:
    with opener() as rival:
        key = _new_key()
        rival.fill(key, scale.short)
        insert = partial(rival.insert_run, key)
        yield lambda: _typical([_new_key() for _ in range(scale.lone_calls)], insert)


@contextmanager
def _inserting_row(stores: Stores, scale: Scale) -> Iterator[Measure]:
    with stores.plain() as plain:
        yield lambda: _typical(ready_rows(scale.lone_calls), plain.insert)


def _typical(arguments: Sequence[T], call: Callable[[T], object]) -> float:
    """The median time of a call, in milliseconds."""
    return median(each([argument], call) for argument in arguments)


@contextmanager
def _contending(
    crew: Crew, opener: Opener, places: Sequence[int], scale: Scale
) -> Iterator[Measure]:
    with opener() as rival:

        def measured() -> float:
            keys = {place: _new_key() for place in places}
            for key in keys.values():
                rival.fill(key, scale.short)
            jobs = [
                Writer(opener, keys[place], number, scale.seconds)
                for number, place in enumerate(places)
            ]
            tallies = crew.together(jobs)
            commits = sum(tally.commits for tally in tallies)
            generations = sum(rival.read(key) for key in keys.values())
            assert generations == scale.short * len(keys) + commits
            began, ended = min(t.began for t in tallies), max(t.ended for t in tallies)
            return commits / (ended - began)

        yield measured


@dataclass(frozen=True, slots=True)
class Tally:
    """What a writer did, between two moments of the machine's monotonic clock."""

    commits: int
    began: float
    ended: float


@dataclass(frozen=True, slots=True)
class Writer:
    """Commits on one key for some seconds, with shares that no other writer sets."""

    opener: Opener
    key: str
    number: int
    seconds: float

    def __call__(self, wait: Callable[[], object]) -> Tally:
        """Connect, wait for the others, and write."""
        with self.opener() as rival:
            rival.read(self.key)
            wait()
            began = perf_counter()
            commits = 0
            while perf_counter() < began + self.seconds or not commits:
                rival.contend(self.key, 600 + 2 * self.number + commits % 2)
                commits += 1
            return Tally(commits, began, perf_counter())


def _new_key() -> str:
    return uuid4().hex
