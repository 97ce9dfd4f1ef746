"""Errors: their facts survive every way an exception travels, their messages help."""

import copy
import pickle
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

import alloc_es
from alloc_es import errors
from alloc_es.archive_errors import (
    ArchivedMeanwhile,
    ArchiveMismatch,
    NotYetFollowed,
    RunArchived,
    RunsArchived,
)
from alloc_es.codec import digest
from alloc_es.errors import AllocationError
from alloc_es.events import DecisionEvent, Recorded, RunSpawned
from alloc_es.history_errors import NothingThen, UnknownRun
from alloc_es.identity import WorkflowKey
from alloc_es.pass_results import PassReport
from alloc_es.scheduler_errors import DecisionInsidePolicy, IncarnationSuperseded, PassStopped
from alloc_es.wording import with_article
from tests.core.given import KEY, at, register, run, start
from tests.core.test_codec import LINES, decoded


def examples() -> list[AllocationError]:
    events, state = run(start("v1"), register("v2"))
    event: DecisionEvent = events[-1]
    recorded = Recorded(5, event, digest(b""))
    (spawned, *_) = (decoded(line) for line in LINES if line["topic"] == "RunSpawned")
    assert isinstance(spawned, RunSpawned)
    live = state.challenger_arms
    refusal = errors.NoSuchChallenger(state, "v9")
    return [
        errors.InvalidIdentifier("run id", "a\0b", "it contains U+0000"),
        errors.InvalidSetting("timeout", "0 is none"),
        errors.InvalidSplit("0.05 is a float", "give basis points"),
        errors.UnknownWorkflow(KEY),
        errors.WorkflowAlreadyStarted(state),
        errors.ChallengerAlreadyLive(KEY, "v3", live),
        errors.AlreadyCurrent(KEY, state.control, live),
        refusal,
        errors.ChallengersStillLive(KEY, "v0", live),
        errors.NoEarlierVersion(KEY, 2, None),
        errors.NoEarlierVersion(KEY, 2, 7),
        errors.CommandIdReused(event),
        errors.RunIdTaken(spawned, KEY),
        errors.GenerationConflict(
            KEY,
            expected=1,
            actual=2,
            winner=event,
            refusal=refusal,
            lost_at_commit=True,
            attempts=3,
        ),
        errors.GenerationConflict(
            KEY, expected=1, actual=0, winner=None, refusal=None, lost_at_commit=False, attempts=0
        ),
        errors.StoreUnavailable("the server is gone"),
        errors.AnswerLost("the server hung up", retryable=False),
        errors.StoreNotInitialised("SQLite database x", found=0, wanted=1),
        errors.SchemaTooNew("SQLite database x", found=9, known=1),
        errors.UnreadableEvent("allocation/a/b", 3, "AllocationCommitted", "actor: missing"),
        errors.OutcomeUnknown(KEY, "no answer", command_id="c-1"),
        errors.OutcomeUnknown(KEY, "no answer", run_id="r-1"),
        IncarnationSuperseded("scheduler-a", 1, 2),
        IncarnationSuperseded("scheduler-a", 2, None),
        NothingThen(KEY, recorded, recorded, generation=7),
        NothingThen(KEY, recorded, recorded, time=at(1)),
        RunsArchived("2026-10", archived_to=20, after=3),
        RunArchived(KEY.tenant_id, "r-1", position=3, archive="2026-10"),
        NotYetFollowed("run_ledger", "live", position=3, up_to=20),
        NotYetFollowed("run_ledger", "building", position=0, up_to=20),
        ArchivedMeanwhile("somewhere", archive="2026-10", archived_to=20),
        ArchiveMismatch("somewhere", "it holds no archive"),
        UnknownRun(KEY.tenant_id, "r-1", "SQLite database x"),
        errors.UnknownWorkflow(KEY, (KEY, KEY)),
        DecisionInsidePolicy(KEY, KEY),
        PassStopped(PassReport((), 0, False), errors.StoreUnavailable("it is away")),
    ]


EXAMPLES = [
    pytest.param(error, id=f"{type(error).__name__}-{n}") for n, error in enumerate(examples())
]


def assert_same(found: BaseException, error: AllocationError) -> None:
    assert type(found) is type(error)
    assert str(found) == str(error)
    assert found.args == error.args
    assert {name: repr(value) for name, value in vars(found).items()} == {
        name: repr(value) for name, value in vars(error).items()
    }


