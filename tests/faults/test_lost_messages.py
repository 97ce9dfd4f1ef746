"""A request or a reply is lost on the way: the caller learns what became of the command."""

import pytest

from alloc_es import Allocations, Committed, OutcomeUnknown
from alloc_es.drill.link import Loss
from alloc_es.drill.proxy import RECORD_RUNS, Proxy
from tests.faults.commands import BEFORE, KEY, Act, commit, given, history, register, reject

every_command = pytest.mark.parametrize("act", BEFORE, ids=lambda act: act.__name__)
every_loss = pytest.mark.parametrize("loss", ["reply", "request"])


@every_loss
@every_command
def test_a_command_whose_message_was_lost_is_done_once_and_is_the_callers_own(
    act: Act, loss: Loss, proxy: Proxy, client: Allocations, witness: Allocations
) -> None:
    """Red when `append` does not send again, or `_commit` takes its own event for another's."""
    given(witness, act)
    before = history(witness)
    proxy.lose(loss)

    committed = act(client.workflow(*KEY))

    after = history(witness)
    assert proxy.lost.total() == 1
    assert after == [*before, committed.event]
    assert committed == Committed(
        generation=len(after),
        allocation=after[-1].allocation,
        event=after[-1],
        attempts=1,
        replayed=False,
    )


def test_a_reply_that_is_lost_again_and_again_changes_nothing(
    proxy: Proxy, client: Allocations, witness: Allocations
) -> None:
    """The second and third answers that are lost say that the place is taken.

    Red when `append` sends a lost insert again only once.
    """
    given(witness, commit)
    proxy.lose("reply", times=3)

    committed = commit(client.workflow(*KEY))

    assert proxy.lost.total() == 3
    assert (committed.replayed, committed.attempts) == (False, 1)
    assert history(witness)[2:] == [committed.event]


def test_a_reply_to_a_prepared_statement_is_recognised_as_well(
    proxy: Proxy, client: Allocations, witness: Allocations
) -> None:
    """psycopg prepares a statement on its sixth use, and the proxy must see through that.

    Red when `append` does not send again.
    """
    given(witness, commit)
    workflow = client.workflow(*KEY)
    for share in range(1, 11):
        workflow.commit_allocation({"v2": share})
    proxy.lose("reply")

    committed = commit(workflow)

    assert proxy.lost.total() == 1
    assert history(witness)[12:] == [committed.event]


@every_loss
def test_a_run_whose_message_was_lost_is_recorded_once_and_returned(
    loss: Loss, proxy: Proxy, client: Allocations, witness: Allocations
) -> None:
    """Red when a group whose answer was lost is not sent again, or finds a replay of itself."""
    given(witness, commit)
    proxy.lose(loss, of=RECORD_RUNS)

    run = client.workflow(*KEY).spawn_run("run-1", unit="customer-17")

    assert proxy.lost.total() == 1
    assert run.replayed is False
    assert [recorded.event for recorded in witness.runs()] == [run]


@every_loss
@pytest.mark.parametrize("act", [commit, register, reject], ids=lambda act: act.__name__)
def test_an_unknown_outcome_is_settled_by_the_same_command_id(
    act: Act, loss: Loss, proxy: Proxy, impatient: Allocations, witness: Allocations
) -> None:
    """It had been recorded when the reply was lost, and had not when the request was.

    Red when `append` raises `StoreUnavailable` for what is in doubt, or when `_commit`
    does not look for an earlier outcome of the id.
    """
    given(witness, act)
    before = history(witness)
    workflow = impatient.workflow(*KEY)
    proxy.lose(loss, meanwhile=proxy.refuse)

    with pytest.raises(OutcomeUnknown) as caught:
        act(workflow, command_id="command-1")

    recorded = history(witness)[len(before) :]
    assert (proxy.lost.total(), len(recorded)) == (1, 1 if loss == "reply" else 0)
    assert (caught.value.key, caught.value.command_id) == (workflow.key, "command-1")
    assert caught.value.run_id is None
    settled = act(witness.workflow(*KEY), command_id="command-1", actor="client")
    assert settled.replayed is (loss == "reply")
    assert history(witness) == [*before, settled.event]


@every_loss
def test_an_unknown_run_is_settled_by_the_same_run_id(
    loss: Loss, proxy: Proxy, impatient: Allocations, witness: Allocations
) -> None:
    """Red when a caller is told `StoreUnavailable` about what is in doubt."""
    given(witness, commit)
    workflow = impatient.workflow(*KEY)
    proxy.lose(loss, of=RECORD_RUNS, meanwhile=proxy.refuse)

    with pytest.raises(OutcomeUnknown) as caught:
        workflow.spawn_run("run-1")

    recorded = list(witness.runs())
    assert (proxy.lost.total(), len(recorded)) == (1, 1 if loss == "reply" else 0)
    assert (caught.value.key, caught.value.run_id) == (workflow.key, "run-1")
    assert caught.value.command_id is None
    settled = witness.workflow(*KEY).spawn_run("run-1")
    assert settled.replayed is (loss == "reply")
    assert len(list(witness.runs())) == 1
