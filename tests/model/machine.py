"""Random commands on two stores at once, which must agree about every one of them."""

from collections import Counter
from dataclasses import replace
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from alloc_es import (
    Allocation,
    ChallengerRejectedWithoutReplacement,
    Committed,
    RunSpawned,
    StoreUnavailable,
)
from tests.model.lab import Lab
from tests.model.sides import FIRST, SECOND, Call, Key, Outcome

VERSIONS = st.sampled_from(["v1", "v2", "v3", "v4"])
SHARES = st.sampled_from([0, 1, 500, 2_000, 5_000, 9_999, 10_000, 10_001, -1])
# Ids that would be one if they were glued together, beside the one that most commands go to.
KEYS = ("T", "b/c"), ("T/b", "c"), ("T%2Fb", "c"), ("T", "b")
KEY = st.sampled_from(KEYS[:1] * 5 + KEYS + KEYS[-1:])
BY = st.sampled_from([FIRST, FIRST, SECOND])
RUNS = st.sampled_from(["run-1", "run-2", "run-3"])
UNITS = st.none() | st.sampled_from(["customer-1", "customer-2", "δ/%"])

EXPECTED = st.sampled_from([None, None, None, "newest", "newest", "older", "newer"])
COMMAND_IDS = st.sampled_from([None, None, None, "command-1", "command-1", "command-2"])
ENVELOPES = st.fixed_dictionaries({"expected": EXPECTED, "command_id": COMMAND_IDS})

COMMANDS: dict[str, st.SearchStrategy[dict[str, Any]]] = {
    "start": st.fixed_dictionaries({"current": VERSIONS}),
    "register_challenger": st.fixed_dictionaries({"version": VERSIONS, "share_bps": SHARES}),
    "commit_allocation": st.fixed_dictionaries(
        {"shares": st.dictionaries(VERSIONS, SHARES, min_size=1, max_size=3)}
    ),
    "promote_challenger": st.fixed_dictionaries({"version": VERSIONS}),
    "reject_challenger": st.fixed_dictionaries(
        {"version": VERSIONS, "replacement": st.none() | VERSIONS}
    ),
    "roll_back": st.fixed_dictionaries(
        {
            "to_generation": st.none() | st.integers(0, 6),
            "drop": st.just([]) | st.lists(VERSIONS, max_size=3, unique=True),
        }
    ),
}


