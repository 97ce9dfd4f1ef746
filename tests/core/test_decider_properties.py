"""What holds after any sequence of commands, with one to four challengers.

Each property counts the cases that it met and fails when it met too few to mean something.
"""

from collections import Counter
from copy import deepcopy
from functools import reduce
from itertools import pairwise

from hypothesis import given as for_all
from hypothesis import settings
from hypothesis import strategies as st

from alloc_es.allocation import Allocation, Arm
from alloc_es.commands import (
    CommitAllocation,
    RegisterChallenger,
    RejectChallenger,
)
from alloc_es.decider import decide, evolve
from alloc_es.events import ChallengerRejectedWithoutReplacement
from alloc_es.identity import Version
from tests.core.given import (
    KEY,
    commit,
    envelope,
    given,
    moved,
    owner,
    register,
    reject,
    start,
    when,
)
from tests.core.histories import History, Step, events_of, histories

many = settings(max_examples=400)


def test_the_control_is_in_every_allocation_with_a_share_above_zero() -> None:
    """Red when `_resized` lets challengers have all 10,000 basis points."""
    least: list[int] = []

    @many
    @for_all(histories())
    def holds(history: History) -> None:
        for event in events_of(history):
            control, *challengers = event.allocation.arms
            assert control.name == "control"
            assert control.share_bps > 0
            assert [arm.name for arm in challengers] == ["challenger"] * len(challengers)
            assert control.version not in event.allocation.challengers
            least.append(control.share_bps)

    holds()
    assert len(least) > 500
    assert min(least) < 10


def test_the_slots_are_all_buckets_once_ascending_and_joined_and_the_shares_sum_up() -> None:
    """Red when `join` does not join touching slots, or `cut` loses or doubles a bucket."""
    fragments: Counter[int] = Counter()

    @many
    @for_all(histories())
    def holds(history: History) -> None:
        for event in events_of(history):
            arms = event.allocation.arms
            assert sum(event.allocation.split.values()) == 10_000
            for arm in arms:
                assert_ascending_and_joined(arm)
            slots = sorted(slot for arm in arms for slot in arm.slots)
            assert (slots[0][0], slots[-1][1]) == (0, 10_000)
            assert all(left[1] == right[0] for left, right in pairwise(slots))
            fragments[max(len(arm.slots) for arm in arms)] += 1

    holds()
    assert sum(count for slots, count in fragments.items() if slots > 1) > 50


def assert_ascending_and_joined(arm: Arm) -> None:
    assert all(first < end for first, end in arm.slots)
    assert all(left[1] < right[0] for left, right in pairwise(arm.slots))


def test_the_generation_rises_by_one_with_each_event_and_never_otherwise() -> None:
    """Red when `_next` adds anything but 1, or a wish that holds already makes an event."""
    seen: Counter[str] = Counter()

    @many
    @for_all(histories())
    def holds(history: History) -> None:
        for step in history:
            before = step.before.generation if step.before else 0
            after = step.after.generation if step.after else 0
            assert after - before == (step.event is not None)
            seen["event" if step.event else "refused" if step.refusal else "nothing"] += 1
        generations = [event.generation for event in events_of(history)]
        assert generations == list(range(1, len(generations) + 1))

    holds()
    assert min(seen["event"], seen["refused"]) > 300
    assert seen["nothing"] > 30


def test_no_more_challengers_are_live_than_the_limit_allows() -> None:
    full: Counter[int] = Counter()

    @many
    @for_all(histories())
    def holds(history: History) -> None:
        for step in history:
            live = step.after.challengers if step.after else ()
            assert len(live) == len(set(live)) <= step.max_challengers
            full[step.max_challengers] += len(live) == step.max_challengers

    holds()
    assert min(full[limit] for limit in (1, 2, 3, 4)) > 10


def test_only_a_rejection_without_a_replacement_that_succeeded_is_a_trigger() -> None:
    """Red when a promotion, replacement, rollback or split makes a trigger, or it makes none."""
    seen: Counter[str] = Counter()

    @many
    @for_all(histories())
    def holds(history: History) -> None:
        for step in history:
            asked = step.command == RejectChallenger(version=named(step), replacement=None)
            is_trigger = isinstance(step.event, ChallengerRejectedWithoutReplacement)
            assert is_trigger == (asked and step.refusal is None)
            seen["trigger" if is_trigger else "asked" if asked else "other"] += 1

    holds()
    assert min(seen["trigger"], seen["asked"]) > 30


def named(step: Step) -> Version:
    return step.command.version if isinstance(step.command, RejectChallenger) else Version("")


def test_a_new_split_moves_no_unit_that_it_need_not_move() -> None:
    """Red when a growing arm takes buckets from another challenger, or leaves its own."""
    seen: Counter[str] = Counter()

    @settings(max_examples=400)
    @for_all(histories())
    def holds(history: History) -> None:
        for step in history:
            if isinstance(step.command, CommitAllocation | RegisterChallenger) and step.event:
                assert step.after is not None
                assert_moves_are_needed(step.before, step.after, seen)

    holds()
    assert min(seen["grew"], seen["shrank"], seen["beside others"]) > 100
    assert seen["several"] > 20