@pytest.mark.parametrize(
    ("noun", "spoken"),
    [
        ("actor", "an actor"),
        ("int", "an int"),
        ("AllocationCommitted", "an AllocationCommitted"),
        ("unit", "a unit"),
        ("run id", "a run id"),
        ("UUID", "a UUID"),
    ],
)
def test_a_noun_has_the_article_that_it_is_spoken_with(noun: str, spoken: str) -> None:
    """Red when the article is always "a", or follows the letter and not the sound."""
    assert with_article(noun) == spoken
    assert f"can't be {spoken}: " in str(errors.InvalidIdentifier(noun, "", "it is empty"))


def test_there_is_an_example_of_every_class() -> None:
    classes = {
        kind
        for kind in vars(errors).values()
        if isinstance(kind, type) and issubclass(kind, AllocationError)
    }
    assert classes - {type(error) for error in examples()} == {AllocationError, errors.Refusal}


def test_many_unknown_workflows_are_named_up_to_ten() -> None:
    """Red when a message grows with the number of workflows."""
    keys = [WorkflowKey.parse("acme", f"w{number}") for number in range(1_200)]
    for many, words in (
        (1, "acme/w0 was never started; start it with its current version first"),
        (2, "acme/w0 and acme/w1 were never started; start each with its current version first"),
        (3, "acme/w0, acme/w1 and acme/w2 were never"),
        (1_200, "acme/w8, acme/w9 and 1,190 more were never"),
    ):
        error = errors.UnknownWorkflow(keys[0], keys[1:many])
        assert words in str(error)
        assert error.also == tuple(keys[1:many])


@pytest.mark.parametrize("error", EXAMPLES)
def test_an_error_survives_pickling_and_copying(error: AllocationError) -> None:
    """Red without `__reduce__`: the default calls the class with its message alone."""
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        assert_same(pickle.loads(pickle.dumps(error, protocol)), error)
    assert_same(copy.copy(error), error)
    assert_same(copy.deepcopy(error), error)


@pytest.mark.parametrize("error", EXAMPLES)
def test_an_error_passes_through_a_context_manager(error: AllocationError) -> None:
    """Red for an error that can't be given a traceback, like a frozen dataclass."""

    @contextmanager
    def manager() -> Iterator[None]:
        yield

    with pytest.raises(type(error)) as raised, manager():
        raise error
    assert raised.value is error
    error.add_note("seen")
    assert pickle.loads(pickle.dumps(error)).__notes__ == ["seen"]
    del error.__notes__


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (errors.UnknownWorkflow(KEY), ["acme/triage", "start"]),
        (examples()[5], ["v3", "v2", "since generation 2", "2026-03-01 12:02", "reject v2"]),
        (examples()[6], ["v1", "generation 1", "v2", "reject"]),
        (examples()[8], ["v0", "v2", "(drop): v2"]),
        (examples()[10], ["generation 7", "1 to 1"]),
        (examples()[13], ["at generation 2, not 1", "ada", "registered v2", "would be refused"]),
        (examples()[14], ["nothing was ever decided", "still be legal"]),
        (examples()[20], ["c-1", "may or may not", "same command id"]),
        (examples()[21], ["r-1", "same run id"]),
        (
            IncarnationSuperseded("scheduler-a", 1, 2),
            ["scheduler-a is at incarnation 2", "incarnation 1 may record", "stop this process"],
        ),
        (
            IncarnationSuperseded("scheduler-a", 2, 1),
            ["never gave out incarnation 2 of scheduler-a", "at 1", "new incarnation"],
        ),
    ],
)
def test_a_message_says_what_held_what_was_asked_and_what_to_do(
    error: AllocationError, words: list[str]
) -> None:
    for word in words:
        assert word in str(error)


def test_who_lost_every_attempt_is_told_so_and_not_that_a_generation_is_not_itself() -> None:
    """Red when the message compares the generation that was found with itself."""
    lost = errors.GenerationConflict(
        KEY, expected=2, actual=2, winner=None, refusal=None, lost_at_commit=True, attempts=7
    )
    assert "before each of 7 attempts; it is at generation 2" in str(lost)
    assert "not 2" not in str(lost)


def test_an_incumbent_is_named_with_its_time() -> None:
    error = examples()[5]
    assert isinstance(error, errors.ChallengerAlreadyLive)
    assert (error.incumbent, error.since_generation, error.since) == ("v2", 2, at(2))


def test_a_message_stays_short_and_printable_whatever_was_given() -> None:
    """Red when a value goes into a message as it is."""
    message = str(errors.InvalidIdentifier("run id", "\u202e\n" * 5_000, "it is odd"))
    assert len(message) < 200
    assert message.isprintable()


def test_what_users_catch_is_exported() -> None:
    hidden = {"AnswerLost"}
    for error in examples():
        assert type(error).__name__ in {*alloc_es.__all__, *hidden}
