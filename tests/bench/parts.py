"""Where the time of one commit goes: its parts, each measured alone."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from time import perf_counter
from typing import TypeVar
from uuid import uuid4

from alloc_es import codec
from alloc_es.commands import CommitAllocation
from alloc_es.decider import decide
from alloc_es.events import DecisionEvent
from alloc_es.identity import Version
from tests.bench.bare import KEYED_TABLE, LEDGER_TABLE, BareOpener, Row
from tests.bench.ledger import envelope, history
from tests.bench.measuring import Case, Contender, Measure
from tests.bench.rivals import CHALLENGER
from tests.bench.stores import Stores

T = TypeVar("T")

_FILLED = 10


def parts_of_a_commit(stores: Stores, calls: int, whole: Contender) -> Case:
    """`whole`, the commit itself, beside what it is made of."""
    bare = stores.bare
    return Case(
        f"The parts of a commit, {stores.kind}",
        "ms",
        (
            whole,
            Contender("driver: SELECT the newest row", partial(_selecting, bare, calls)),
            Contender("decode it", partial(_pure, calls, _decoder)),
            Contender("decide", partial(_pure, calls, _decider)),
            Contender("encode the event", partial(_pure, calls, _encoder)),
            Contender(
                "driver: INSERT it, durably", partial(_inserting, bare, calls, LEDGER_TABLE, False)
            ),
            Contender(
                "driver: INSERT it, not waiting for the disk",
                partial(_inserting, bare, calls, LEDGER_TABLE, True),
            ),
            Contender(
                "driver: INSERT it without triggers, one key, durably",
                partial(_inserting, bare, calls, KEYED_TABLE, False),
            ),
            Contender(
                "driver: INSERT it without triggers, one key, not waiting",
                partial(_inserting, bare, calls, KEYED_TABLE, True),
            ),
        ),
        note="the driver's lines use one held connection and the same bytes",
    )


@contextmanager
def _selecting(opener: BareOpener, calls: int) -> Iterator[Measure]:
    rows = _rows()
    with opener() as bare:
        for row in rows:
            bare.insert(LEDGER_TABLE, row)
        yield partial(each, [rows[0][0]] * calls, bare.newest)


@contextmanager
def _inserting(opener: BareOpener, calls: int, table: str, hurried: bool) -> Iterator[Measure]:
    with opener() as bare:
        if hurried:
            bare.hurry()
        yield lambda: each(_rows(calls), partial(bare.insert, table))


@contextmanager
def _pure(
    calls: int, made: Callable[[DecisionEvent], Callable[[int], object]]
) -> Iterator[Measure]:
    yield partial(each, range(calls), made(history(uuid4().hex, _FILLED)[-1]))


def _decoder(event: DecisionEvent) -> Callable[[int], object]:
    stream, place, name, stored = _row(event)
    return lambda _: codec.decode(name, stored, stream=stream, version=place)


def _decider(event: DecisionEvent) -> Callable[[int], object]:
    command = CommitAllocation(shares=((Version(CHALLENGER), 600),))
    return lambda _: decide(event.key, event.allocation, command, envelope("next"))


def _encoder(event: DecisionEvent) -> Callable[[int], object]:
    return lambda _: codec.encode(event)


def _rows(count: int = _FILLED) -> list[Row]:
    """The rows of a new stream."""
    return [_row(event) for event in history(uuid4().hex, count)]


def _row(event: DecisionEvent) -> Row:
    name, stored = codec.encode(event)
    return event.originator_id, event.originator_version, name, stored


def each(arguments: Sequence[T], call: Callable[[T], object]) -> float:
    """The mean time of a call, in milliseconds."""
    started = perf_counter()
    for argument in arguments:
        call(argument)
    return (perf_counter() - started) * 1_000 / len(arguments)