class Beside(RuleBasedStateMachine):
    """A durable store beside one in memory."""

    def __init__(self, lab: Lab) -> None:
        super().__init__()
        self.lab = lab
        self.reached: Counter[str] = lab.reached
        self.step = 0
        self.triggers = 0
        self.sent: list[Call] = []

    @initialize(limit=st.sampled_from([1, 3]))
    def open(self, limit: int) -> None:
        self.limit = limit
        self.tenant = self.lab.new_tenant()
        self.memory = self.lab.memory(limit)
        self.durable = self.lab.durable(limit)
        self.reached[f"limit {limit}"] += 1
        for key in KEYS[0], KEYS[-1]:
            self.both(Call(self.key(key), "start", {"current": "v1"}))

    def teardown(self) -> None:
        if not self.step:
            return
        for key in map(self.key, KEYS):
            self.check(key)
            assert self.durable.history(key, by=SECOND) == self.memory.history(key)
        self.reached["a run that was overtaken"] += self.memory.rerouted
        for tenant in {key[0] for key in map(self.key, KEYS)}:
            assert self.durable.first.list(tenant) == self.memory.first.list(tenant)
        assert self.durable.decisions() == self.memory.decisions()
        assert self.durable.runs() == self.memory.runs()
        self.memory.first.close()
        self.memory.second.close()

    @rule(key=KEY, by=BY, arguments=COMMANDS["start"], envelope=ENVELOPES)
    def start(self, **drawn: Any) -> None:
        self.command("start", **drawn)

    @rule(key=KEY, by=BY, arguments=COMMANDS["register_challenger"], envelope=ENVELOPES)
    def register(self, **drawn: Any) -> None:
        self.command("register_challenger", **drawn)

    @rule(key=KEY, by=BY, arguments=COMMANDS["commit_allocation"], envelope=ENVELOPES)
    def commit(self, **drawn: Any) -> None:
        self.command("commit_allocation", **drawn)

    @rule(key=KEY, by=BY, arguments=COMMANDS["promote_challenger"], envelope=ENVELOPES)
    def promote(self, **drawn: Any) -> None:
        self.command("promote_challenger", **drawn)

    @rule(key=KEY, by=BY, arguments=COMMANDS["reject_challenger"], envelope=ENVELOPES)
    def reject(self, **drawn: Any) -> None:
        self.command("reject_challenger", **drawn)

    @rule(key=KEY, by=BY, arguments=COMMANDS["roll_back"], envelope=ENVELOPES)
    def roll_back(self, **drawn: Any) -> None:
        self.command("roll_back", **drawn)

    @rule(data=st.data(), key=st.sampled_from((KEYS[0], KEYS[-1])), by=BY)
    def go_on(self, data: st.DataObject, key: Key, by: str) -> None:
        """A command that fits the state; the others mostly meet a refusal."""
        likely = likely_commands(self.memory.allocation(self.key(key)), self.limit)
        method, arguments = data.draw(st.sampled_from(likely))
        self.both(Call(self.key(key), method, arguments, by))

    @rule(data=st.data(), expected=EXPECTED, by=BY)
    def again(self, data: st.DataObject, expected: str | None, by: str) -> None:
        """A command that was carried out comes again, with its id."""
        if not self.sent:
            return
        call = data.draw(st.sampled_from(self.sent))
        generation = self.expected_generation(call.key, expected)
        arguments = {**call.arguments, "expected_generation": generation}
        outcome = self.both(replace(call, arguments=arguments, by=by))
        assert isinstance(outcome.result, Committed)
        assert outcome.result.replayed

    @rule(data=st.data(), expected=st.sampled_from([False, False, True]))
    def overtake(self, data: st.DataObject, expected: bool) -> None:
        """The second connection commits between the first one's decision and its append."""
        key = self.key(KEYS[0])
        allocation = self.memory.allocation(key)
        likely = st.sampled_from(likely_commands(allocation, self.limit))
        own, rival = data.draw(likely), data.draw(likely)
        if allocation.challengers and not expected:
            # Still legal when it is decided again, unless the rival takes the challenger out.
            own = ("commit_allocation", {"shares": {allocation.challengers[0]: 4_321}})
        envelope = {"expected": "newest" if expected else None, "command_id": None}
        call = self.call(key, FIRST, own[0], own[1], envelope)
        other = Call(key, rival[0], rival[1], by=SECOND)
        self.begin()
        modelled = self.memory.run_overtaken(call, other)
        self.lab.sources.begin(self.step)
        assert self.durable.run_overtaken(call, other) == modelled
        for sent, outcome in zip((call, other), modelled, strict=False):
            self.note(sent, outcome)
        self.check(key)

    @rule(by=BY)
    def hold(self, by: str) -> None:
        """The split that holds already is asked for."""
        key = self.key(KEYS[0])
        allocation = self.memory.allocation(key)
        shares = {version: allocation.split[version] for version in allocation.challengers}
        self.both(Call(key, "commit_allocation", {"shares": shares}, by))

    @rule(key=KEY, run_id=RUNS, unit=UNITS, by=BY)
    def spawn(self, key: Key, run_id: str, unit: str | None, by: str) -> None:
        self.both(Call(self.key(key), "spawn_run", {"run_id": run_id, "unit": unit}, by))

    @rule(data=st.data(), unit=UNITS)
    def spawn_around(self, data: st.DataObject, unit: str | None) -> None:
        """The second connection spawns by what it remembers, which the first one has changed."""
        key = self.key(KEYS[0])
        method, arguments = data.draw(
            st.sampled_from(likely_commands(self.memory.allocation(key), self.limit))
        )
        for call in (
            Call(key, "spawn_run", {"run_id": f"before {self.step}", "unit": unit}, SECOND),
            Call(key, method, arguments, FIRST),
            Call(key, "spawn_run", {"run_id": f"after {self.step}", "unit": unit}, SECOND),
        ):
            self.both(call)

    @rule(key=KEY, run_id=RUNS)
    def find(self, key: Key, run_id: str) -> None:
        self.both(Call(self.key(key), "find_run", {"run_id": run_id}))

    @rule(key=KEY, unit=st.text("abc", min_size=1, max_size=3))
    def peek(self, key: Key, unit: str) -> None:
        self.both(Call(self.key(key), "peek", {"unit": unit}))

    @rule()
    def reopen(self) -> None:
        """The durable store is closed and opened; the one in memory goes on."""
        start = self.durable.start
        self.durable = self.lab.reopened(self.limit)
        self.durable.start = start
        self.reached["reopen"] += 1

    def key(self, key: Key) -> Key:
        """A key with this example's own tenant for T."""
        return key[0].replace("T", self.tenant), key[1]

    def command(
        self, method: str, *, key: Key, by: str, arguments: dict[str, Any], envelope: dict[str, Any]
    ) -> None:
        self.both(self.call(self.key(key), by, method, arguments, envelope))

    def call(
        self, key: Key, by: str, method: str, arguments: dict[str, Any], envelope: dict[str, Any]
    ) -> Call:
        sent = {
            "expected_generation": self.expected_generation(key, envelope["expected"]),
            "command_id": envelope["command_id"],
            "reason": f"step {self.step}",
        }
        return Call(key, method, {**arguments, **sent}, by)

    def expected_generation(self, key: Key, wish: str | None) -> int | None:
        if wish is None:
            return None
        generation = len(self.memory.history(key))
        return max(0, generation + {"newest": 0, "older": -1, "newer": 1}[wish])

    def begin(self) -> None:
        self.step += 1
        self.lab.sources.begin(self.step)

    def both(self, call: Call) -> Outcome:
        """Run a call on both sides and compare all that it says."""
        self.begin()
        modelled = self.memory.run(call)
        self.lab.sources.begin(self.step)
        assert self.durable.run(call) == modelled
        self.note(call, modelled)
        self.check(call.key)
        return modelled

    def note(self, call: Call, outcome: Outcome) -> None:
        """Keep account of what was reached, and of what can be sent again."""
        self.reached[call.method] += 1
        result = outcome.result
        if isinstance(result, RunSpawned):
            self.reached["a known run" if result.replayed else "a new run"] += 1
            assert result.model_copy(update={"replayed": False}) in self.memory.runs()
        elif isinstance(result, Committed):
            self.note_committed(call, result)
        if isinstance(outcome.error, tuple):
            kind, words, said = outcome.error
            assert not issubclass(kind, StoreUnavailable), words
            lost = " lost at commit" if said.get("lost_at_commit") else ""
            self.reached[kind.__name__ + lost] += 1

    def note_committed(self, call: Call, committed: Committed) -> None:
        if committed.event is None:
            self.reached["nothing to do"] += 1
        elif committed.replayed:
            self.reached["replayed"] += 1
        else:
            self.reached[f"after {committed.attempts} attempts"] += 1
            arguments = {**call.arguments, "command_id": committed.event.command_id}
            self.sent.append(replace(call, arguments=arguments))
            self.triggers += isinstance(committed.event, ChallengerRejectedWithoutReplacement)

    def check(self, key: Key) -> None:
        """Compare a key on both sides, and hold its log against the rules."""
        events = self.durable.history(key)
        assert events == self.memory.history(key)
        for number, event in enumerate(events, start=1):
            assert (event.key.tenant_id, event.key.workflow_id) == key
            assert event.generation == number
            assert_sound(event.allocation)
        reading = Call(key, "allocation")
        assert self.durable.run(reading) == self.memory.run(reading)
        rejections = [
            event
            for event in self.memory.decisions()
            if isinstance(event, ChallengerRejectedWithoutReplacement)
        ]
        assert len(rejections) == self.triggers


def likely_commands(allocation: Allocation, limit: int) -> list[tuple[str, dict[str, Any]]]:
    """Commands that the rules would mostly let through, and that change something."""
    live = allocation.challengers
    commands: list[tuple[str, dict[str, Any]]] = []
    for version in live:
        commands += [
            ("commit_allocation", {"shares": {version: 1 + allocation.split[version] % 3_000}}),
            ("promote_challenger", {"version": version}),
            ("reject_challenger", {"version": version}),
        ]
    if len(live) < limit:
        commands += [
            ("register_challenger", {"version": version, "share_bps": 100})
            for version in ("v1", "v2", "v3", "v4", "v5")
            if version not in allocation.split
        ]
    if allocation.previous_current:
        commands += [("roll_back", {}), ("roll_back", {"drop": live})]
    return commands


def assert_sound(allocation: Any) -> None:
    """The control has a share, and every bucket has one owner."""
    assert allocation.arms[0].name == "control"
    assert allocation.control.share_bps > 0
    assert len(set(allocation.split)) == len(allocation.arms)
    owned = sorted(slot for arm in allocation.arms for slot in arm.slots)
    assert [first for first, _ in owned] == [0, *(end for _, end in owned[:-1])]
    assert owned[-1][1] == 10_000
