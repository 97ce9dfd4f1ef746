"""The JSON of a run that is written from a form is what the codec writes, byte for byte."""

import pickle
from collections import Counter
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from alloc_es import codec
from alloc_es.codec import POSITION, RunForm
from alloc_es.errors import InvalidIdentifier
from alloc_es.events import RunSpawned
from alloc_es.identity import parse_identifier
from tests.core.test_codec import LINES, decoded

ODD = (
    '"',
    "\\",
    '\\"',
    "/",
    "%2F",
    "\u2028",
    "a\u2029b",
    "\x01",
    "\x7f",
    "\u00e9",
    "\U0001f680",
    "null",
)

TEXTS = st.sampled_from(ODD) | st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
"""Any text that UTF-8 can write, which is more than what may name something."""

TIMES = st.datetimes(timezones=st.just(UTC))

RUNS = st.builds(
    RunSpawned,
    tenant_id=TEXTS,
    workflow_id=TEXTS,
    run_id=TEXTS,
    unit=TEXTS,
    version=TEXTS,
    arm=st.sampled_from(["control", "challenger"]),
    generation=st.integers(1, 2**62),
    bucket=st.integers(0, 9_999),
    slot=st.tuples(st.integers(0, 9_999), st.integers(1, 10_000)),
    episode=st.integers(0, 2**62),
    salt=TEXTS,
    hash_version=st.integers(1, 9),
    actor=TEXTS,
    recorded_at=TIMES,
    decision_position=st.integers(1, 2**63 - 1),
    decision_digest=st.none() | st.text("0123456789abcdef", min_size=64, max_size=64),
)

GOLDEN_RUN: RunSpawned = next(decoded(line) for line in LINES if line["topic"] == "RunSpawned")
ON_THE_SECOND = GOLDEN_RUN.model_copy(update={"decision_position": 17})
IN_YEAR_1 = ON_THE_SECOND.model_copy(update={"recorded_at": datetime(1, 1, 1, 0, 0, 0, 10, UTC)})
QUOTED = ON_THE_SECOND.model_copy(update={"run_id": '"\\', "unit": "\u2028", "actor": '\\"'})


def filled(run: RunSpawned) -> str:
    """A run's JSON by the form of another run that has everything else in common."""
    own = {"run_id": "", "unit": "", "bucket": 0, "actor": "", "decision_position": None}
    other = run.model_copy(update={**own, "recorded_at": datetime.fromtimestamp(0, UTC)})
    return RunForm(other).fill(
        actor=run.actor,
        bucket=run.bucket,
        recorded_at=codec.time_text(run.recorded_at),
        run_id=run.run_id,
        unit=run.unit,
    )


@settings(max_examples=500)
@given(RUNS)
@example(ON_THE_SECOND)
@example(IN_YEAR_1)
@example(QUOTED)
def test_a_filled_form_is_what_the_codec_writes(run: RunSpawned) -> None:
    """Red when a form escapes, orders, or writes a time in another way than `encode` does."""
    written = filled(run).replace(POSITION, str(run.decision_position)).encode()
    assert ("RunSpawned", written) == codec.encode(run)


@pytest.mark.parametrize(
    "line", [pytest.param(each, id=each["stream"]) for each in LINES if "run/" in each["stream"]]
)
def test_a_filled_form_is_the_golden_event(line: dict[str, Any]) -> None:
    """Red when a form and `encode` change together: what is stored is held for ever."""
    run = decoded(line)
    assert filled(run).replace(POSITION, str(run.decision_position)) == line["state"]


@given(RUNS, RUNS)
def test_a_stamped_run_is_the_copy_that_pydantic_would_make(
    run: RunSpawned, own: RunSpawned
) -> None:
    """Red when a stamped run lacks something that a model has, or shares what it should not."""
    own_fields = {
        name: getattr(own, name)
        for name in ("run_id", "unit", "bucket", "actor", "recorded_at", "decision_position")
    }
    before = run.model_dump()
    stamped, copied = run.stamped(own_fields), run.model_copy(update=own_fields)
    assert (stamped, repr(stamped), stamped.model_dump_json()) == (
        copied,
        repr(copied),
        copied.model_dump_json(),
    )
    assert pickle.loads(pickle.dumps(stamped)) == stamped.model_copy(deep=True) == copied
    assert stamped.model_copy(update={"replayed": True}).replayed
    assert run.model_dump() == before
    with pytest.raises(ValidationError):
        stamped.unit = "another"  # type: ignore[assignment]


def test_a_form_writes_every_id_that_may_name_something() -> None:
    """Red when what is let through at the edge can't be read back from a filled form."""
    seen: Counter[str] = Counter()

    @settings(max_examples=500)
    @given(TEXTS)
    def holds(text: str) -> None:
        try:
            parse_identifier("run id", text)
        except InvalidIdentifier:
            seen["refused"] += 1
            return
        run = ON_THE_SECOND.model_copy(update={"run_id": text, "unit": text, "actor": text})
        state = filled(run).replace(POSITION, "17").encode()
        read = codec.decode("RunSpawned", state, stream=run.originator_id, version=1)
        assert read == run
        seen["taken"] += 1

    holds()
    assert min(seen["refused"], seen["taken"]) > 50


@given(RUNS)
@example(QUOTED)
def test_the_sign_for_the_position_stands_once_in_a_form_and_never_in_canonical_json(
    run: RunSpawned,
) -> None:
    """Red when the sign is a character that JSON holds unescaped: a unit could hold it, and
    the store would write a position into the unit's name.
    """
    assert filled(run).count(POSITION) == 1
    assert POSITION.encode() not in codec.encode(run)[1]


@pytest.mark.parametrize("time", [datetime(2026, 3, 1, tzinfo=UTC), datetime(1, 1, 1, tzinfo=UTC)])
def test_a_time_on_the_second_is_written_without_a_fraction(time: datetime) -> None:
    """Red when a fraction of 0 is written, which `encode` leaves out."""
    assert codec.time_text(time) == f"{time.year:04}-{time.month:02}-01T00:00:00Z"
