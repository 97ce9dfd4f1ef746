"""Holding what the participants of a drill were told against the logs."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence, Set

from alloc_es.drill.account import Account, Told
from alloc_es.drill.linearity import disorder
from alloc_es.drill.verdict import BACK_WITHIN, PROMISES, Problem
from alloc_es.events import DecisionEvent, Recorded, RunSpawned
from alloc_es.identity import WorkflowKey
from alloc_es.rules import Timeline, decision_findings, run_findings
from alloc_es.wording import numbered

ACTOR = "drill"
"""Who starts the workflows of a drill, which no scheduler does."""

Decisions = Sequence[Recorded[DecisionEvent]]


def problems(
    account: Account, decisions: Decisions, runs: Sequence[Recorded[RunSpawned]], end: int
) -> Iterator[Problem]:
    """Whatever was not kept; the events are all those of the drill's tenant, in their order.

    `end` is a position of the decision log behind all of them.
    """
    yield from _of("strangers", _strangers(decisions, runs))
    timeline = Timeline()
    for finding in decision_findings(decisions, timeline):
        yield Problem(finding.rule, finding.text, str(finding))
    timeline.end = end
    for finding in run_findings(timeline, runs, _began_behind(account, decisions)):
        yield Problem(finding.rule, finding.text, str(finding))
    yield from _of("acknowledged", _unkept(account.told, decisions))
    yield from _of("refused", _recorded_though_refused(account.told, decisions))
    yield from _of("one winner", _double_winners(account.told))
    yield from _of("winner named", _wrong_winners(account.told, decisions))
    yield from _of("runs", _unkept_runs(account, runs))
    yield from _of("settled", (f"{what} is in doubt for ever" for what in account.unresolved))
    yield from _of("linearizable", disorder(account.told, decisions))
    yield from _of("asked for", _unasked(account.told, decisions))
    yield from _of("asked for", _unasked_runs(account.asked_runs, runs))
    yield from _of("let through", _out_of_service(account.told))
    for promise, problem in account.broken:
        yield from _of(promise, [problem])
    yield from _of("alive", account.deaths)
    late = (seconds for seconds in account.outages if seconds > BACK_WITHIN)
    yield from _of("back in service", (f"it took {seconds:.1f} s" for seconds in late))


def _of(promise: str, found: Iterable[str]) -> Iterator[Problem]:
    return (Problem(promise, PROMISES[promise], each) for each in found)


def _name(told: Told) -> str:
    return f"command {told.command_id} of {told.scheduler} on {told.key} (round {told.round})"


def _unkept(told: Iterable[Told], decisions: Decisions) -> Iterator[str]:
    held = {(each.event.key, each.generation): each.event for each in decisions}
    for each in told:
        if each.committed is None or each.committed.event is None:
            continue
        generation = each.committed.generation
        there = held.get((each.key, generation))
        if there is None:
            yield f"{_name(each)} was acknowledged as generation {generation}, and it is not there"
        elif there != each.committed.event:
            yield (
                f"{_name(each)} was acknowledged as generation {generation}, which is "
                f"{there.command_id}'s ({there.summary})"
            )


def _recorded_though_refused(told: Iterable[Told], decisions: Decisions) -> Iterator[str]:
    held = {(each.event.key, str(each.event.command_id)): each.generation for each in decisions}
    for each in told:
        generation = held.get((each.key, each.command_id))
        if generation and (each.conflict or each.refused):
            error = each.conflict or each.refused
            yield f"{_name(each)} made generation {generation} and was told: {error}"


def _double_winners(told: Iterable[Told]) -> Iterator[str]:
    won = Counter(
        (each.key, each.expected)
        for each in told
        if each.committed and each.committed.event is not None
    )
    for (key, expected), count in won.items():
        if count > 1:
            yield f"{count} commands on generation {expected} of {key} were let through"


def _wrong_winners(told: Iterable[Told], decisions: Decisions) -> Iterator[str]:
    held = {(each.event.key, each.generation): each.event for each in decisions}
    for each in told:
        if each.conflict is None or each.expected is None:
            continue
        there = held.get((each.key, each.expected + 1))
        if each.conflict.winner != there:
            winner = each.conflict.winner and each.conflict.winner.command_id
            yield f"{_name(each)} lost to {there and there.command_id} and was told {winner}"


def _out_of_service(told: Sequence[Told]) -> Iterator[str]:
    first = [each for each in told if each.round == 0 and each.expected is not None]
    if first and not any(each.ending == "won" for each in first):
        yield f"of {len(first)} commands of the first round none was let through"


def _strangers(decisions: Decisions, runs: Sequence[Recorded[RunSpawned]]) -> Iterator[str]:
    """Who else has written, to which workflow, and how often."""
    decided = Counter((each.event.key, each.event.actor) for each in decisions)
    spawned = Counter((each.event.key, each.event.actor) for each in runs)
    for (key, actor), times in decided.items():
        if not _is_own(actor, key):
            yield f"{actor} decided on {key}, {numbered(times, 'time')}"
    for (key, actor), times in spawned.items():
        if not _is_own(actor, key):
            yield f"{actor} spawned {numbered(times, 'run')} of {key}"


def _is_own(actor: str, key: WorkflowKey) -> bool:
    return actor == ACTOR or actor.startswith(f"{key.tenant_id}-")


def _unasked(told: Iterable[Told], decisions: Decisions) -> Iterator[str]:
    asked = {each.command_id for each in told}
    for each in decisions:
        event = each.event
        own = event.actor != ACTOR and _is_own(event.actor, event.key)
        if own and event.command_id not in asked:
            yield (
                f"{event.actor} decided on {event.key} by command {event.command_id}, of which "
                f"it was not asked (generation {each.generation})"
            )


def _unasked_runs(asked: Set[str], runs: Sequence[Recorded[RunSpawned]]) -> Iterator[str]:
    for each in runs:
        event = each.event
        if _is_own(event.actor, event.key) and event.run_id not in asked:
            yield f"{event.actor} spawned run {event.run_id} of {event.key}, which nobody asked for"


def _unkept_runs(account: Account, runs: Sequence[Recorded[RunSpawned]]) -> Iterator[str]:
    held = {each.event.originator_id: each.event for each in runs}
    for each in account.runs:
        there = held.get(each.run.originator_id)
        # Where it was verified is written by the store, after the answer was made.
        if there is None:
            yield f"run {each.run.run_id} was acknowledged, and it is not there"
        elif there != each.run.model_copy(update={"replayed": False}):
            yield f"run {each.run.run_id} was acknowledged as {each.run}, and {there} is there"


def _began_behind(account: Account, decisions: Decisions) -> dict[str, int]:
    """For each acknowledged run the position of what was acknowledged before it was asked for."""
    positions: dict[tuple[WorkflowKey, int], int] = {
        (each.event.key, each.generation): each.position for each in decisions
    }
    return {
        each.run.originator_id: positions[each.run.key, each.behind]
        for each in account.runs
        if (each.run.key, each.behind) in positions
    }
