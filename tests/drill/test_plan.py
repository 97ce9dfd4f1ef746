"""Which faults a seed plans, and when."""

from hypothesis import given
from hypothesis import strategies as st

from alloc_es.drill.plan import CLOCK_STEP, KINDS, Fault, FaultKind, plan_faults

COUNTS: dict[FaultKind, int] = dict.fromkeys(KINDS, 7)


def flat(plan: dict[int, list[Fault]]) -> list[tuple[int, Fault]]:
    return [(number, fault) for number in sorted(plan) for fault in plan[number]]


@given(
    st.integers(),
    st.integers(2, 1_000),
    st.dictionaries(st.sampled_from(KINDS), st.integers(0, 60)),
)
def test_a_plan_has_as_many_of_each_as_were_asked_for_and_none_in_the_first_round(
    seed: int, rounds: int, counts: dict[FaultKind, int]
) -> None:
    """Red when a fault is dropped, doubled, put in the first round or behind the last one."""
    planned = flat(plan_faults(seed, rounds, counts))
    for kind in KINDS:
        assert sum(fault.kind == kind for _, fault in planned) == counts.get(kind, 0)
    assert all(1 <= number < rounds for number, _ in planned)


@given(st.integers(), st.integers(2, 1_000), st.integers(1, 60))
def test_faults_of_a_kind_are_spread_over_the_rounds(seed: int, rounds: int, count: int) -> None:
    """Red when they are drawn from all rounds at once, or lie at the beginning of their parts."""
    numbers = [number for number, _ in flat(plan_faults(seed, rounds, {"cut": count}))]
    part = (rounds - 1) / count
    for place, number in enumerate(numbers):
        assert place * part <= number <= (place + 1) * part + 1


def test_the_same_seed_plans_the_same_faults_and_another_one_others() -> None:
    """Red when anything but the seed decides, or the seed does not."""
    plan = plan_faults(7, 100, COUNTS)
    assert plan_faults(7, 100, COUNTS) == plan
    assert plan_faults(8, 100, COUNTS) != plan


def test_kills_come_at_every_moment_and_clocks_step_both_ways() -> None:
    """Red when a moment is never drawn, or a clock is stepped by nothing."""
    planned = [fault for _, fault in flat(plan_faults(1, 1_000, {"kill": 200, "clock step": 50}))]
    kills = {fault.moment for fault in planned if fault.kind == "kill"}
    assert kills == {None, "before commit", "after commit", "before answer"}
    steps = {fault.clock for fault in planned if fault.kind == "clock step"}
    assert steps == {-CLOCK_STEP, CLOCK_STEP}
