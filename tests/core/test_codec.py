"""The stored format: golden logs, canonical bytes, and what is refused to be read."""

import json
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from freezegun import freeze_time
from hypothesis import example, given
from hypothesis import strategies as st

from alloc_es import codec
from alloc_es.clock import utc_now
from alloc_es.decider import evolve
from alloc_es.errors import UnreadableEvent
from alloc_es.events import AllocationCommitted, DecisionEvent, Recorded, RunSpawned
from alloc_es.rules import Timeline, decision_findings, run_chain
from tests.core.given import register, reject, run, start

GOLDEN = Path(__file__).parent / "golden"
LOGS: dict[int, list[dict[str, Any]]] = {
    version: [
        json.loads(line) for line in (GOLDEN / f"events-v{version}.jsonl").read_text().splitlines()
    ]
    for version in (1, 2)
}
LINES = LOGS[2]


def decoded(line: dict[str, Any]) -> Any:
    state = line["state"].encode()
    return codec.decode(line["topic"], state, stream=line["stream"], version=line["version"])


def stored(change: Callable[[dict[str, Any]], object] = lambda _: None) -> dict[str, Any]:
    """A golden line with its fields changed."""
    line = dict(LINES[1])
    fields = json.loads(line["state"])
    change(fields)
    return {**line, "state": json.dumps(fields)}


@pytest.mark.parametrize(
    ("version", "line"),
    [(version, line) for version, lines in LOGS.items() for line in lines],
    ids=lambda each: each if isinstance(each, int) else f"{each['topic']}-{each['position']}",
)
def test_a_golden_event_is_read_and_written_as_ever(version: int, line: dict[str, Any]) -> None:
    """Red when a field is renamed, added, dropped or formatted in another way."""
    assert codec.encode_as(decoded(line), version) == line["state"].encode()


@pytest.mark.parametrize("line", LINES, ids=lambda line: f"{line['topic']}-{line['position']}")
def test_an_event_is_written_in_the_newest_schema_version(line: dict[str, Any]) -> None:
    """Red when `encode` writes another schema version than the newest golden log's."""
    assert codec.encode(decoded(line)) == (line["topic"], line["state"].encode())


def test_a_schema_version_that_no_release_has_written_is_not_written() -> None:
    """Red when `encode_as` answers for any version."""
    with pytest.raises(ValueError, match="no release writes schema version 3"):
        codec.encode_as(event(), 3)


def test_an_event_of_schema_version_1_carries_no_digest() -> None:
    """Red when the upcaster takes a digest that no release has written there."""
    line = LOGS[1][1]
    assert decoded(line).previous_digest is None
    fields = json.loads(line["state"]) | {"previous_digest": "0" * 64}
    with pytest.raises(UnreadableEvent, match="schema version 1 has no previous_digest"):
        decoded({**line, "state": json.dumps(fields)})


@pytest.mark.parametrize("version", LOGS)
def test_a_golden_log_keeps_every_rule(version: int) -> None:
    """Red when the chain of digests is computed in another way, or owed by version 1."""
    timeline = Timeline()
    recorded = [
        Recorded(line["position"], decoded(line), codec.digest(line["state"].encode()))
        for line in LOGS[version]
    ]
    decisions = [each for each in recorded if not isinstance(each.event, RunSpawned)]
    assert list(decision_findings(decisions, timeline)) == []
    runs = [each.event for each in recorded if isinstance(each.event, RunSpawned)]
    assert [run_chain(timeline, run) for run in runs] == [None] * len(runs)


@pytest.mark.parametrize("version", LOGS)
def test_the_golden_log_has_every_kind_and_every_decision(version: int) -> None:
    events = [decoded(line) for line in LOGS[version]]
    assert {line["topic"] for line in LOGS[version]} == set(codec.EVENT_TYPES)
    made = {event.decision for event in events if isinstance(event, AllocationCommitted)}
    assert made == {"start", "split", "promotion", "replacement", "rollback"}


def test_the_golden_log_folds_to_what_it_folded_to() -> None:
    """Red when evolve computes the split again instead of taking the one that was stored."""
    state = None
    for line in LINES:
        event = decoded(line)
        if not isinstance(event, RunSpawned):
            state = evolve(state, event)
    assert state is not None
    assert (state.generation, state.split, state.episode) == (10, {"v2": 10_000}, 2)
    assert (state.previous_current, state.salt) == ("v1", "id-11")


def event() -> DecisionEvent:
    events, _ = run(start("v1"), register("v2"), reject("v2"))
    return events[-1]


