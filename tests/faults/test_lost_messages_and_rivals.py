"""A message is lost while another writer is at work: each event stays whose it is."""

import pytest

import alloc_es
from alloc_es import (
    Allocations,
    GenerationConflict,
    NoSuchChallenger,
    OutcomeUnknown,
    StoreUnavailable,
)
from alloc_es.clock import Patience
from alloc_es.drill.proxy import RECORD_RUNS, Proxy
from tests.faults.commands import BEFORE, KEY, Act, commit, given, history, register, reject


@pytest.mark.parametrize("act", [commit, register], ids=lambda act: act.__name__)
@pytest.mark.parametrize("expecting", [False, True])
def test_a_commit_is_still_the_callers_when_another_one_followed_before_its_reply_was_lost(
    act: Act, expecting: bool, proxy: Proxy, client: Allocations, witness: Allocations
) -> None:
    """Red when `append` compares with the newest event instead of the one at its own place."""
    rival = given(witness, act)
    generation = len(BEFORE[act])
    proxy.lose("reply", meanwhile=lambda: take_next(rival))

    committed = act(client.workflow(*KEY), expected_generation=generation if expecting else None)

    assert proxy.lost.total() == 1
    assert (committed.generation, committed.replayed) == (generation + 1, False)
    ours, theirs = history(witness)[generation:]
    assert ours == committed.event
    assert (theirs.actor, theirs.generation) == ("witness", generation + 2)


def test_a_generation_that_another_one_took_is_never_claimed_and_the_command_decides_again(
    proxy: Proxy, client: Allocations, witness: Allocations
) -> None:
    """Our insert never arrived.

    Red when `_commit` takes whatever holds its place for its own.
    """
    rival = given(witness, commit)
    proxy.lose("request", meanwhile=lambda: take_next(rival))

    committed = commit(client.workflow(*KEY))

    assert proxy.lost.total() == 1
    assert (committed.generation, committed.attempts) == (4, 2)
    theirs, ours = history(witness)[2:]
    assert (theirs.actor, ours) == ("witness", committed.event)


def test_a_command_that_lost_decides_on_what_is_newest_after_its_wait(
    proxy: Proxy, proxied_url: str, witness: Allocations
) -> None:
    """A rival commits while the loser waits for its second try: no third one is needed.

    Red when `_commit` reads the newest state first and waits then: among five rivals a
    command took up to 79 attempts, and gave up.
    """
    rival = given(witness, commit)
    shares = iter(range(1, 9))

    def rival_commits(_seconds: float = 0) -> None:
        rival.commit_allocation({"v2": next(shares)})

    proxy.lose("request", meanwhile=rival_commits)
    patience = Patience(60, sleep=rival_commits)
    with alloc_es.connect(proxied_url, patience=patience) as client:
        committed = commit(client.workflow(*KEY))

    # One wait before the lost request is sent again, one before the second decision.
    assert (committed.attempts, committed.generation) == (2, 6)


def test_an_expected_generation_that_another_one_took_is_a_conflict_naming_the_winner(
    proxy: Proxy, client: Allocations, witness: Allocations
) -> None:
    """Red when `_commit` takes whatever holds its place for its own."""
    rival = given(witness, commit)
    proxy.lose("request", meanwhile=lambda: take_next(rival))

    with pytest.raises(GenerationConflict) as caught:
        commit(client.workflow(*KEY), expected_generation=2)

    assert proxy.lost.total() == 1
    theirs = history(witness)[2:]
    assert [caught.value.winner] == theirs
    assert (caught.value.expected, caught.value.actual) == (2, 3)
    assert caught.value.lost_at_commit
    assert caught.value.still_legal


def test_the_very_same_wish_of_another_writer_is_not_claimed(
    proxy: Proxy, client: Allocations, witness: Allocations
) -> None:
    """Both ask for the same split; the wish holds then, and no event of ours made it so.

    Red when `_commit` compares allocations instead of events.
    """
    rival = given(witness, commit)
    proxy.lose("request", meanwhile=lambda: commit(rival))

    committed = commit(client.workflow(*KEY))

    assert proxy.lost.total() == 1
    assert committed.event is None
    assert [event.actor for event in history(witness)[2:]] == ["witness"]


