"""From a unit to its bucket and arm: golden vectors, and what a routing says."""

import json
import unicodedata
from collections import Counter
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alloc_es import routing
from alloc_es.allocation import Allocation
from alloc_es.errors import InvalidIdentifier
from alloc_es.identity import Unit, parse_identifier
from alloc_es.routing import Router, Routing, bucket_of
from alloc_es.split import BUCKETS, holds
from tests.core.given import commit, register, reject, run, start
from tests.core.histories import History, histories

GOLDEN = Path(__file__).parent / "golden" / "buckets.json"
VECTORS: list[dict[str, Any]] = json.loads(GOLDEN.read_text())


def allocation() -> Allocation:
    _, state = run(start("v1"), register("v2", 500), commit({"v2": 2_000}))
    return state


@pytest.mark.parametrize("vector", [pytest.param(v, id=v["note"]) for v in VECTORS])
def test_a_bucket_is_what_other_programs_compute(vector: dict[str, Any]) -> None:
    """Red when the fields, their order, their lengths, the hash or the modulus change."""
    found = bucket_of(vector["unit"], salt=vector["salt"], hash_version=vector["hash_version"])
    assert found == vector["bucket"]
    assert int(vector["sha256"][:16], 16) % BUCKETS == vector["bucket"]


def test_the_vectors_cover_what_names_are_made_of() -> None:
    units = [vector["unit"] for vector in VECTORS]
    assert max(map(len, units)) == 200
    assert any(max(map(ord, unit)) > 0xFFFF for unit in units)
    assert any(unicodedata.bidirectional(unit[0]) == "R" for unit in units)
    assert any(unicodedata.normalize("NFC", unit) != unit for unit in units)


def test_two_forms_of_one_text_are_two_buckets_so_one_is_refused_at_the_edge() -> None:
    """Red when the edge lets text through that is not in normal form C."""
    composed = "caf\u00e9"
    decomposed = unicodedata.normalize("NFD", composed)
    assert bucket_of(composed, salt="s-1") != bucket_of(decomposed, salt="s-1")
    with pytest.raises(InvalidIdentifier) as refused:
        parse_identifier("unit", decomposed)
    assert composed in refused.value.problem


@pytest.mark.parametrize("vector", [pytest.param(v, id=v["note"]) for v in VECTORS])
def test_a_router_places_a_unit_in_its_golden_bucket(vector: dict[str, Any]) -> None:
    """Red when a router hashes with another salt or hash version than its allocation's."""
    pinned = {"salt": vector["salt"], "hash_version": vector["hash_version"]}
    router = Router(allocation().model_copy(update=pinned))
    bucket, slot = router.place(vector["unit"])
    assert bucket == vector["bucket"] == router.route(vector["unit"]).bucket
    assert router.slots[slot].slot == ((0, 2_000) if bucket < 2_000 else (2_000, BUCKETS))


def test_another_salt_or_hash_version_draws_other_units() -> None:
    """Red when the salt or the hash version is left out of the hash."""
    units = [f"customer-{n}" for n in range(1_000)]
    first = [bucket_of(unit, salt="a") for unit in units]
    assert (
        sum(x == y for x, y in zip(first, [bucket_of(u, salt="b") for u in units], strict=True))
        < 10
    )
    other = [bucket_of(unit, salt="a", hash_version=2) for unit in units]
    assert sum(x == y for x, y in zip(first, other, strict=True)) < 10


