"""Finding out what became of a request, whatever befalls the participant that was asked."""

from signal import SIGKILL

import pytest

from alloc_es import StoreUnavailable
from alloc_es.drill.account import Account
from alloc_es.drill.crew import Crew
from alloc_es.harness import (
    Done,
    NotCarriedOut,
    Outcome,
    ParticipantNotStarted,
    Pending,
    Read,
    Refused,
    Resolved,
    Unknown,
)
from alloc_es.identity import WorkflowKey
from tests.drill.fakes import Member, as_participant, crew_of

REQUEST = Read(WorkflowKey.parse("drill-1", "workflow-1"))
DONE = Done("answer")
REFUSED = Refused(StoreUnavailable("away"))
IN_DOUBT = Refused(StoreUnavailable("who knows"))
UNKNOWN = Unknown("no answer", 5)


def member(number: int, *outcomes: Outcome) -> Member:
    return Member("drill-1-ada", number, outcomes)


def settled(crew: Crew, asked: Member, pending: Pending) -> Done | Refused | None:
    return crew.settle("ada", as_participant(asked), pending)


def kill(crew: Crew, member: Member) -> None:
    crew.condemn(as_participant(member))
    member.die(-SIGKILL)


@pytest.mark.parametrize("outcome", [DONE, REFUSED])
def test_an_answer_is_taken_as_it_comes(outcome: Done | Refused) -> None:
    """Red when an answer is asked for twice, or counts as one that was in doubt."""
    account, ada = Account(), member(1, outcome)
    crew = crew_of(account, ada=[ada])
    asked, pending = crew.ask("ada", REQUEST, "one")
    assert crew.settle("ada", asked, pending) is outcome
    assert (ada.sent, account.counts["settled"]) == (["one"], 0)


def test_what_was_found_out_counts_as_settled() -> None:
    """Red when the outcome is lost with how it was found, or not counted."""
    account, ada = Account(), member(1, Resolved(DONE, "log", 3))
    crew = crew_of(account, ada=[ada])
    assert settled(crew, ada, Pending("one", REQUEST)) is DONE
    assert account.counts["settled"] == 1


def test_what_the_store_did_not_say_is_asked_again_under_the_same_id() -> None:
    """Red when doubt is left at that, or asked about under an id of its own."""
    account, ada = Account(), member(1, UNKNOWN, DONE)
    crew = crew_of(account, ada=[ada])
    pending = Pending("one", REQUEST, outcome=IN_DOUBT)
    assert settled(crew, ada, pending) is DONE
    assert (ada.sent, account.counts["settled"]) == (["one"], 1)


def test_one_that_works_on_is_waited_for() -> None:
    """Red when a slow participant is asked anew, or given up."""
    account, ada = Account(), member(1, UNKNOWN, UNKNOWN, DONE)
    crew = crew_of(account, ada=[ada])
    assert settled(crew, ada, Pending("one", REQUEST)) is DONE
    assert ada.sent == []


def test_the_dead_have_a_successor_before_the_log_is_asked_again() -> None:
    """Red when nobody supersedes who has died, so that it may seem to commit later for ever."""
    account = Account()
    never = Refused(NotCarriedOut("drill-1-ada", 1, "one"))
    ada, successor = member(1), member(2)
    crew = crew_of(account, ada=[ada, successor])
    kill(crew, ada)
    ada.outcomes = [UNKNOWN, Resolved(never, "log", 0)]
    assert settled(crew, ada, Pending("one", REQUEST)) is never
    assert crew.member("ada") is as_participant(successor)
    assert (account.counts["restarted"], account.faults["kill"]) == (1, 1)


def test_one_that_dies_while_it_is_asked_again_has_a_successor() -> None:
    """Red when its death ends the drill."""
    account, ada, successor = Account(), member(1, UNKNOWN, DONE), member(2)
    crew = crew_of(account, ada=[ada, successor])
    ada.on_send = lambda: kill(crew, ada)
    pending = Pending("one", REQUEST, outcome=IN_DOUBT)
    assert settled(crew, ada, pending) is DONE
    assert account.counts["restarted"] == 1


def test_what_nobody_can_tell_is_given_up() -> None:
    """Red when it is asked about for ever, or taken for an answer."""
    account, ada = Account(), member(1, UNKNOWN)
    looks: list[Pending] = []
    ada.on_settle = looks.append
    crew = crew_of(account, ada=[ada])
    assert settled(crew, ada, Pending("one", REQUEST)) is None
    assert (len(looks), account.counts["settled"]) == (10, 0)


def test_who_dies_before_it_is_asked_is_not_the_one_that_is() -> None:
    """Red when a request to the dead ends the drill."""
    account, ada, successor = Account(), member(1), member(2)
    crew = crew_of(account, ada=[ada, successor])
    ada.on_send = lambda: kill(crew, ada)
    asked, _ = crew.ask("ada", REQUEST, "one")
    assert asked is as_participant(successor)
    assert (ada.sent, successor.sent) == ([], ["one"])


def test_a_start_that_fails_is_tried_again() -> None:
    """Red when a store that is away for a moment ends the drill."""
    account, ada, successor = Account(), member(1), member(2)
    problems = [StoreUnavailable("away"), ParticipantNotStarted("drill-1-ada", 2, "no store")]
    crew = crew_of(account, ada=[ada, *problems, successor])
    kill(crew, ada)
    assert crew.member("ada") is as_participant(successor)
    assert (account.faults["kill"], account.counts["restarted"]) == (1, 1)


def test_a_start_that_always_fails_is_raised_and_the_death_counts_once() -> None:
    """Red when a drill whose store is gone tries for ever, or counts a death each time."""
    account, ada = Account(), member(1)
    crew = crew_of(account, ada=[ada, *[StoreUnavailable("away") for _ in range(10)]])
    kill(crew, ada)
    for _ in range(2):
        with pytest.raises(StoreUnavailable):
            crew.member("ada")
    assert (account.faults["kill"], account.counts["restarted"]) == (1, 0)


@pytest.mark.parametrize(
    ("exit_code", "ending"),
    [
        (1, "died with exit code 1"),
        (-11, "died with exit code -11"),
        (-9, "was killed by somebody else: an operator, or a system that ran out of memory"),
    ],
)
def test_whoever_ends_by_no_hand_of_the_drill_is_mourned(exit_code: int, ending: str) -> None:
    """Red when a crash, or somebody else's kill, counts as the drill's, or as nothing."""
    account, ada = Account(), member(1)
    crew = crew_of(account, ada=[ada])
    ada.die(exit_code)
    assert crew.end() is None
    assert account.deaths == [f"drill-1-ada, incarnation 1, {ending}"]
    assert account.faults["kill"] == 0


def test_in_the_end_the_last_kills_are_counted_and_the_living_are_asked() -> None:
    """Red when a kill in the last round is none, or the count of one participant is all."""
    account = Account()
    ada, bob, eve = (Member(f"drill-1-{name}", 1) for name in ("ada", "bob", "eve"))
    crew = crew_of(account, ada=[ada], bob=[bob], eve=[eve])
    kill(crew, ada)
    bob.rerouted, eve.rerouted = 3, 4
    assert crew.end() == 7
    assert account.faults["kill"] == 1
