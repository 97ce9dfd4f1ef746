"""A run that is read by one of its kind is the run that the slow way reads, or none."""

import json
from collections import Counter
from collections.abc import Callable
from itertools import product
from random import Random
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from alloc_es import codec
from alloc_es.codec import RUN_SPAWNED, RunReader
from alloc_es.errors import UnreadableEvent
from alloc_es.events import RunSpawned
from tests.core.test_run_form import IN_YEAR_1, ON_THE_SECOND, QUOTED, RUNS, TEXTS, TIMES

PLAIN = st.sampled_from(["customer-17", "", "a b/c", "caf\u00e9", "\u6f22", "\U0001f680"])
OWN_TEXTS = PLAIN | PLAIN | PLAIN | TEXTS
"""Texts of which most can be read quickly."""

OWN = st.fixed_dictionaries(
    {
        "actor": OWN_TEXTS,
        "bucket": st.integers(0, 9_999),
        "decision_position": st.none() | st.integers(0, 2**63 - 1),
        "recorded_at": TIMES,
        "run_id": OWN_TEXTS,
        "unit": OWN_TEXTS,
    }
)
ODD = (
    b'"',
    b"\\",
    b",",
    b":",
    b"{",
    b"}",
    b"[",
    b" ",
    b"\n",
    b"\x00",
    b"\x1f",
    b"\x7f",
    b"\x80",
    b"\xc3\xa9",
    b"\xed\xa0\x80",
    b"\xf4\x90\x80\x80",
    b"\xe2\x80\xa8",
    b"x",
    b"y",
    b"z",
    b"0",
    b"1",
    b"-",
    b"+",
    b"e5",
    b".5",
    b"null",
    b"true",
    b'","arm":"challenger',
    b'"bucket":7',
    b',"bucket":7',
    b',"decision_position":null',
    b',"episode":9',
    b',"generation":9',
    b'","run_id":"other',
    b'","salt":"pepper',
    b'","unit":"other',
    b'","version":"v9',
    b',"replayed":true',
    b',"schema_version":1',
    b',"decision_digest":null',
    b',"decision_digest":"0f"',
)

Outcome = RunSpawned | str


