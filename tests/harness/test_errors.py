"""The errors of the harness: their facts survive, their messages help."""

import copy
import pickle

import pytest

from alloc_es.cli.exits import exit_code
from alloc_es.harness import (
    AlreadyStarted,
    CannotKill,
    HarnessError,
    NotAuthorised,
    NotCarriedOut,
    ParticipantEnded,
    ParticipantFailed,
    ParticipantNotStarted,
    RequestIdReused,
    ThreadBudgetSpent,
    UnknownParticipant,
    UnreadableRequest,
)

ERRORS: list[tuple[HarnessError, int, str]] = [
    (UnknownParticipant("s9", []), 1, "no participant 's9' was started here; nobody was"),
    (UnknownParticipant("s9", ["s1", "s2"], ["s2"]), 1, "those that were are 's1', 's2' (ended)"),
    (AlreadyStarted("s1", 3), 1, "s1 runs already, as incarnation 3; restart it for another one"),
    (AlreadyStarted("s1", None), 1, "s1 is being started"),
    (NotAuthorised("o", "observer", "read for acme", "decide for acme"), 1, "o is an observer and"),
    (ThreadBudgetSpent("s1", 2, 1, {}), 1, "s1 needs 2 of 1 threads and 1 are left (nobody has"),
    (ParticipantEnded("s1", 3, "it died"), 4, "s1, incarnation 3, has ended: it died; restart it"),
    (ParticipantNotStarted("s1", 3, "no room"), 4, "incarnation 3, did not come up: no room"),
    (CannotKill("s1", "thread"), 1, "s1 runs as thread and only a process can be killed; stop it"),
    (ParticipantFailed("s1", "KeyError", "'x'"), 1, "s1 met an unexpected KeyError: 'x'"),
    (NotCarriedOut("s1", 3, "r-1"), 1, "has recorded nothing for r-1 and never will"),
    (RequestIdReused("s1", "r-1"), 1, "s1 was asked something else under the request id r-1"),
    (UnreadableRequest("s1", "it is a lambda"), 1, "s1 can't be asked this: it is a lambda; what"),
]


@pytest.mark.parametrize(("error", "code", "says"), ERRORS, ids=lambda value: str(value)[:20])
def test_an_error_keeps_its_facts_and_says_what_to_do(
    error: HarnessError, code: int, says: str
) -> None:
    """Red when a fact is lost between two processes, or a command line has no code for it."""
    for again in (pickle.loads(pickle.dumps(error)), copy.copy(error), copy.deepcopy(error)):
        assert type(again) is type(error)
        assert vars(again) == vars(error)
        assert str(again) == str(error)
    assert says in str(error)
    assert exit_code(error) == code
