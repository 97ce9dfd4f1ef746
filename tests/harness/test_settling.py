"""Two-stage deadlines: what becomes of a request that is not answered in time."""

import os
import pickle
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from alloc_es import AllocationError, OutcomeUnknown, WorkflowKey
from alloc_es.harness import (
    Done,
    NotCarriedOut,
    Outcome,
    ParticipantEnded,
    ParticipantFailed,
    Pending,
    Read,
    Refused,
    RequestIdReused,
    Resolved,
    Unknown,
)
from alloc_es.harness.protocol import Answer, Ask, Message, Probe, Reply, Standing
from tests.harness.scripted import KEY, READ, SECONDS, Scripted, answer, prompt, scripted, silent

IN_DOUBT = OutcomeUnknown(KEY, "no answer", command_id="request-1")
OTHER = WorkflowKey.parse("acme", "other")
RECORDED = Done("found in the log")
NEVER = Refused(NotCarriedOut("s1", 7, "request-1"))


def settle(made: Scripted, pending: Pending, probes: int = 1) -> Outcome:
    """Probe at once, and wait for each probe's answer as long as tests wait."""
    return made.participant.settle(pending, probe_after=0, probe_within=SECONDS, probes=probes)


def once(*reactions: Callable[[Message], list[Reply]]) -> Callable[[Message], list[Reply]]:
    """React to the first message so, to the second so, and to nothing after these."""
    left = list(reactions)
    return lambda message: left.pop(0)(message) if left else []


def working(message: Message) -> list[Reply]:
    assert isinstance(message, Probe)
    return [Standing(message.request_id, "working")]


def unheard(message: Message) -> list[Reply]:
    assert isinstance(message, Probe)
    return [Standing(message.request_id, "unheard")]


def at_last(message: Message) -> list[Reply]:
    assert isinstance(message, Probe)
    return [Standing(message.request_id, "working"), answer(Ask(message.request_id, b""))]


def test_an_answer_in_time_is_given_as_it_came() -> None:
    """Red when a participant is probed before its time, or the log is read for nothing."""
    with scripted(prompt) as made:
        assert made.participant.call(READ, request_id="r-1", probe_after=SECONDS) == Done("done")
        assert made.hears() == Ask("r-1", pickle.dumps(READ))
        assert made.said.empty()
        assert made.looked == []


def test_a_slow_participant_loses_nothing_and_is_not_asked_again() -> None:
    """Red when a request that is worked on is sent again, or given up at the first probe."""
    with scripted(once(silent, working, at_last)) as made:
        pending = made.participant.send(READ)
        outcome = made.participant.settle(pending, probe_after=0, probe_within=0.05, probes=10**6)
        assert isinstance(outcome, Resolved)
        assert (outcome.outcome, outcome.by) == (Done("done"), "participant")
        assert outcome.probes >= 2
        assert type(made.hears()) is Ask
        assert {type(made.hears()) for _ in range(outcome.probes)} == {Probe}
        assert made.looked == []


def test_a_request_that_was_never_heard_is_sent_again_under_its_id() -> None:
    """Red when a lost message is waited for, or comes again as another request."""
    with scripted(once(silent, unheard, prompt)) as made:
        outcome = settle(made, made.participant.send(READ))
        assert outcome == Resolved(Done("done"), "participant", 1)
        first, probe, again = made.hears(), made.hears(), made.hears()
        assert first == again == Ask("request-1", pickle.dumps(READ))
        assert probe == Probe("request-1")


def test_in_a_black_hole_the_outcome_is_unknown_after_bounded_probes() -> None:
    """Red when nobody answers and it is asked without end, or called a failure."""
    with scripted(silent) as made:
        pending = made.participant.send(READ)
        outcome = made.participant.settle(pending, probe_after=0, probe_within=0, probes=3)
        assert outcome == Unknown("s1 did not answer in time", 3)
        assert [type(made.hears()) for _ in range(4)] == [Ask, Probe, Probe, Probe]
        assert made.looked == ["request-1"]


def test_what_a_silent_participant_recorded_is_found_in_the_log() -> None:
    """Red when a request counts as unknown before the log was asked."""
    with scripted(silent, found=RECORDED) as made:
        pending = made.participant.send(READ)
        outcome = made.participant.settle(pending, probe_after=0, probe_within=0, probes=2)
        assert outcome == Resolved(RECORDED, "log", 2)


def test_an_unknown_outcome_says_whether_it_is_still_worked_on() -> None:
    """Red when a caller can't tell a busy participant from one that is gone."""
    with scripted(once(silent, working)) as made:
        pending = made.participant.send(READ)
        with ThreadPoolExecutor(1) as pool:
            settling = pool.submit(settle, made, pending)
            assert pending.heard.wait(SECONDS)
            # As if its time were over.
            pending.settled.set()
            assert settling.result() == Unknown("s1 did not answer in time", 1, working=True)
        assert made.participant.health(0).under_way == 1


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (RECORDED, Resolved(RECORDED, "log", 0)),
        (NEVER, Resolved(NEVER, "log", 0)),
        (None, Unknown("s1 has ended before it answered: it died with exit code -9", 0)),
    ],
)
def test_when_a_participant_dies_the_log_is_asked_at_once(
    found: Done | Refused | None, expected: Outcome
) -> None:
    """Red when the probes of a dead participant are waited for."""
    with scripted(silent, found=found) as made:
        pending = made.participant.send(READ)
        made.hears()
        made.dies()
        assert made.participant.settle(pending, probe_after=3_600) == expected
        with pytest.raises(ParticipantEnded) as refused:
            made.participant.send(READ)
        assert refused.value.reason == "it died with exit code -9"
        assert (refused.value.name, refused.value.incarnation) == ("s1", 7)


