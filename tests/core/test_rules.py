"""The rules told a second time, and every command held against them."""

from collections import Counter

from hypothesis import given as for_all
from hypothesis import settings

from alloc_es.allocation import Allocation
from alloc_es.commands import (
    Command,
    CommitAllocation,
    PromoteChallenger,
    RegisterChallenger,
    RejectChallenger,
    RollBack,
    Start,
)
from tests.core.histories import History, describe_outcome, histories, kind

POSSIBLE = {
    *(f"Start: {outcome}" for outcome in ("start", "WorkflowAlreadyStarted")),
    "RegisterChallenger: ChallengerRegistered",
    "RegisterChallenger: ChallengerAlreadyLive",
    *(f"CommitAllocation: {outcome}" for outcome in ("split", "nothing")),
    "PromoteChallenger: promotion",
    "RejectChallenger: ChallengerRejectedWithoutReplacement",
    *(f"replace: {outcome}" for outcome in ("replacement", "ChallengerAlreadyLive")),
    *(f"RollBack: {outcome}" for outcome in ("rollback", "ChallengersStillLive")),
    "RollBack: NoEarlierVersion",
    *(f"{name}: AlreadyCurrent" for name in ("RegisterChallenger", "replace", "RollBack")),
    *(f"{name}: InvalidSplit" for name in ("RegisterChallenger", "CommitAllocation")),
    *(
        f"{name}: NoSuchChallenger"
        for name in (
            "CommitAllocation",
            "PromoteChallenger",
            "RejectChallenger",
            "replace",
            "RollBack",
        )
    ),
    *(
        f"{name}: UnknownWorkflow"
        for name in (
            "RegisterChallenger",
            "CommitAllocation",
            "PromoteChallenger",
            "RejectChallenger",
            "replace",
            "RollBack",
        )
    ),
}


def test_every_command_acts_where_it_must_and_only_there() -> None:
    """Red when any rule of the decider is dropped, added or put in another order."""
    outcomes: Counter[str] = Counter()

    @settings(max_examples=400)
    @for_all(histories())
    def holds(history: History) -> None:
        for step in history:
            assert describe_outcome(step) == must(step.before, step.command, step.max_challengers)
            outcomes[f"{kind(step.command)}: {describe_outcome(step)}"] += 1

    holds()
    assert set(outcomes) == POSSIBLE
    assert min(outcomes.values()) >= 3


def must(state: Allocation | None, command: Command, max_challengers: int) -> str:
    """The rules once more, in the fewest words: what must become of a command."""
    if isinstance(command, Start):
        return "WorkflowAlreadyStarted" if state else "start"
    if state is None:
        return "UnknownWorkflow"
    live = state.challengers
    match command:
        case RegisterChallenger(version=version, share_bps=share):
            if version == state.current:
                return "AlreadyCurrent"
            if version in live or len(live) >= max_challengers:
                return "ChallengerAlreadyLive"
            return "ChallengerRegistered" if share < state.split[state.current] else "InvalidSplit"
        case CommitAllocation(shares=shares):
            return must_commit(state, dict(shares))
        case PromoteChallenger(version=version):
            return "promotion" if version in live else "NoSuchChallenger"
        case RejectChallenger(version=version, replacement=replacement):
            if version not in live:
                return "NoSuchChallenger"
            if replacement is None:
                return "ChallengerRejectedWithoutReplacement"
            if replacement == state.current:
                return "AlreadyCurrent"
            return "ChallengerAlreadyLive" if replacement in live else "replacement"
        case RollBack():
            return must_roll_back(state, command)


def must_commit(state: Allocation, shares: dict[str, int]) -> str:
    if state.current in shares:
        return "InvalidSplit"
    if not shares.keys() <= set(state.challengers):
        return "NoSuchChallenger"
    split = {version: state.split[version] for version in state.challengers} | shares
    if sum(split.values()) > 9_999:
        return "InvalidSplit"
    return "nothing" if shares.items() <= state.split.items() else "split"


def must_roll_back(state: Allocation, command: RollBack) -> str:
    target = command.target if command.to_generation else state.previous_current
    if target is None:
        return "NoEarlierVersion"
    if target == state.current:
        return "AlreadyCurrent"
    if not set(command.drop) <= set(state.challengers):
        return "NoSuchChallenger"
    return "rollback" if set(command.drop) == set(state.challengers) else "ChallengersStillLive"