def test_buckets_are_even() -> None:
    """Chi-squared over 100 groups of buckets: 99 degrees of freedom, p = 0.001 is 148.2."""
    counts = Counter(bucket_of(f"unit-{n}", salt="even") // 100 for n in range(20_000))
    assert sum((counts[group] - 200) ** 2 / 200 for group in range(100)) < 148.2


def test_a_routing_says_all_that_explains_it() -> None:
    """Red when a fact of a routing is taken from elsewhere than the allocation."""
    state = allocation()
    unit = Unit("customer-17")
    bucket = bucket_of(unit, salt=state.salt, hash_version=state.hash_version)
    (arm,) = [arm for arm in state.arms if holds(arm.slots, bucket)]
    slot = holds(arm.slots, bucket)
    assert slot is not None
    assert Router(state).route(unit) == Routing(
        version=arm.version,
        arm=arm.name,
        generation=3,
        bucket=bucket,
        unit=unit,
        slot=slot,
        episode=1,
        salt=state.salt,
        hash_version=1,
    )


def test_the_edges_of_a_slot_go_to_the_arm_that_owns_them() -> None:
    """Red when the end of a slot is taken to belong to it, or its first bucket not."""
    _, state = run(start("v1"), register("v2"), register("v3"), reject("v2"), max_challengers=2)
    assert [arm.slots for arm in state.arms] == [((0, 500), (1_000, 10_000)), ((500, 1_000),)]
    versions = {0: "v1", 499: "v1", 500: "v3", 999: "v3", 1_000: "v1", 9_999: "v1"}
    for bucket, version in versions.items():
        found = Router(state).route(unit_in(bucket, state))
        assert (found.bucket, found.version) == (bucket, version)


def unit_in(bucket: int, state: Allocation) -> Unit:
    units = (Unit(f"unit-{number}") for number in count())
    return next(unit for unit in units if bucket_of(unit, salt=state.salt) == bucket)


def test_every_bucket_goes_to_the_arm_that_owns_it() -> None:
    """Red when a routing takes the arm of another bucket, or always the control."""
    state = allocation()
    seen = {Unit(f"unit-{n}") for n in range(3_000)}
    for unit in seen:
        found = Router(state).route(unit)
        assert found.version == ("v2" if found.bucket < 2_000 else "v1")
        assert found.arm == ("challenger" if found.bucket < 2_000 else "control")


def test_without_a_challenger_all_go_to_the_control() -> None:
    _, state = run(start("v1"), register("v2", 5_000), reject("v2"))
    assert {Router(state).route(Unit(f"u{n}")).version for n in range(500)} == {"v1"}


def test_a_router_answers_as_a_look_at_every_slot_does() -> None:
    """Red when the slots are searched in another order than their buckets'."""
    arms: Counter[int] = Counter()

    @settings(max_examples=200)
    @given(histories(), st.lists(st.text(st.characters(exclude_categories=["Cs"])), min_size=1))
    def agrees(history: History, units: list[str]) -> None:
        for state in {step.after.generation: step.after for step in history if step.after}.values():
            router = Router(state)
            for unit in map(Unit, units):
                assert router.route(unit) == looked_up(state, unit)
                bucket, slot = router.place(unit)
                assert router.route(unit) == router.slots[slot]._replace(bucket=bucket, unit=unit)
            arms[len(router.slots)] += 1

    agrees()
    assert min(arms[1], arms[2], arms[3], arms[5]) > 10


def test_a_router_takes_the_edges_of_every_slot_for_the_slot_s(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Red when a bucket at the edge of a slot is searched for on its wrong side."""
    monkeypatch.setattr(routing, "_bucket", lambda _, unit: int(unit))
    edges: Counter[int] = Counter()

    @settings(max_examples=100)
    @given(histories())
    def agrees(history: History) -> None:
        for state in (step.after for step in history if step.after):
            for arm in state.arms:
                for slot in arm.slots:
                    for bucket in (slot[0], slot[1] - 1):
                        found = Router(state).route(Unit(str(bucket)))
                        assert (found.version, found.slot) == (arm.version, slot)
                        placed = Router(state).place(str(bucket))
                        assert Router(state).slots[placed[1]].slot == slot
                        edges[bucket] += 1

    agrees()
    assert len(edges) > 100


def looked_up(state: Allocation, unit: Unit) -> Routing:
    """Where a unit goes, by asking each arm in turn whether it owns the bucket."""
    bucket = bucket_of(unit, salt=state.salt, hash_version=state.hash_version)
    ((arm, slot),) = [
        (arm, slot) for arm in state.arms if (slot := holds(arm.slots, bucket)) is not None
    ]
    return Routing(
        version=arm.version,
        arm=arm.name,
        generation=state.generation,
        bucket=bucket,
        unit=unit,
        slot=slot,
        episode=state.episode,
        salt=state.salt,
        hash_version=state.hash_version,
    )
