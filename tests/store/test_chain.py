"""What is recorded is chained to what is stored, however it came to be recorded."""

from collections.abc import Callable
from hashlib import sha256

import pytest

from alloc_es import Allocations, Workflow, connect
from alloc_es.commands import CommitAllocation
from alloc_es.errors import AnswerLost
from alloc_es.identity import Version
from alloc_es.rules import findings
from tests.fence.holding import next_decision
from tests.store.test_command_ids import lose_next_answer
from tests.support.raw import DECISIONS, RUNS, raw
from tests.support.recorders import before_each

ELSEWHERE = CommitAllocation(shares=((Version("v2"), 700),))

Once = Callable[[Callable[[], object], str], None]


@pytest.fixture
def once(monkeypatch: pytest.MonkeyPatch) -> Once:
    """Have something done before the next time that a recorder's method is called."""

    def once(act: Callable[[], object], method: str) -> None:
        acts = iter([act])

        def first_only(_: str) -> None:
            for each in acts:
                each()

        before_each(monkeypatch, (method,), first_only)

    return once


def somebody_else_decides(allocations: Allocations, workflow: Workflow) -> None:
    """As another process does, of which this connection hears nothing."""
    log = allocations._store.decisions
    log.append(next_decision(workflow.newest(), ELSEWHERE))


def lose_to_somebody_else(allocations: Allocations, workflow: Workflow) -> None:
    """The same, and what was sent never comes to the store, and that can't be told."""
    somebody_else_decides(allocations, workflow)
    raise AnswerLost("the answer was lost")


def require_chained(allocations: Allocations, decisions: int, runs: int) -> None:
    """Every decision and run carries the digest that it owes."""
    decided, spawned = list(allocations.decisions()), list(allocations.runs())
    assert (len(decided), len(spawned)) == (decisions, runs)
    assert None not in {each.event.previous_digest for each in decided}
    assert None not in {each.event.decision_digest for each in spawned}
    assert list(findings(decided, spawned)) == []


def test_digests_are_those_of_the_stored_bytes(durable_url: str) -> None:
    """Red when a digest is of an event's fields, or of bytes that were written otherwise."""
    with connect(durable_url) as allocations:
        for name in ("triage", "bill\u00e9 \U0001f680"):
            workflow = allocations.workflow("acme", name)
            workflow.start("v1")
            workflow.register_challenger("v2", reason='"no\n\u2028"')
            workflow.spawn_run(f"run of {name}")
        read = [each.digest for each in (*allocations.decisions(), *allocations.runs())]
    with raw(durable_url) as database:
        rows = [*database.rows(DECISIONS), *database.rows(RUNS)]
        previous = [fields["previous_digest"] for fields in database.fields(DECISIONS)]
        allotted_by = [fields["decision_digest"] for fields in database.fields(RUNS)]
    stored = [sha256(state).hexdigest() for *_, state in rows]
    streams = [sha256(stream.encode()).hexdigest() for _, stream, *_ in rows]
    assert read == stored
    assert previous == [streams[0], stored[0], streams[2], stored[2]]
    assert allotted_by == [stored[1], stored[3]]


def test_a_decision_that_lost_a_race_is_chained_to_the_winners(
    workflow: Workflow, allocations: Allocations, once: Once
) -> None:
    """Red when a command is decided again and keeps the digest of what it was decided on first."""
    workflow.register_challenger("v2")
    once(lambda: somebody_else_decides(allocations, workflow), "insert_events")
    committed = workflow.promote_challenger("v2")
    assert (committed.generation, committed.attempts) == (4, 2)
    assert committed.event is not None
    assert committed.event.previous_digest == workflow.history()[2].digest
    require_chained(allocations, decisions=4, runs=0)


def test_a_decision_whose_answer_was_lost_is_chained_to_what_came_before_it(
    workflow: Workflow, allocations: Allocations, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Red when what was sent again is chained to itself."""
    lose_next_answer(monkeypatch, "insert_events", AnswerLost("the answer was lost"))
    first = workflow.register_challenger("v2", command_id="c-1")
    again = workflow.register_challenger("v2", command_id="c-1")
    assert (first.event, again.replayed) == (again.event, True)
    workflow.promote_challenger("v2")
    require_chained(allocations, decisions=3, runs=0)


def test_a_decision_that_never_came_and_was_overtaken_is_chained_to_the_winners(
    workflow: Workflow, allocations: Allocations, once: Once
) -> None:
    """Red when a command in doubt that is decided again keeps its first digest."""
    workflow.register_challenger("v2")

    once(lambda: lose_to_somebody_else(allocations, workflow), "insert_events")
    assert workflow.promote_challenger("v2").generation == 4
    require_chained(allocations, decisions=4, runs=0)


def test_a_run_that_is_routed_again_carries_the_digest_of_what_it_was_recorded_by(
    workflow: Workflow, allocations: Allocations, once: Once
) -> None:
    """Red when a run keeps the digest of the decision that it was routed by first."""
    workflow.register_challenger("v2")
    workflow.spawn_run("run-1")
    once(lambda: somebody_else_decides(allocations, workflow), "insert_runs")
    run = workflow.spawn_run("run-2")
    newest = workflow.newest()
    assert (run.generation, run.decision_digest) == (3, newest.digest)
    assert allocations.spawn_counts().rerouted == 1
    require_chained(allocations, decisions=3, runs=2)


@pytest.mark.parametrize("lands", [True, False])
def test_a_run_whose_answer_was_lost_carries_the_digest_of_its_decision(
    workflow: Workflow,
    allocations: Allocations,
    monkeypatch: pytest.MonkeyPatch,
    once: Once,
    lands: bool,
) -> None:
    """Red when a run that is sent again is not routed again by what was decided meanwhile."""
    workflow.register_challenger("v2")
    workflow.spawn_run("run-1")
    sent_by = workflow.newest()
    if lands:
        lose_next_answer(monkeypatch, "insert_runs", AnswerLost("the answer was lost"))
    else:
        once(lambda: lose_to_somebody_else(allocations, workflow), "insert_runs")
    run = workflow.spawn_run("run-2")
    newest = workflow.newest()
    assert (run.decision_digest, newest == sent_by) == (newest.digest, lands)
    assert (run.replayed, allocations.spawn_counts().retried) == (False, 1)
    require_chained(allocations, decisions=2 if lands else 3, runs=2)
