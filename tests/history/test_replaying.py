"""What if: another policy, the same commands and the same units."""

from collections.abc import Callable

import pytest
from hypothesis import given as for_all
from hypothesis import settings

from alloc_es.allocation import Allocation
from alloc_es.errors import (
    AlreadyCurrent,
    InvalidIdentifier,
    InvalidSetting,
    InvalidSplit,
    NoSuchChallenger,
)
from alloc_es.identity import Version
from alloc_es.proposals import Hold, Promote, Proposal, Register, Reject, Reshare
from alloc_es.replaying import Moved, every_challenger_at, replay
from alloc_es.routing import Router, bucket_of
from tests.core.given import commit, promote, register, reject, roll_back, start
from tests.core.histories import History as Steps
from tests.core.histories import events_of, histories
from tests.history.given import changed, history, recorded, spawned

DECISIONS = history(start(), register("v2", 500), promote("v2"), register("v3", 500, "salt-2"))
RUNS = [spawned(DECISIONS[n % 4], f"run-{n}", position=n) for n in range(400)]


def hold(_: Allocation) -> Proposal:
    return Hold()


def at_generation(wanted: int, proposal: Proposal) -> Callable[[Allocation], Proposal]:
    """A policy that makes one proposal, about one generation."""
    return lambda seen: proposal if seen.generation == wanted else Hold()


@settings(max_examples=100)
@for_all(histories())
def test_a_policy_that_holds_leaves_everything_as_it_was(made: Steps) -> None:
    """Red when a recorded command is decided again as another one than it was."""
    decisions = recorded(events_of(made))
    if not decisions:
        return
    runs = [spawned(each, f"run-{n}") for each in decisions for n in range(3)]
    found = replay(decisions, runs, hold)
    assert found.allocations == {each.generation: each.event.allocation for each in decisions}
    assert (found.runs, found.moved, found.unplaced, found.skipped) == (len(runs), {}, 0, ())


def test_shares_are_given_in_the_order_in_which_they_were_named() -> None:
    """Red when those of a command are decided in the order of their names, as they are stored."""
    decisions = history(
        start(), register("v2"), register("v3"), commit({"v3": 900, "v2": 900}), promote("v3")
    )
    found = replay(decisions, [], hold)
    assert [*found.allocations.values()] == [each.event.allocation for each in decisions]


def test_a_share_moves_the_units_of_the_buckets_that_it_adds_and_no_others() -> None:
    """Red when a unit is hashed anew, or routed by another generation than its run's."""
    heard: list[Moved] = []
    found = replay(DECISIONS, RUNS, every_challenger_at(1500), on_moved=heard.append)
    owed = {
        2: [run for run in RUNS[1::4] if 500 <= bucket_of(run.event.unit, salt="salt-1") < 1500],
        4: [run for run in RUNS[3::4] if 500 <= bucket_of(run.event.unit, salt="salt-2") < 1500],
    }
    assert owed[2]
    assert owed[4]
    assert found.runs == 400
    assert found.moved == {("v1", "v2"): len(owed[2]), ("v2", "v3"): len(owed[4])}
    assert [moved.run for moved in heard] == sorted(owed[2] + owed[4], key=lambda run: run.position)
    assert {(moved.run.event.version, moved.routing.version) for moved in heard} == set(found.moved)
    assert found.allocations[4].split == {"v2": 8500, "v3": 1500}
    assert found.skipped == ()


def test_the_policy_is_asked_once_behind_each_decision_about_what_would_hold() -> None:
    """Red when it is asked about what was recorded, or asked again about its own proposal."""
    seen: list[tuple[int, dict[Version, int]]] = []

    def policy(allocation: Allocation) -> Proposal:
        seen.append((allocation.generation, allocation.split))
        live = allocation.challenger
        return Reshare({live: 2000}) if live else Hold()

    replay(DECISIONS, [], policy)
    assert seen == [
        (1, {"v1": 10_000}),
        (2, {"v1": 9_500, "v2": 500}),
        (4, {"v2": 10_000}),
        (5, {"v2": 9_500, "v3": 500}),
    ]


