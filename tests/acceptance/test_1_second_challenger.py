"""1. A then B while A is live: refused, naming A."""

import pytest

from alloc_es import ChallengerAlreadyLive, connect


def test_a_second_challenger_is_refused_naming_the_incumbent(store_url: str) -> None:
    """Red when `_register` compares the number of live challengers with `>`."""
    with connect(store_url) as allocations:
        workflow = allocations.workflow("acme", "triage")
        workflow.start("v1")
        registered = workflow.register_challenger("a")
        with pytest.raises(ChallengerAlreadyLive) as refused:
            workflow.register_challenger("b")
        history = [each.event for each in workflow.history()]
    incumbent = registered.allocation.challenger_arms[0]
    assert (refused.value.asked, refused.value.incumbent) == ("b", "a")
    assert (refused.value.since_generation, refused.value.since) == (2, incumbent.since)
    assert refused.value.incumbents == (incumbent,)
    assert "a (since generation 2" in str(refused.value)
    assert history[1:] == [registered.event]


def test_a_challenger_behind_a_tournaments_last_slot_is_refused_naming_all(
    store_url: str,
) -> None:
    """Red when `connect` does not hand `max_challengers` to the commands."""
    with connect(store_url, max_challengers=3) as allocations:
        workflow = allocations.workflow("acme", "triage")
        workflow.start("v1")
        for version in "abc":
            workflow.register_challenger(version)
        with pytest.raises(ChallengerAlreadyLive) as refused:
            workflow.register_challenger("d")
        assert workflow.allocation().generation == 4
    assert [arm.version for arm in refused.value.incumbents] == ["a", "b", "c"]
    assert all(f"{version} (since" in str(refused.value) for version in "abc")
