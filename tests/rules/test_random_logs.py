"""The rules on logs that nobody wrote down: none is found at fault, and hardly a change escapes."""

import json
from random import Random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from alloc_es import AllocationError, DecisionEvent, Recorded, connect
from alloc_es.codec import decode, digest, encode
from alloc_es.errors import Refusal, UnreadableEvent
from alloc_es.rules import Timeline, decision_findings, findings
from tests.core.histories import History, events_of, histories
from tests.rules.given import KEY

FREE = {"actor", "command_id", "reason", "recorded_at", "schema_version", "since", "salt"}
"""What a command brings with it, so that nothing else tells what it should have been."""


def stored(history: History) -> list[Recorded[DecisionEvent]]:
    """The events of a history as a log holds them: a share's order is lost, for one."""
    return [recorded(place, event) for place, event in enumerate(events_of(history), start=1)]


def recorded(position: int, event: DecisionEvent, change: Any = lambda _: None) -> Any:
    name, state = encode(event)
    fields = json.loads(state)
    change(fields)
    state = json.dumps(fields).encode()
    stream, version = event.originator_id, event.originator_version
    return Recorded(position, decode(name, state, stream=stream, version=version), digest(state))


@settings(max_examples=150)
@given(histories())
def test_what_the_rules_of_deciding_made_breaks_none_of_the_log(history: History) -> None:
    """Red when the shares of a split are decided again in the order of their names."""
    assert list(decision_findings(stored(history), Timeline())) == []


@settings(max_examples=150)
@given(histories(), st.randoms(use_true_random=True))
def test_a_number_or_a_name_that_was_changed_in_a_decision_is_found(
    history: History, random: Random
) -> None:
    """Red when a field of an event follows from nothing and is compared with nothing."""
    decisions = stored(history)
    if not decisions:
        return
    place = random.randrange(len(decisions))
    event = decisions[place].event
    try:
        decisions[place] = recorded(place + 1, event, lambda fields: change_one(random, fields))
    except UnreadableEvent:
        return
    assert decisions[place].event != event
    assert list(decision_findings(decisions, Timeline()))


def change_one(random: Random, fields: Any) -> None:
    """Change one number or name anywhere inside, of those that are not free."""
    places = [
        (holder, key)
        for holder, key, value in leaves(fields)
        if key not in FREE | {"max_challengers"} and isinstance(value, int | str)
    ]
    holder, key = random.choice(places)
    value = holder[key]
    holder[key] = value + random.choice([-1, 1]) if isinstance(value, int) else f"{value}x"


def leaves(node: Any) -> Any:
    """Each value that is no container, with what holds it and its key there."""
    for key, value in list(node.items() if isinstance(node, dict) else enumerate(node)):
        if isinstance(value, dict | list):
            yield from leaves(value)
        else:
            yield node, key, value


def test_a_long_log_of_decisions_and_runs_holds_no_finding() -> None:
    """Red when a rule finds fault with what is right, many decisions later."""
    random = Random(7)
    with connect("memory:", max_challengers=3) as allocations:
        workflow = allocations.workflow(*KEY)
        workflow.start("v1")
        acted = sum(act(workflow, random, number) for number in range(400))
        runs = list(allocations.runs())
        assert acted > 150
        assert len({each.event.version for each in runs}) > 10
        assert list(findings(allocations.decisions(), runs)) == []


def act(workflow: Any, random: Random, number: int) -> bool:
    """Spawn a run and send some command; whether it did something."""
    workflow.spawn_run(f"run-{number}", unit=f"unit-{random.randrange(50)}")
    live = workflow.allocation().challengers
    version = random.choice(live or ("v1",))
    commands = [
        lambda: workflow.register_challenger(f"v{number}", random.randint(0, 3_000)),
        lambda: workflow.commit_allocation({each: random.randint(0, 3_000) for each in live[::-1]}),
        lambda: workflow.reject_challenger(version),
        lambda: workflow.reject_challenger(version, replacement=f"v{number}"),
        lambda: workflow.promote_challenger(version),
        lambda: workflow.roll_back(drop=live),
    ]
    weights = [6, 6, 2, 2, 2, 1]
    try:
        return random.choices(commands, weights)[0]().event is not None
    except (Refusal, AllocationError):
        return False