def test_what_is_refused_in_the_imagination_is_skipped_and_told() -> None:
    """Red when a refusal ends the replay, or is not told with its decision."""
    found = replay(DECISIONS, RUNS, at_generation(2, Reject("v2")))
    (skipped,) = found.skipped
    assert (skipped.decision, skipped.proposal) == (DECISIONS[2], None)
    assert isinstance(skipped.refusal, NoSuchChallenger)
    assert [found.allocations[n].current for n in (1, 2, 3, 4)] == ["v1"] * 4
    assert found.moved == {("v2", "v1"): sum(run.event.version == "v2" for run in RUNS)}


@pytest.mark.parametrize(
    ("proposal", "refusal"),
    [
        (Register("v1"), AlreadyCurrent),
        (Reshare({}), InvalidSplit),
        (Promote("v9"), NoSuchChallenger),
    ],
)
def test_a_proposal_that_the_rules_refuse_is_told_as_the_policys(
    proposal: Proposal, refusal: type[Exception]
) -> None:
    """Red when a refused proposal is taken for a recorded command, or raised."""
    found = replay(DECISIONS, [], at_generation(1, proposal))
    (skipped,) = found.skipped
    assert (skipped.decision, skipped.proposal) == (DECISIONS[0], proposal)
    assert isinstance(skipped.refusal, refusal)


def test_an_answer_that_is_no_proposal_ends_the_replay() -> None:
    """Red when it counts as a hold: nothing would have moved, for no reason."""
    with pytest.raises(InvalidSetting, match="which is no Proposal"):
        replay(DECISIONS, [], lambda _: None)  # type: ignore[arg-type,return-value]
    with pytest.raises(InvalidIdentifier):
        replay(DECISIONS, [], lambda _: Register(""))
    with pytest.raises(InvalidIdentifier, match="reason"):
        replay(DECISIONS, [], lambda _: Hold("\0"))


def test_a_roll_back_goes_to_what_would_have_been_current_then() -> None:
    """Red when it goes to what was recorded as current at that generation."""
    decisions = history(
        start(),
        register("v2"),
        promote("v2"),
        register("v3"),
        promote("v3"),
        roll_back(to_generation=2, target="v1"),
    )
    found = replay(decisions, [], at_generation(2, Promote("v2")))
    assert [found.allocations[n].current for n in (2, 3, 5, 6)] == ["v2", "v2", "v3", "v2"]


def test_an_episode_that_only_the_policy_opens_hashes_the_units_anew() -> None:
    """Red when a challenger that came into an episode opens the next one with its salt."""
    decisions = history(start(), register("v2", 3000), register("v3", 3000))
    found = replay(decisions, [], at_generation(2, Reject("v2")))
    second, third = found.allocations[2], found.allocations[3]
    assert (third.episode, third.challengers) == (second.episode + 1, ("v3",))
    assert third.salt not in {second.salt, found.allocations[1].salt}
    assert replay(decisions, [], at_generation(2, Reject("v2"))).allocations == found.allocations


def test_each_challenger_of_the_policy_opens_an_episode_of_its_own_salt() -> None:
    """Red when the policy's salts repeat, so that the same units go first again."""

    def policy(allocation: Allocation) -> Proposal:
        live = allocation.challenger
        return Reject(live) if live else Register(f"new-{allocation.generation}")

    decisions = history(start(), register("v2"), reject("v2"), register("v3"), commit({"v3": 1}))
    allocations = replay(decisions, [], policy).allocations
    seeds = {(each.episode, each.salt) for each in allocations.values() if each.challenger}
    assert len(seeds) == len({salt for _, salt in seeds}) > 1


def test_runs_of_other_workflows_are_passed_over_and_those_of_no_generation_told() -> None:
    """Red when they are routed by this workflow, or end the replay."""
    other, lost = changed(RUNS[1], workflow_id="other"), changed(RUNS[1], generation=9)
    found = replay(DECISIONS, [other, lost, RUNS[1]], hold)
    assert (found.runs, found.unplaced, found.moved) == (1, 1, {})


def test_the_same_version_on_another_arm_is_not_elsewhere() -> None:
    """Red when a run counts as moved because its version would have been promoted earlier."""
    runs = [spawned(DECISIONS[1], f"run-{n}") for n in range(100)]
    found = replay(DECISIONS, runs, at_generation(2, Promote("v2")))
    router = Router(DECISIONS[1].event.allocation)
    stay = sum(router.route(run.event.unit).version == "v2" for run in runs)
    assert 0 < stay < 100
    assert found.moved == {("v1", "v2"): 100 - stay}
    assert found.routed == {("v1", "v2"): 100 - stay, ("v2", "v2"): stay}
