"""4. The control is in every allocation, whatever is commanded on whichever store."""

from collections.abc import Callable
from random import Random

from alloc_es import Committed, Refusal, Workflow, connect

COMMANDS = 300
VERSIONS = [f"v{number}" for number in range(1, 6)]


def test_the_control_is_in_every_allocation_with_a_share_above_zero(store_url: str) -> None:
    """Red when `_resized` lets challengers have all 10,000 basis points.

    The sequence is drawn from a fixed seed; the property is tested on the pure decider, with
    shrinking, in `tests/core`.
    """
    random = Random(20)
    with connect(store_url, max_challengers=3) as allocations:
        workflow = allocations.workflow("acme", "triage")
        workflow.start("v1")
        acted = sum(send(workflow, random) for _ in range(COMMANDS))
        history = [each.event.allocation for each in workflow.history()]
    assert COMMANDS > acted > COMMANDS // 10
    assert len(history) == 1 + acted
    for allocation in history:
        current, *challengers = allocation.split
        assert current == allocation.current
        assert tuple(challengers) == allocation.challengers
        assert allocation.split[current] > 0
        assert sum(allocation.split.values()) == 10_000
    assert any(allocation.split[allocation.current] < 1_000 for allocation in history)


def send(workflow: Workflow, random: Random) -> bool:
    """Send one random command; whether it appended an event."""
    version, other = random.choice(VERSIONS), random.choice(VERSIONS)
    share = random.choice([0, 1, 500, 5_000, 9_999, 10_000])
    commands: list[Callable[[], Committed]] = [
        lambda: workflow.register_challenger(version, share_bps=share),
        lambda: workflow.commit_allocation({version: share}),
        lambda: workflow.commit_allocation({version: share, other: 5_000}),
        lambda: workflow.promote_challenger(version),
        lambda: workflow.reject_challenger(version),
        lambda: workflow.reject_challenger(version, replacement=other),
        lambda: workflow.roll_back(drop=[version]),
        lambda: workflow.roll_back(to_generation=1),
    ]
    try:
        return random.choice(commands)().event is not None
    except Refusal:
        return False
