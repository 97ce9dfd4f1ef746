"""What if: the recorded commands decided again beside a policy, and the runs routed by that."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple

from alloc_es.allocation import Allocation
from alloc_es.commands import Command, Envelope, RegisterChallenger, RollBack
from alloc_es.decider import decide
from alloc_es.errors import Refusal
from alloc_es.events import DecisionEvent, Recorded, RunSpawned
from alloc_es.identity import Actor, Version, WorkflowKey, parse_reason
from alloc_es.proposals import Hold, Proposal, Reshare, parse_proposal
from alloc_es.proposals import command_of as proposed_command
from alloc_es.routing import Router, Routing
from alloc_es.rules.redeciding import command_of as recorded_command
from alloc_es.rules.redeciding import envelope_of
from alloc_es.rules.timeline import Timeline

Ask = Callable[[Allocation], Proposal]
"""A policy that is not async; it is asked about allocations that never were."""

_WHO = Actor("replay")
_MOST_ROUTERS = 64


class Skipped(NamedTuple):
    """A command that the imagined allocation refused: what was recorded, or the policy's.

    `decision` is the recorded one, or that behind which the policy was asked; `proposal` is
    None for a recorded command.
    """

    decision: Recorded[DecisionEvent]
    proposal: Proposal | None
    refusal: Refusal


class Moved(NamedTuple):
    """A run that would have got another version, and where it would have gone."""

    run: Recorded[RunSpawned]
    routing: Routing


@dataclass(frozen=True, slots=True)
class Replay:
    """What would have become of the recorded runs of a workflow.

    `runs` were routed again; `routed` is how many of them got one version and would have got
    another, or the same, in order of both. `unplaced` runs name a generation that is not in the
    history, and were left out. `allocations` are what would have held at each recorded generation;
    `skipped` are the commands that were refused there.
    """

    key: WorkflowKey
    runs: int
    routed: Mapping[tuple[Version, Version], int]
    unplaced: int
    skipped: tuple[Skipped, ...]
    allocations: Mapping[int, Allocation]

    @property
    def moved(self) -> dict[tuple[Version, Version], int]:
        """How many runs would have gone from one version to another, most first."""
        elsewhere = {(got, would): n for (got, would), n in self.routed.items() if got != would}
        return dict(Counter(elsewhere).most_common())

    @property
    def allocation(self) -> Allocation | None:
        """What would hold at the end; None where not even the start could be decided again."""
        return next(reversed([*self.allocations.values()]), None)


def every_challenger_at(share_bps: int) -> Ask:
    """A policy that gives each live challenger this share, in basis points."""

    def ask(allocation: Allocation) -> Proposal:
        live = allocation.challengers
        return Reshare(dict.fromkeys(live, share_bps)) if live else Hold()

    return ask


def replay(
    history: Sequence[Recorded[DecisionEvent]],
    runs: Iterable[Recorded[RunSpawned]],
    ask: Ask,
    *,
    on_moved: Callable[[Moved], object] = lambda _: None,
) -> Replay:
    """Route the recorded runs of a workflow as if a policy had decided, too.

    `history` are all decisions on the workflow, oldest first. Their commands are decided
    again, and behind each the policy is asked once about the allocation that is left, and its
    proposal is decided. A command that the rules refuse there is skipped. A run is then routed
    with its own unit by what would have held in place of its generation; `runs` of other
    workflows are passed over. Nothing is recorded, and nothing kept of runs: `on_moved` is
    called with each that would have gone elsewhere, in their order.

    Raises what the policy raises, `InvalidSetting` for an answer that is no proposal, and
    `InvalidIdentifier`.
    """
    key = history[0].event.key
    imagined = Imagination(ask)
    for each in history:
        imagined.follow(each)
    router = lru_cache(_MOST_ROUTERS)(imagined.router)
    routed: Counter[tuple[Version, Version]] = Counter()
    counts: Counter[str] = Counter()
    for run in runs:
        if run.event.key != key:
            continue
        found = router(run.event.generation)
        counts["runs" if found else "unplaced"] += 1
        if found is None:
            continue
        routing = found.route(run.event.unit)
        routed[run.event.version, routing.version] += 1
        if routing.version != run.event.version:
            on_moved(Moved(run, routing))
    return Replay(
        key=key,
        runs=counts["runs"],
        routed=dict(sorted(routed.items())),
        unplaced=counts["unplaced"],
        skipped=tuple(imagined.skipped),
        allocations=imagined.allocations,
    )


class Imagination:
    """A workflow as it would stand, had a policy decided, too."""

    def __init__(self, ask: Ask) -> None:
        self.allocations: dict[int, Allocation] = {}
        """What would have held at each recorded generation."""
        self.skipped: list[Skipped] = []
        self._ask = ask
        self._state: Allocation | None = None
        self._recorded: Allocation | None = None

    def router(self, generation: int) -> Router | None:
        """What would have routed the runs of a recorded generation; None where there is none."""
        allocation = self.allocations.get(generation)
        return None if allocation is None else Router(allocation)

    def follow(self, decision: Recorded[DecisionEvent]) -> None:
        """Decide the command of the next recorded decision again, then what the policy wants."""
        event = decision.event
        envelope = envelope_of(event)
        self._decide(self._command(event), envelope, decision, None)
        self._recorded = event.allocation
        if self._state is not None:
            self._heed(parse_proposal(self._ask(self._state)), envelope, decision)
            self.allocations[decision.generation] = self._state

    def _heed(
        self, proposal: Proposal, envelope: Envelope, decision: Recorded[DecisionEvent]
    ) -> None:
        reason = parse_reason(proposal.reason)
        try:
            command = proposed_command(proposal, self._salt)
        except Refusal as refusal:
            self.skipped.append(Skipped(decision, proposal, refusal))
            return
        if command is not None:
            own = replace(envelope, actor=_WHO, reason=reason)
            self._decide(command, own, decision, proposal)

    def _decide(
        self,
        command: Command,
        envelope: Envelope,
        decision: Recorded[DecisionEvent],
        proposal: Proposal | None,
    ) -> None:
        try:
            event = decide(decision.event.key, self._state, command, envelope)
        except Refusal as refusal:
            self.skipped.append(Skipped(decision, proposal, refusal))
        else:
            self._state = event.allocation if event else self._state

    def _command(self, event: DecisionEvent) -> Command:
        """The command of a recorded decision, as its sender would have sent it here."""
        command = recorded_command(self._recorded, event, Timeline())
        match command:
            case RollBack(to_generation=int(generation)):
                then = self.allocations.get(generation)
                return replace(command, target=then.current if then else None)
            case RegisterChallenger() if not self._opens_episode(event):
                # It carries the salt of the episode that it came into. Where it would open one,
                # the units are hashed anew, as they would have been.
                return replace(command, salt=self._salt())
            case _:
                return command

    def _opens_episode(self, event: DecisionEvent) -> bool:
        return self._recorded is None or event.allocation.episode != self._recorded.episode

    def _salt(self) -> str:
        """A salt that no episode had, and the same one at each replay."""
        return f"replay-{self._state.generation if self._state else 0}"
