"""Routing a unit, beside what feature flag packages do for one."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from hashlib import sha256
from importlib.util import find_spec
from time import perf_counter
from typing import Any, NamedTuple
from uuid import uuid4

import alloc_es
from alloc_es.identity import Unit
from alloc_es.routing import Router, bucket_of
from tests.bench.goals import AsFast, AtMost
from tests.bench.measuring import Case, Contender, Measure
from tests.bench.rivals import CHALLENGER, CURRENT, TENANT
from tests.bench.scale import Scale

Choose = Callable[[str], object]
"""Says which version a unit gets."""

PEEK = "alloc-es, peek"
BUCKET = "SHA-256 and nothing else"

_SHARE_BPS = 500
_KEY = "support"
_SALT = "5f2b8c2e9d6a4f0e8f4f6f5d0a9b7c31"


def routing(scale: Scale) -> Case:
    """A unit to its version with everything in memory; no unit is asked for twice in a row."""
    units = [f"customer-{uuid4().hex[:12]}" for _ in range(scale.units)]

    def contender(name: str, opened: Callable[[], Choose]) -> Contender:
        return Contender(name, partial(_choosing, opened, units, scale.routing_ms))

    peers = [peer for peer in PEERS if find_spec(peer.module)]
    missing = [peer.package for peer in PEERS if peer not in peers]
    note = f"{CURRENT} gets 95 % and {CHALLENGER} gets 5 % of {scale.units:,} different units"
    if missing:
        note += f"; left out, because they are not installed: {', '.join(missing)}"
    bare = AtMost(PEEK, BUCKET, 4)
    return Case(
        "Routing a unit, warm",
        "µs",
        (
            contender(PEEK, _peek),
            contender("alloc-es, Router.route", _route),
            *(contender(peer.name, peer.opened) for peer in peers),
            contender("alloc-es, bucket_of", lambda: partial(bucket_of, salt=_SALT)),
            contender(BUCKET, _bucket),
        ),
        (*([AsFast(PEEK, [peer.name for peer in peers], 20)] if peers else ()), bare),
        note=note,
    )


@contextmanager
def _choosing(
    opened: Callable[[], Choose], units: list[str], at_least_ms: float
) -> Iterator[Measure]:
    choose = opened()

    def once() -> float:
        started = perf_counter()
        for unit in units:
            choose(unit)
        return perf_counter() - started

    # The quick ones ask for all units several times, so that a disturbance of a few
    # milliseconds is not the figure.
    passes = max(1, round(at_least_ms / 1_000 / once()))
    yield lambda: sum(once() for _ in range(passes)) * 1e6 / passes / len(units)


def _workflow() -> alloc_es.Workflow:
    workflow = alloc_es.connect("memory:").workflow(TENANT, _KEY)
    workflow.start(CURRENT)
    workflow.register_challenger(CHALLENGER, _SHARE_BPS)
    return workflow


def _peek() -> Choose:
    return _workflow().peek


def _route() -> Choose:
    router = Router(_workflow().allocation())
    return lambda unit: router.route(Unit(unit))


def _bucket() -> Callable[[str], int]:
    salt = _SALT.encode()
    return lambda unit: int.from_bytes(sha256(salt + unit.encode()).digest()[:8], "big") % 10_000


def _growthbook() -> Choose:
    """One instance without a client key, so it fetches and sends nothing, and no callback."""
    from growthbook import GrowthBook

    rule = {
        "key": _KEY,
        "variations": [CURRENT, CHALLENGER],
        "weights": [1 - _SHARE_BPS / 10_000, _SHARE_BPS / 10_000],
        "coverage": 1,
        "hashAttribute": "id",
    }
    instance = GrowthBook(features={_KEY: {"defaultValue": CURRENT, "rules": [rule]}})

    def choose(unit: str) -> object:
        instance.set_attributes({"id": unit})
        return instance.get_feature_value(_KEY, CURRENT)

    return choose


def _unleash() -> Choose:
    """The engine that Unleash's clients are made around, fed with a state as a server sends."""
    from yggdrasil_engine.engine import UnleashEngine

    engine = UnleashEngine()
    variants = ((CURRENT, 10_000 - _SHARE_BPS), (CHALLENGER, _SHARE_BPS))
    feature = {
        "name": _KEY,
        "type": "experiment",
        "enabled": True,
        "project": "default",
        "strategies": [{"name": "default", "constraints": [], "parameters": {}}],
        "variants": [
            {"name": name, "weight": bps // 10, "weightType": "fix", "stickiness": "userId"}
            for name, bps in variants
        ],
    }
    engine.take_state(json.dumps({"version": 2, "features": [feature]}))
    return lambda unit: engine.get_variant(_KEY, {"userId": unit}).variant.name


def _openfeature() -> Choose:
    """The client on the in-memory provider, which has no split: ours is the bare bucket's."""
    from openfeature import api
    from openfeature.evaluation_context import EvaluationContext
    from openfeature.flag_evaluation import FlagResolutionDetails, Reason
    from openfeature.provider.in_memory_provider import InMemoryFlag, InMemoryProvider

    bucket = _bucket()

    def split(flag: Any, context: Any) -> Any:
        name = CHALLENGER if bucket(context.targeting_key) < _SHARE_BPS else CURRENT
        return FlagResolutionDetails(flag.variants[name], variant=name, reason=Reason.SPLIT)

    flag = InMemoryFlag(
        CURRENT, {CURRENT: CURRENT, CHALLENGER: CHALLENGER}, context_evaluator=split
    )
    api.set_provider_and_wait(InMemoryProvider({_KEY: flag}))
    client = api.get_client()
    return lambda unit: client.get_string_value(
        _KEY, CURRENT, EvaluationContext(targeting_key=unit)
    )


class Peer(NamedTuple):
    """A package that also chooses a version for a unit."""

    name: str
    module: str
    package: str
    opened: Callable[[], Choose]


PEERS = (
    Peer("GrowthBook SDK, get_feature_value", "growthbook", "growthbook", _growthbook),
    Peer("Unleash engine, get_variant", "yggdrasil_engine", "yggdrasil-engine", _unleash),
    Peer("OpenFeature client, in-memory provider", "openfeature", "openfeature-sdk", _openfeature),
)