def test_bytes_are_canonical() -> None:
    """Red when keys are not sorted, blanks creep in, or non-ASCII is escaped."""
    name, state = codec.encode(event().model_copy(update={"reason": "schlechter: é 🚀"}))
    assert name == "ChallengerRejectedWithoutReplacement"
    text = state.decode()
    again = json.dumps(json.loads(text), ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    assert text == again
    assert "é 🚀" in text
    assert json.loads(text)["schema_version"] == 2


def test_the_mark_of_an_answer_given_before_is_not_stored() -> None:
    (line,) = [line for line in LINES if line["topic"] == "RunSpawned"][:1]
    marked = decoded(line).model_copy(update={"replayed": True})
    assert codec.encode(marked)[1].decode() == line["state"]


def test_a_frozen_clock_can_be_stored() -> None:
    with freeze_time("2026-02-28T23:59:59Z"):
        frozen = event().model_copy(update={"recorded_at": utc_now()})
        name, state = codec.encode(frozen)
    assert json.loads(state)["recorded_at"] == "2026-02-28T23:59:59Z"
    back = codec.decode(name, state, stream=frozen.originator_id, version=frozen.generation)
    assert back.recorded_at == datetime(2026, 2, 28, 23, 59, 59, tzinfo=UTC)


def test_a_stored_time_and_position_are_written_in_full() -> None:
    """Red when a time is cut to seconds or milliseconds, or a position is left out."""
    (line, *_) = [line for line in LINES if line["topic"] == "RunSpawned"]
    moment = datetime(2026, 3, 1, 12, 3, 4, 56_789, tzinfo=UTC)
    run_spawned = decoded(line).model_copy(
        update={"recorded_at": moment, "decision_position": 12_345_678_901}
    )
    name, state = codec.encode(run_spawned)
    assert b'"decision_position":12345678901,' in state
    assert b'"recorded_at":"2026-03-01T12:03:04.056789Z"' in state
    back = codec.decode(name, state, stream=line["stream"], version=1)
    assert back == run_spawned


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ({**LINES[0], "topic": "AllocationGuessed"}, "not known"),
        (stored(lambda fields: fields.update(max_challengers="3")), "max_challengers"),
        (stored(lambda fields: fields.update(recorded_at=1_700_000_000)), "recorded_at"),
        (stored(lambda fields: fields.update(recorded_at="2026-03-01T12:00:00")), "recorded_at"),
        (stored(lambda fields: fields["allocation"].update(arms=[])), "arms"),
        (stored(lambda fields: fields.update(schema_version=3)), "schema version is 3"),
        (stored(lambda fields: fields.pop("schema_version")), "schema version is None"),
        (stored(lambda fields: fields.update(schema_version="1")), "schema version"),
        (stored(lambda fields: fields.update(mood="good")), "mood"),
        (stored(lambda fields: fields.pop("actor")), "actor"),
        ({**LINES[0], "stream": "allocation/acme/other"}, "says that it is"),
        ({**LINES[0], "version": 7}, "says that it is"),
        ({**LINES[0], "state": "{"}, ""),
        ({**LINES[0], "state": "null"}, "object"),
        ({**LINES[0], "state": "[1]"}, "object"),
        ({**LINES[0], "state": "3"}, "object"),
    ],
)
def test_what_can_not_be_read_is_an_error_that_says_where(
    line: dict[str, Any], problem: str
) -> None:
    """Red when an unknown or misplaced event is skipped, or guessed at."""
    with pytest.raises(UnreadableEvent) as refused:
        decoded(line)
    error = refused.value
    assert (error.stream, error.version, error.topic) == (
        line["stream"],
        line["version"],
        line["topic"],
    )
    assert problem in error.unreadable


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


@given(st.binary() | JSON.map(lambda value: json.dumps(value).encode()))
@example(b"\xff\xfe")
@example(b"[" * 3_000)
@example(b"1" * 5_000)
def test_no_bytes_raise_anything_else(state: bytes) -> None:
    """Red when an exception of a parser gets past the codec."""
    with pytest.raises(UnreadableEvent):
        codec.decode("RunSpawned", state, stream="run/acme/r", version=1)


@given(st.sampled_from(sorted(json.loads(LINES[1]["state"]))), JSON)
def test_no_field_raises_anything_else(name: str, value: object) -> None:
    line = stored(lambda fields: fields.update({name: value}))
    with suppress(UnreadableEvent):
        assert decoded(line).generation == line["version"]


def test_an_old_event_that_nothing_upcasts_is_unreadable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Red when a missing upcaster is a `KeyError`."""
    topic = LINES[1]["topic"]
    monkeypatch.setattr(codec, "SCHEMA_VERSIONS", {**codec.SCHEMA_VERSIONS, topic: 3})
    with pytest.raises(UnreadableEvent, match="nothing upcasts its schema version 2"):
        decoded(LINES[1])
    for wrong in (ValueError(), KeyError("actor"), TypeError("no")):
        monkeypatch.setattr(codec, "UPCASTERS", {(topic, 2): Mock(side_effect=wrong)})
        with pytest.raises(UnreadableEvent):
            decoded(LINES[1])


def test_an_old_event_is_upcast_step_by_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """Red when an upcaster is skipped, or the version is not raised after it."""
    calls: list[int] = []

    def upcaster(version: int) -> codec.Upcaster:
        def upcast(fields: dict[str, Any]) -> dict[str, Any]:
            calls.append(version)
            return {**fields, "reason": f"{fields['reason']}+{version}"}

        return upcast

    line = LOGS[1][1]
    topic = line["topic"]
    monkeypatch.setattr(codec, "SCHEMA_VERSIONS", {**codec.SCHEMA_VERSIONS, topic: 3})
    monkeypatch.setattr(codec, "UPCASTERS", {(topic, 1): upcaster(1), (topic, 2): upcaster(2)})
    assert decoded(line).reason == "try\nit+1+2"
    assert calls == [1, 2]