def assert_moves_are_needed(
    before: Allocation | None, after: Allocation, seen: Counter[str]
) -> None:
    assert before is not None
    old = {version: before.split.get(version, 0) for version in after.challengers}
    grew = {version for version in after.challengers if after.split[version] > old[version]}
    shrank = {version for version in after.challengers if after.split[version] < old[version]}
    for (origin, target), buckets in moved(before, after).items():
        assert origin == after.current or origin in shrank
        assert target == after.current or target in grew
        if len(grew | shrank) == 1:
            assert after.current in (origin, target)
            (changed,) = grew | shrank
            assert buckets == abs(after.split[changed] - old[changed])
    seen.update({"grew": len(grew), "shrank": len(shrank), "several": len(grew | shrank) > 1})
    seen["beside others"] += len(grew | shrank) < len(after.challengers)


def test_a_growing_arm_takes_what_another_gives_back_only_when_the_control_has_too_few() -> None:
    """Red when `resize` takes from the freed buckets first."""
    state = given(start(), register("v2", 4_000), register("v3", 4_000), max_challengers=2)
    (event,) = when(state, commit({"v2": 3_000, "v3": 5_500}), max_challengers=2)
    assert moved(state, event.allocation) == {("v2", "v1"): 1_000, ("v1", "v3"): 1_500}
    (event,) = when(state, commit({"v2": 3_000, "v3": 6_500}), max_challengers=2)
    assert moved(state, event.allocation) == {
        ("v2", "v1"): 500,
        ("v2", "v3"): 500,
        ("v1", "v3"): 2_000,
    }


def test_a_ramp_of_1_5_20_50_per_cent_loses_nobody_on_the_way() -> None:
    """Red when a growing arm is given new buckets instead of more."""
    ramps: Counter[int] = Counter()

    @many
    @for_all(st.lists(st.integers(0, 1_500), max_size=3), st.integers(0, 3), st.data())
    def holds(others: list[int], place: int, data: st.DataObject) -> None:
        competing = [register(f"other-{index}", share) for index, share in enumerate(others)]
        competing.insert(min(place, len(others)), register("v2", 100))
        state = given(start(), *competing, max_challengers=4)
        leaving = data.draw(st.sampled_from([None, *(c for c in state.challengers if c != "v2")]))
        if leaving is not None:
            state = when(state, reject(leaving), 4)[0].allocation
        for share in (500, 2_000, 5_000):
            (event,) = when(state, commit({"v2": share}), 4)
            gained = share - state.split[Version("v2")]
            assert moved(state, event.allocation) == {("v1", "v2"): gained}
            state = event.allocation
        ramps[len(state.challengers)] += 1

    holds()
    assert min(ramps[1], ramps[2], ramps[3]) > 5


def test_a_share_that_shrinks_and_grows_back_gets_the_same_buckets() -> None:
    """Red when a shrinking arm gives back its lowest buckets instead of its highest.

    It holds while the control owns no bucket below the arm's highest: with one challenger always.
    """
    cases: Counter[str] = Counter()

    @many
    @for_all(histories(most_challengers=1), st.integers(0, 9_999))
    def holds(history: History, share: int) -> None:
        for event in events_of(history):
            state = event.allocation
            version, kept = state.challenger, share
            if version is None or kept >= state.split[version]:
                continue
            (shrunk,) = when(state, commit({version: kept}))
            (grown,) = when(shrunk.allocation, commit({version: state.split[version]}))
            assert grown.allocation.arms == state.arms
            cases["to nothing" if kept == 0 else "to less"] += 1

    holds()
    assert cases["to less"] > 50


def test_salt_and_hash_version_hold_for_an_episode_and_a_new_one_has_its_own() -> None:
    """Red when `_register` opens an episode for every challenger, or for none."""
    seen: Counter[str] = Counter()

    @many
    @for_all(histories())
    def holds(history: History) -> None:
        for step in history:
            if not (step.before and step.after and step.event):
                continue
            before, after = step.before, step.after
            opens = isinstance(step.command, RegisterChallenger) and not before.challengers
            if opens and isinstance(step.command, RegisterChallenger):
                assert (after.episode, after.salt) == (before.episode + 1, step.command.salt)
                assert after.salt != before.salt
                assert after.hash_version == 1
            else:
                assert pinned(after) == pinned(before)
            seen["opened" if opens else "held"] += 1

    holds()
    assert min(seen["opened"], seen["held"]) > 100


def pinned(state: Allocation) -> tuple[int, str, int]:
    return state.episode, state.salt, state.hash_version


def test_deciding_twice_gives_the_same_answer_and_changes_nothing() -> None:
    """Red when `decide` reads a clock, a source of chance or a global."""
    answers: Counter[str] = Counter()

    @many
    @for_all(histories())
    def holds(history: History) -> None:
        for step in history:
            if step.refusal is not None:
                continue
            before = deepcopy(step.before)
            number = before.generation + 1 if before else 1
            again = decide(KEY, before, step.command, envelope(number, step.max_challengers))
            assert again == step.event
            assert before == step.before
            answers["event" if again else "nothing"] += 1

    holds()
    assert answers["event"] > 300
    assert answers["nothing"] > 30


def test_the_events_fold_to_the_state() -> None:
    """Red when an event carries anything but the state that its decision left."""
    lengths: list[int] = []

    @many
    @for_all(histories())
    def holds(history: History) -> None:
        events = events_of(history)
        assert reduce(evolve, events, None) == history[-1].after
        lengths.append(len(events))

    holds()
    assert max(lengths) >= 10


def test_a_bucket_has_one_owner() -> None:
    state = given(start(), register("v2"), register("v3"), max_challengers=2)
    owners = Counter(owner(state, bucket) for bucket in range(10_000))
    assert owners == state.split
