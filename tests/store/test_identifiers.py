"""Ids: what one store takes all take, and different ids never meet."""

from collections.abc import Callable

import pytest

from alloc_es import Allocations, InvalidIdentifier, Workflow

# 4 bytes each in UTF-8 and no two alike: a database may compress what repeats, and only
# then fit it into an index.
EMOJI = "".join(chr(0x1F300 + offset) for offset in range(200))

COLLIDING_KEYS = [
    ("a/b", "c"),
    ("a", "b/c"),
    ("a%2Fb", "c"),
    ("a", "b%2Fc"),
    ("a%252Fb", "c"),
    ("a", "b/c%"),
    ("A/b", "c"),
    ("é/b", "c"),
    ("a_b", "c"),
    ("a?b", "c"),
]

REFUSED = {
    "": "it is empty",
    "a\0b": "it contains U+0000, which is not printable",
    "a\ud800": "it contains U+D800, which is not printable",
    "a\nb": "it contains U+000A, which is not printable",
    "a\u200bb": "it contains U+200B ZERO WIDTH SPACE, which is not printable",
    "a\u202eb": "it contains U+202E RIGHT-TO-LEFT OVERRIDE, which is not printable",
    "a\u00a0b": "it contains U+00A0 NO-BREAK SPACE, which is not printable",
    "\ue000": "it contains U+E000, which is not printable",
    " a": "it begins or ends with a blank",
    "a ": "it begins or ends with a blank",
    "e\u0301": "it is not in Unicode normal form C; in that form it is 'é'",
    "x" * 201: "it has 201 characters, 200 are allowed",
}

SENDERS: dict[str, Callable[[Allocations, str], object]] = {
    "tenant id": lambda store, bad: store.workflow(bad, "triage"),
    "workflow id": lambda store, bad: store.workflow("acme", bad),
    "version": lambda store, bad: store.workflow("acme", "triage").start(bad),
    "actor": lambda store, bad: store.workflow("acme", "triage").start("v1", actor=bad),
    "command id": lambda store, bad: store.workflow("acme", "triage").start("v1", command_id=bad),
    "run id": lambda store, bad: store.workflow("acme", "triage").spawn_run(bad),
    "unit": lambda store, bad: store.workflow("acme", "triage").spawn_run("run-1", unit=bad),
}


def test_keys_that_try_to_collide_are_different_workflows(allocations: Allocations) -> None:
    """Red when `_escape` leaves the slash, or the per cent sign, as it is."""
    for index, key in enumerate(COLLIDING_KEYS):
        allocations.workflow(*key).start(f"v{index}")
    for index, key in enumerate(COLLIDING_KEYS):
        assert allocations.workflow(*key).allocation().current == f"v{index}"
    assert len({each.event.originator_id for each in allocations.decisions()}) == 10


def test_runs_that_try_to_collide_are_different_runs(allocations: Allocations) -> None:
    """Red when a run's stream is named without escaping."""
    for tenant, run_id in COLLIDING_KEYS:
        workflow = allocations.workflow(tenant, "triage")
        if tenant not in {each.tenant_id for each in allocations.list()}:
            workflow.start("v1")
        assert not workflow.spawn_run(run_id).replayed
    assert len(list(allocations.runs())) == len(COLLIDING_KEYS)


def test_the_longest_ids_work_everywhere_they_can_stand(allocations: Allocations) -> None:
    """Red on PostgreSQL when an index row outgrows a page: put `state` into an index."""
    assert (len(EMOJI), len(EMOJI.encode())) == (200, 800)
    other = EMOJI[::-1]
    workflow = allocations.workflow(EMOJI, EMOJI)
    workflow.start(EMOJI, command_id=EMOJI, actor=EMOJI, reason=EMOJI * 10)
    workflow.register_challenger(other, command_id=other)
    assert workflow.start(EMOJI, command_id=EMOJI).replayed
    run = workflow.spawn_run(EMOJI, unit=EMOJI)
    assert workflow.spawn_run(EMOJI, unit=EMOJI).replayed
    assert not allocations.workflow(EMOJI, EMOJI).spawn_run(other).replayed
    assert (run.run_id, run.unit) == (EMOJI, EMOJI)
    assert workflow.allocation().split == {EMOJI: 9_500, other: 500}
    assert [each.key for each in allocations.list(EMOJI)] == [workflow.key]


@pytest.mark.parametrize("bad", REFUSED, ids=ascii)
@pytest.mark.parametrize("kind", SENDERS)
def test_what_can_name_nothing_is_refused_alike_on_every_store(
    workflow: Workflow, allocations: Allocations, kind: str, bad: str
) -> None:
    """Red when `parse_identifier` lets a problem pass."""
    before = allocations.position()
    with pytest.raises(InvalidIdentifier) as refused:
        SENDERS[kind](allocations, bad)
    assert (refused.value.kind, refused.value.problem) == (kind, REFUSED[bad])
    assert (allocations.position(), list(allocations.runs())) == (before, [])
    assert len(workflow.history()) == 1


@pytest.mark.parametrize("bad", ["a\0b", "\ud800", "x" * 2_001, "\x1b[31m"], ids=ascii)
def test_a_reason_that_one_store_can_not_hold_is_refused_by_all(
    workflow: Workflow, bad: str
) -> None:
    """Red when a reason goes to the store unread: SQLite takes a NUL, PostgreSQL does not."""
    with pytest.raises(InvalidIdentifier):
        workflow.register_challenger("v2", reason=bad)
    assert len(workflow.history()) == 1