def test_a_challenger_that_another_writer_rejected_meanwhile_is_not_rejected_twice(
    proxy: Proxy, client: Allocations, witness: Allocations
) -> None:
    """One rejection, one trigger, and who came second is told.

    Red when `_commit` takes whatever holds its place for its own.
    """
    rival = given(witness, reject)
    proxy.lose("request", meanwhile=lambda: reject(rival))

    with pytest.raises(NoSuchChallenger) as caught:
        reject(client.workflow(*KEY))

    assert proxy.lost.total() == 1
    assert (caught.value.version, caught.value.live) == ("v2", ())
    assert [event.actor for event in history(witness)[2:]] == ["witness"]


def test_the_same_command_id_sent_by_two_is_done_once_when_the_first_reply_is_lost(
    proxy: Proxy, client: Allocations, witness: Allocations
) -> None:
    """The second sender finds it done while the first still waits for its answer.

    Red when `append` does not send again.
    """
    rival = given(witness, reject)
    replays = []
    proxy.lose("reply", meanwhile=lambda: replays.append(reject(rival, command_id="command-1")))

    committed = reject(client.workflow(*KEY), command_id="command-1")

    assert [replay.replayed for replay in replays] == [True]
    assert committed.replayed is False
    assert replays[0].event == committed.event
    assert history(witness)[2:] == [committed.event]


def test_a_run_id_that_another_writer_spawned_meanwhile_returns_that_run(
    proxy: Proxy, client: Allocations, witness: Allocations
) -> None:
    """Red when a known run is answered with the caller's own allotment."""
    rival = given(witness, commit)
    proxy.lose("request", of=RECORD_RUNS, meanwhile=lambda: rival.spawn_run("run-1", unit="theirs"))

    run = client.workflow(*KEY).spawn_run("run-1", unit="ours")

    assert proxy.lost.total() == 1
    assert (run.unit, run.actor, run.replayed) == ("theirs", "witness", True)
    assert len(list(witness.runs())) == 1


def test_a_server_that_refuses_from_the_start_records_nothing_and_says_so(
    proxy: Proxy, proxied_url: str, impatient: Allocations, witness: Allocations
) -> None:
    """It is certain that nothing was recorded, so it is not an unknown outcome.

    Red when `get_connection` lets the driver's errors out; for the run, also when a group is
    tried again after its caller's deadline.
    """
    given(witness, commit)
    before = history(witness)
    workflow = impatient.workflow(*KEY)
    proxy.refuse()

    for call in (lambda: commit(workflow), lambda: workflow.spawn_run("run-1", timeout=2)):
        with pytest.raises(StoreUnavailable) as caught:
            call()
        assert type(caught.value) is StoreUnavailable
        assert caught.value.retryable
    with pytest.raises(StoreUnavailable, match="refused"):
        alloc_es.connect(proxied_url, timeout=0.5)

    assert history(witness) == before
    assert list(witness.runs()) == []


def take_next(rival: alloc_es.Workflow) -> None:
    """Make the next generation, with a challenger or without."""
    if rival.allocation().challenger:
        rival.commit_allocation({"v2": 77}, command_id="rival")
    else:
        rival.register_challenger("v9", command_id="rival")


@pytest.mark.timeout(30)
def test_a_server_that_goes_silent_holds_nobody_for_ever(
    proxy: Proxy, impatient: Allocations, witness: Allocations
) -> None:
    """The connection stands and no answer comes: a black hole, as firewalls make them.

    Red without `BoundedConnection.wait` (the call, and every later one on its key, hangs), and
    when `insist` says of a read that its outcome is in doubt.
    """
    given(witness, commit)
    workflow = impatient.workflow(*KEY)
    proxy.lose("silence", of="SELECT notification_id")
    with pytest.raises(StoreUnavailable, match="no answer") as caught:
        workflow.allocation()
    assert type(caught.value) is StoreUnavailable
    proxy.lose("silence")
    with pytest.raises(OutcomeUnknown, match="no answer"):
        commit(workflow, command_id="command-1")

    assert proxy.lost.total() == 2
    settled = commit(witness.workflow(*KEY), command_id="command-1")
    assert settled.replayed
    assert history(witness)[2:] == [settled.event]
