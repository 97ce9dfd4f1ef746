"""Why a run got its version, computed again."""

from dataclasses import replace

import pytest

from alloc_es.explaining import explain
from alloc_es.routing import bucket_of
from tests.core.given import commit, promote, register, start
from tests.history.given import changed, history, spawned

DECISIONS = history(start(), register("v2", 4000), commit({"v2": 500}), promote("v2"))
RUN = spawned(DECISIONS[1], "run-1")


def test_what_was_recorded_as_it_follows_is_explained_by_its_decision() -> None:
    """Red when another decision than the run's is taken, or the one behind it is not found."""
    found = explain(RUN, DECISIONS)
    assert (found.run, found.decision, found.following) == (RUN, DECISIONS[1], DECISIONS[2])
    assert found.recomputed is not None
    assert found.recomputed.bucket == bucket_of("run-1", salt="salt-1")
    assert found.recomputed.version == RUN.event.version
    assert (found.differences, found.verified, found.digest_matches) == ((), True, True)
    assert found.holds


def test_the_run_of_the_newest_generation_has_no_decision_behind_it() -> None:
    newest = spawned(DECISIONS[-1], "run-1")
    found = explain(newest, DECISIONS)
    assert (found.following, found.verified, found.holds) == (None, True, True)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("version", "v9"),
        ("arm", "challenger" if RUN.event.arm == "control" else "control"),
        ("bucket", 7),
        ("slot", (0, 9)),
        ("episode", 9),
        ("salt", "salt-9"),
        ("hash_version", 9),
    ],
)
def test_whatever_else_a_run_says_is_a_difference(field: str, value: object) -> None:
    """Red when a field is not compared with what follows from the unit and the decision."""
    found = explain(changed(RUN, **{field: value}), DECISIONS)
    (difference,) = found.differences
    assert (difference.field, difference.recorded) == (field, value)
    assert difference.recomputed == getattr(RUN.event, field)
    assert not found.holds


@pytest.mark.parametrize(
    ("position", "verified"), [(19, False), (20, True), (29, True), (30, False)]
)
def test_a_generation_was_the_newest_from_its_decision_up_to_the_next(
    position: int, verified: bool
) -> None:
    """Red when the generation counts as the newest at the position of the next decision."""
    found = explain(changed(RUN, decision_position=position), DECISIONS)
    assert (found.verified, found.holds) == (verified, verified)


def test_a_decision_that_is_another_one_than_the_run_was_allotted_by_is_told() -> None:
    """Red when the digest that a run carries is not looked at."""
    other = [each if n != 1 else replace(each, digest="0" * 64) for n, each in enumerate(DECISIONS)]
    found = explain(RUN, other)
    assert (found.digest_matches, found.differences, found.holds) == (False, (), False)


def test_what_an_older_release_did_not_record_is_unknown_and_no_contradiction() -> None:
    """Red when a run of an earlier release counts as wrong, or as verified."""
    found = explain(changed(RUN, decision_position=None, decision_digest=None), DECISIONS)
    assert (found.verified, found.digest_matches, found.holds) == (None, None, True)


def test_a_decision_that_the_log_does_not_have_is_told() -> None:
    """Red when it is a traceback, or another workflow's decision is taken for it."""
    others = [each for each in DECISIONS if each.generation != 2]
    found = explain(RUN, others)
    assert (found.decision, found.recomputed, found.following) == (None, None, DECISIONS[2])
    assert not found.holds
    assert explain(changed(RUN, workflow_id="other"), DECISIONS).decision is None