@pytest.fixture(autouse=True)
def _reader(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader of this test's own: what it has learnt decides what it answers."""
    monkeypatch.setattr(codec, "_RUNS", RunReader())


def quick(stored: bytes, stream: str) -> Outcome:
    """What `decode` answers, or what it says about the bytes."""
    try:
        run = codec.decode(RUN_SPAWNED, stored, stream=stream, version=1)
    except UnreadableEvent as error:
        return str(error)
    assert isinstance(run, RunSpawned)
    return run


def slow(stored: bytes, stream: str) -> Outcome:
    """The same with a reader that has learnt nothing."""
    kept, codec._RUNS = codec._RUNS, RunReader()
    try:
        return quick(stored, stream)
    finally:
        codec._RUNS = kept


def everything(outcome: Outcome) -> tuple[Any, ...]:
    """What equality of models does not compare, too."""
    if isinstance(outcome, str):
        return (outcome,)
    return (outcome, outcome.model_dump_json(), outcome.replayed, outcome.model_fields_set)


def check(stored: bytes, stream: str) -> Outcome:
    """Demand that the quick way answers what the slow way does; that answer."""
    expected = slow(stored, stream)
    assert everything(quick(stored, stream)) == everything(expected)
    return expected


def test_a_run_is_read_by_another_of_its_kind_as_the_slow_way_reads_it() -> None:
    """Red when a field is cut off elsewhere, or taken from the run that was learnt."""
    seen: Counter[bool] = Counter()

    @settings(max_examples=100)
    @given(RUNS, OWN)
    @example(ON_THE_SECOND, QUOTED.model_dump(include={"run_id", "unit", "actor"}))
    @example(ON_THE_SECOND, IN_YEAR_1.model_dump(include={"recorded_at"}))
    @example(QUOTED, {"decision_position": None, "run_id": "\U0001f469\u200d\U0001f680"})
    def holds(sample: RunSpawned, own: dict[str, object]) -> None:
        run = sample.model_copy(update=own)
        quick(codec.encode(sample)[1], sample.originator_id)
        stored = codec.encode(run)[1]
        seen[codec._RUNS.read(stored) is not None] += 1
        assert check(stored, run.originator_id) == run

    holds()
    assert min(seen[True], seen[False]) > 5


def mutated(random: Random, stored: bytes) -> bytes:
    """The bytes with a byte or a piece of JSON changed, added, taken out or moved."""
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        at, other = sorted(random.randrange(len(stored)) for _ in range(2))
        match random.randrange(6):
            case 0:
                flipped = stored[at] ^ (1 << random.randrange(8))
                stored = stored[:at] + bytes([flipped]) + stored[at + 1 :]
            case 1:
                stored = stored[:at] + random.choice(ODD) + stored[at:]
            case 2:
                stored = stored[:at] + stored[at + random.randint(1, 3) :]
            case 3:
                first, second = stored[at : at + 1], stored[other : other + 1]
                stored = stored[:at] + second + stored[at + 1 : other] + first + stored[other + 1 :]
            case 4:
                stored = stored[:at] + random.choice(ODD) + stored[at + 1 :]
            case _:
                # Between two fields or values, where most pieces make sense.
                at = random.choice([i for i, byte in enumerate(stored) if byte in b',"'] or [0])
                stored = stored[:at] + random.choice(ODD) + stored[at:]
        if not stored:
            return b"{"
    return stored


def test_changed_bytes_of_a_known_run_are_what_the_slow_way_makes_of_them() -> None:
    """Red when the quick way takes what is no JSON, no time, no number, or another field's.

    What the slow way does take is learnt here as elsewhere, so runs that follow are read by
    it too.
    """
    seen: Counter[tuple[bool, bool]] = Counter()

    @settings(max_examples=40)
    @given(RUNS, OWN, st.randoms(use_true_random=True))
    def holds(sample: RunSpawned, own: dict[str, object], random: Random) -> None:
        run = sample.model_copy(update=own)
        written = codec.encode(run)[1]
        quick(codec.encode(sample)[1], sample.originator_id)
        for _ in range(50):
            stored = mutated(random, written)
            known = codec._RUNS.read(stored) is not None
            read = isinstance(check(stored, run.originator_id), RunSpawned)
            check(stored, "run/acme/another")
            seen[read, known] += 1
            assert check(written, run.originator_id) == run

    holds()
    assert seen[False, False] > 500
    assert seen[True, True] > 10


@pytest.mark.parametrize("seconds", ["", ".5", ".000000", ".1234567"])
def test_a_time_of_any_shape_is_read_as_the_slow_way_reads_it(seconds: str) -> None:
    """Red when `_TIME` lets a shape through that Python reads and pydantic does not."""
    written = codec.encode(ON_THE_SECOND)[1]
    quick(written, ON_THE_SECOND.originator_id)
    before, _, rest = written.partition(b'"recorded_at":"')
    behind = rest[rest.index(b'"') :]
    dates = ["2026-03-01", "2026-02-29", "20260301-1", "0000-01-01"]
    times = [f"1{''.join(shape)}1" for shape in product("1:", repeat=6)]
    times += ["23:59:59", "23:59:60", "24:00:00", "00:00:00", "12:60:00"]
    for date, time, end in product(dates, times, ("Z", "z", "")):
        stored = b"".join(
            [before, b'"recorded_at":"', f"{date}T{time}{seconds}{end}".encode(), behind]
        )
        check(stored, ON_THE_SECOND.originator_id)


@pytest.mark.parametrize("field", ["bucket", "decision_position"])
def test_a_number_of_any_shape_is_read_as_the_slow_way_reads_it(field: str) -> None:
    """Red when a number with a sign, a zero in front or another script's digits is taken."""
    written = codec.encode(ON_THE_SECOND)[1].decode()
    quick(written.encode(), ON_THE_SECOND.originator_id)
    old = f'"{field}":{getattr(ON_THE_SECOND, field)},'
    assert old in written
    signs = ("-0", "-1", "+1", "1.0", "1e3", " 1", "1 ", "1_0", "\u0661", "\u00b2")
    others = ("", "0", "00", "007", "null", "true", '"1"', "[1]", "NaN", "9" * 30, "9" * 5_000)
    for shape in (*signs, *others):
        stored = written.replace(old, f'"{field}":{shape},').encode()
        check(stored, ON_THE_SECOND.originator_id)


@pytest.mark.parametrize("field", ["actor", "run_id", "unit"])
@pytest.mark.parametrize(
    "text",
    [
        *("", "\\", "\\u0041", "\\u00e9", "\\ud83d", "\\x", "\\n", "\n", "\t", "\x7f", "\x00"),
        *("\u2028", "\u00a0", "\ufeff", "\ufdd0", "\U0001f680", "e\u0301", "a b", "'", "/"),
    ],
)
def test_a_text_of_any_shape_is_read_as_the_slow_way_reads_it(field: str, text: str) -> None:
    """Red when a text with a backslash is taken as it is stored, or a raw control character."""
    written = codec.encode(ON_THE_SECOND)[1].decode()
    quick(written.encode(), ON_THE_SECOND.originator_id)
    old = f'"{field}":"{getattr(ON_THE_SECOND, field)}"'
    assert old in written
    check(written.replace(old, f'"{field}":"{text}"').encode(), ON_THE_SECOND.originator_id)


def test_a_run_of_schema_version_1_is_read_by_another_of_its_kind() -> None:
    """Red when old runs are all left to the slow way, or get the digest of newer ones."""
    old = ON_THE_SECOND.model_copy(update={"decision_digest": None})
    for run in (old, ON_THE_SECOND):
        check(codec.encode(run)[1], run.originator_id)
    check(codec.encode_as(old, 1), old.originator_id)
    other = old.model_copy(update={"actor": "bob", "bucket": 9})
    stored = codec.encode_as(other, 1)
    assert codec._RUNS.read(stored) == other == check(stored, other.originator_id)


@pytest.mark.parametrize("digest", ["null", '""', '"0f"', '"0F"', '"xyz"', "1"])
@pytest.mark.parametrize("schema_version", [1, 2])
def test_a_digest_of_any_shape_is_read_as_the_slow_way_reads_it(
    digest: str, schema_version: int
) -> None:
    """Red when a run of schema version 1 is taken with a digest, which no release has written."""
    stored = codec.encode_as(ON_THE_SECOND, schema_version).decode()
    quick(stored.encode(), ON_THE_SECOND.originator_id)
    before, _, behind = stored.partition('"decision_position":')
    before = before.partition('"decision_digest":')[0]
    odd = f'{before}"decision_digest":{digest},"decision_position":{behind}'.encode()
    for _ in range(2):
        read = isinstance(check(odd, ON_THE_SECOND.originator_id), RunSpawned)
        assert read is (schema_version == 2 and digest != "1")


TWICE: dict[str, Callable[[str], str]] = {
    "behind the last field": lambda text: text[:-1] + ',"actor":"mallory"}',
    "beside a field of its own": lambda text: text.replace(
        ',"version":', ',"episode":99,"version":'
    ),
    "in front of a field of its own": lambda text: text.replace(
        '"recorded_at":', '"generation":99,"recorded_at":'
    ),
    "a field that is not stored": lambda text: text[:-1] + ',"replayed":true}',
}


@pytest.mark.parametrize("how", TWICE)
def test_nothing_is_learnt_from_bytes_in_another_form(how: str) -> None:
    """Red when a run is kept to read others by, though its bytes are not what it is written as,
    and when a field may be said twice: one reader takes the first, another one the last.
    """
    odd = TWICE[how](codec.encode(ON_THE_SECOND)[1].decode())
    read = isinstance(check(odd.encode(), ON_THE_SECOND.originator_id), RunSpawned)
    assert read is (how == "a field that is not stored")
    other = ON_THE_SECOND.model_copy(update={"actor": "bob", "bucket": 9})
    written = codec.encode(other)[1].decode()
    for stored in (written, TWICE[how](written)):
        check(stored.encode(), other.originator_id)


def test_a_reader_keeps_so_many_kinds_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    """Red when what is learnt is never forgotten: a store has kinds without end."""
    monkeypatch.setattr(RunReader, "_MOST_KEPT", 3)
    for generation in range(1, 20):
        run = ON_THE_SECOND.model_copy(update={"generation": generation})
        stored = codec.encode(run)[1]
        assert check(stored, run.originator_id) == run
        assert codec._RUNS.read(stored) == run
        assert len(codec._RUNS._kept) <= 3


def test_the_bytes_of_a_run_are_parted_without_a_rest() -> None:
    """Red when bytes are in neither part: two runs that differ there would be the same."""
    stored = codec.encode(ON_THE_SECOND)[1]
    common, own = codec._parted(stored)
    between = len(b'","run_id":"')
    assert sum(map(len, common)) + sum(map(len, own)) + between == len(stored)
    assert json.loads(b'"' + own[4] + b'"') == ON_THE_SECOND.run_id