@pytest.mark.parametrize("error", [IN_DOUBT, ParticipantFailed("s1", "KeyError", "'x'")])
@pytest.mark.parametrize("found", [RECORDED, None])
def test_an_answer_in_doubt_is_no_refusal(
    error: AllocationError, found: Done | Refused | None
) -> None:
    """Red when what the store did not settle is told as refused."""

    def doubtful(message: Message) -> list[Reply]:
        assert isinstance(message, Ask)
        return [Answer(message.request_id, pickle.dumps(Refused(error)), in_doubt=True)]

    with scripted(doubtful, found=found) as made:
        outcome = made.participant.call(READ, probe_after=SECONDS)
        if found:
            assert outcome == Resolved(RECORDED, "log", 0)
        else:
            assert isinstance(outcome, Unknown)
            assert str(outcome.error) == outcome.problem == str(error)
            assert not outcome.working


def test_an_answer_that_cannot_be_read_leaves_the_participant_usable() -> None:
    """Red when the thread that listens ends with it, and every later call waits in vain."""
    with scripted(once(lambda m: [Answer(m.request_id, b"no pickle", False)], prompt)) as made:  # type: ignore[union-attr]
        outcome = made.participant.call(READ, probe_after=SECONDS)
        assert isinstance(outcome, Unknown)
        assert isinstance(outcome.error, ParticipantFailed)
        assert "its answer can't be read" in outcome.error.message
        assert made.participant.call(READ, probe_after=SECONDS) == Done("done")


@pytest.mark.parametrize("garbage", [b"no pickle", b"cbuiltins\nexit\n(tR."])
def test_a_participant_that_can_not_be_understood_is_ended(garbage: bytes) -> None:
    """Red when the thread that listens dies of it, and nobody hears that nothing will come."""
    with scripted(silent) as made:
        pending = made.participant.send(READ)
        made.body.over.set()
        made.far_end.send_bytes(garbage)
        assert pending.settled.wait(SECONDS)
        assert isinstance(made.participant.settle(pending), Unknown)
        assert made.participant.ended is not None


def test_a_request_id_stands_for_one_request() -> None:
    """Red when another request is given the answer of the first one."""
    with scripted(prompt) as made:
        first = made.participant.call(READ, request_id="r-1", probe_after=SECONDS)
        assert first == Done("done")
        with pytest.raises(RequestIdReused) as refused:
            made.participant.send(Read(OTHER), request_id="r-1")
        assert (refused.value.name, refused.value.request_id) == ("s1", "r-1")
        assert made.participant.call(Read(KEY), request_id="r-1", probe_after=SECONDS) == first
        assert made.hears() == made.hears() == Ask("r-1", pickle.dumps(READ))
        assert made.said.empty()


def test_a_request_that_is_under_way_is_known_by_its_id() -> None:
    """Red when asking again makes a second request, of which one answer is lost."""
    with scripted(once(silent, prompt)) as made:
        first = made.participant.send(READ, request_id="r-1")
        assert made.participant.send(READ, request_id="r-1") is first
        assert made.participant.settle(first, probe_after=SECONDS) == Done("done")


def test_many_threads_may_ask_one_participant() -> None:
    """Red when an answer goes to another request than its own, or one is lost."""

    def echo(message: Message) -> list[Reply]:
        return [answer(message, message.request_id)] if isinstance(message, Ask) else []

    with scripted(echo) as made, ThreadPoolExecutor(8) as pool:

        def ask(number: int) -> Outcome:
            return made.participant.call(READ, request_id=f"r-{number}", probe_after=SECONDS)

        assert list(pool.map(ask, range(400))) == [Done(f"r-{number}") for number in range(400)]
        assert made.participant.health(0).under_way == 0


def test_the_end_is_seen_though_a_child_of_the_participant_holds_its_pipe() -> None:
    """Red when only the end of the pipe tells, which what a policy has forked keeps open."""
    with scripted(silent, found=None) as made:
        pending = made.participant.send(READ)
        made.body.exit_code = 1
        made.body.over.set()
        outcome = made.participant.settle(pending, probe_after=SECONDS)
        assert outcome == Unknown("s1 has ended before it answered: it died with exit code 1", 0)
        assert made.participant.health(0).state == "ended"


def test_a_death_over_half_an_answer_is_the_end_though_a_child_holds_the_pipe(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Red when the thread that listens waits for the other half for ever."""
    monkeypatch.setattr("alloc_es.harness.line._GRACE", 0.01)
    with scripted(silent, found=None) as made:
        pending = made.participant.send(READ)
        half = (1_000).to_bytes(4, "big") + b"half of an answer"
        os.write(made.far_end.fileno(), half)
        made.body.exit_code = -9
        made.body.over.set()
        assert pending.settled.wait(SECONDS)
        assert made.participant.ended == "it died with exit code -9"
