"""The handle on one workflow: every command and question about its allocation."""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import TypeVar

from alloc_es import timetravel
from alloc_es.allocation import Allocation
from alloc_es.arguments import (
    parse_generation,
    parse_shares,
    parse_timeout,
    parse_version,
    parse_versions,
)
from alloc_es.commands import (
    Command,
    CommitAllocation,
    Envelope,
    PromoteChallenger,
    RegisterChallenger,
    RejectChallenger,
    RollBack,
    Start,
)
from alloc_es.committing import Committed, Order
from alloc_es.decider import decide
from alloc_es.errors import UnknownWorkflow
from alloc_es.events import DecisionEvent, RunSpawned
from alloc_es.identity import (
    Actor,
    CommandId,
    RunId,
    Unit,
    Version,
    WorkflowKey,
    parse_identifier,
    parse_reason,
)
from alloc_es.ledger import Ledger
from alloc_es.routing import Routing
from alloc_es.split import DEFAULT_CHALLENGER_SHARE_BPS, parse_share_bps
from alloc_es.store import EventLog, Recorded

T = TypeVar("T")
V = TypeVar("V", bound=str)


class Workflow:
    """One workflow of one tenant. Cheap to make, keeps nothing, safe for threads.

    Every command takes, by keyword: `expected_generation` (refused with
    `GenerationConflict` unless it is the newest; without it the command is decided again
    when another one came first), `command_id` (the same id again returns the first
    outcome and appends nothing), `reason` and `actor`. A command appends one event or
    none, *atomically*, and returns `Committed`. Besides the refusals named at each,
    every command may raise `UnknownWorkflow`, `CommandIdReused`, `GenerationConflict`,
    `InvalidIdentifier`, `IncarnationSuperseded`, `StoreUnavailable` and `OutcomeUnknown`.
    """

    def __init__(self, ledger: Ledger, key: WorkflowKey) -> None:
        self._ledger = ledger
        self.key = key

    def __repr__(self) -> str:
        return f"<Workflow {self.key}>"

    def start(
        self,
        current: str,
        *,
        expected_generation: int | None = None,
        command_id: str | None = None,
        reason: str = "",
        actor: str | None = None,
    ) -> Committed:
        """Give the workflow its first current version, which gets all the traffic.

        Raises `WorkflowAlreadyStarted`.
        """
        command = Start(current=parse_version(current), salt=self._ledger.new_id())
        return self.send(command, expected_generation, command_id, reason, actor)

    def register_challenger(
        self,
        version: str,
        share_bps: int = DEFAULT_CHALLENGER_SHARE_BPS,
        *,
        expected_generation: int | None = None,
        command_id: str | None = None,
        reason: str = "",
        actor: str | None = None,
    ) -> Committed:
        """Let a version compete for `share_bps` basis points of the traffic.

        Raises `ChallengerAlreadyLive`, which names the incumbent, while no slot is free;
        `AlreadyCurrent` for the current version; `InvalidSplit`.
        """
        command = RegisterChallenger(
            version=parse_version(version),
            share_bps=parse_share_bps(share_bps),
            salt=self._ledger.new_id(),
        )
        return self.send(command, expected_generation, command_id, reason, actor)

    def commit_allocation(
        self,
        shares: Mapping[V, int],
        *,
        expected_generation: int | None = None,
        command_id: str | None = None,
        reason: str = "",
        actor: str | None = None,
    ) -> Committed:
        """Set the shares, in basis points, of live challengers; the control gets the rest.

        Challengers that are not named keep theirs. A share of 0 keeps the slot and routes
        nothing to it. Raises `NoSuchChallenger` and `InvalidSplit`.
        """
        command = CommitAllocation(shares=parse_shares(shares))
        return self.send(command, expected_generation, command_id, reason, actor)

    def promote_challenger(
        self,
        version: str,
        *,
        expected_generation: int | None = None,
        command_id: str | None = None,
        reason: str = "",
        actor: str | None = None,
    ) -> Committed:
        """Make a live challenger the current version; other challengers keep their slots.

        Raises `NoSuchChallenger`.
        """
        command = PromoteChallenger(version=parse_version(version))
        return self.send(command, expected_generation, command_id, reason, actor)

    def reject_challenger(
        self,
        version: str,
        *,
        replacement: str | None = None,
        expected_generation: int | None = None,
        command_id: str | None = None,
        reason: str = "",
        actor: str | None = None,
    ) -> Committed:
        """Take a live challenger out; a replacement gets its slot in the same event.

        Without one the event is `ChallengerRejectedWithoutReplacement`, the trigger to
        generate another version. Raises `NoSuchChallenger`, and for the replacement
        `AlreadyCurrent` and `ChallengerAlreadyLive`.
        """
        command = RejectChallenger(
            version=parse_version(version),
            replacement=None if replacement is None else parse_version(replacement),
        )
        return self.send(command, expected_generation, command_id, reason, actor)

    def roll_back(
        self,
        *,
        to_generation: int | None = None,
        drop: Iterable[str] = (),
        expected_generation: int | None = None,
        command_id: str | None = None,
        reason: str = "",
        actor: str | None = None,
    ) -> Committed:
        """Make the previous current version, or the one of a generation, current again.

        Every live challenger must be named in `drop`; dropping them is no rejection and
        fires no trigger. Raises `ChallengersStillLive`, `AlreadyCurrent`,
        `NoEarlierVersion` and `NoSuchChallenger`.
        """
        generation = parse_generation("to_generation", to_generation)
        target, dropped = self._current_at(generation), parse_versions(drop)
        command = RollBack(to_generation=generation, target=target, drop=dropped)
        return self.send(command, expected_generation, command_id, reason, actor)

    def allocation(self) -> Allocation:
        """The newest allocation, read from the store. Raises `UnknownWorkflow`."""
        return self.newest().event.allocation

    def newest(self) -> Recorded[DecisionEvent]:
        """The newest decision, with its position. Raises `UnknownWorkflow`."""
        read_at = self._ledger.patience.monotonic()
        newest = self._read(lambda log: log.newest(self.key.stream))
        if newest is None:
            raise UnknownWorkflow(self.key)
        self._ledger.spawner.learn(newest, read_at)
        return newest

    def history(self) -> list[Recorded[DecisionEvent]]:
        """Every decision, oldest first, with position and generation.

        Raises `UnknownWorkflow`.
        """
        events = self._read(lambda log: log.stream(self.key.stream))
        if not events:
            raise UnknownWorkflow(self.key)
        return events

    def at(
        self,
        *,
        generation: int | None = None,
        position: int | None = None,
        time: datetime | None = None,
    ) -> Recorded[DecisionEvent]:
        """The decision that held at a generation, a position or a time; give exactly one.

        Raises `NothingThen` and `UnknownWorkflow`. `alloc_es.timetravel` says when one counts.
        """
        return timetravel.at(self.history(), generation=generation, position=position, time=time)

    def spawn_run(
        self,
        run_id: str,
        *,
        unit: str | None = None,
        actor: str | None = None,
        timeout: float | None = None,
    ) -> RunSpawned:
        """Route a run and record which version it got; the answer comes after the commit.

        The generation on the answer was the newest when the run was recorded: a run that
        a decision overtakes is routed again before it is recorded, and none is recorded
        under an earlier generation once a decision's call has returned, in any process.

        `unit` is what sticks to an arm (a customer, a conversation); by default it is the
        run itself. A run id that the tenant knows returns what was recorded, with
        `replayed` set. Runs that are spawned at the same time are recorded in one
        transaction. The call gives up after `timeout` seconds (the connection's, if not
        given), or up to a second later for a transaction that is under way.

        Raises `UnknownWorkflow`, `RunIdTaken`, `InvalidIdentifier`, `StoreUnavailable`
        or `IncarnationSuperseded` when the run was not recorded, and `OutcomeUnknown` when
        that can't be told.
        """
        return self._ledger.spawner.spawn(*self._asked(run_id, unit, actor, timeout))

    async def aspawn_run(
        self,
        run_id: str,
        *,
        unit: str | None = None,
        actor: str | None = None,
        timeout: float | None = None,
    ) -> RunSpawned:
        """`spawn_run` for tasks of an event loop, which is never blocked.

        A task that is cancelled leaves its run unrecorded or recorded; ask again to settle
        it.
        """
        return await self._ledger.spawner.aspawn(*self._asked(run_id, unit, actor, timeout))

    def find_decision(self, command_id: str) -> Recorded[DecisionEvent] | None:
        """What a command id has decided here, or None if nothing is recorded under it."""
        chosen = CommandId(parse_identifier("command id", command_id))
        return self._read(lambda log: log.command(self.key.stream, chosen))

    def find_run(self, run_id: str) -> RunSpawned | None:
        """What a run was allotted, or None if it was never spawned. Raises `RunIdTaken`."""
        self._ledger.check_usable()
        return self._ledger.spawner.find(self.key, RunId(parse_identifier("run id", run_id)))

    def peek(self, unit: str) -> Routing:
        """Where a unit would go; records nothing. Raises `UnknownWorkflow`.

        No I/O while the allocation is in memory, where it stays for a second after it was
        last known to be the newest: so the answer may be a second behind other processes,
        and is never behind what this connection decided, read or recorded itself.
        """
        self._ledger.check_usable()
        return self._ledger.spawner.peek(self.key, Unit(parse_identifier("unit", unit)))

    def send(
        self,
        command: Command,
        expected_generation: int | None = None,
        command_id: str | None = None,
        reason: str = "",
        actor: str | None = None,
    ) -> Committed:
        """Carry out a command of `alloc_es.commands`, as the methods above do with theirs.

        What is in the command is trusted. Raises what the method of its name raises.
        """
        self._ledger.check_usable()
        # Here too, so that an old incarnation hears of it where no event would come of its command.
        self._ledger.check_incarnation()
        return self._ledger.committer.commit(
            Order(
                key=self.key,
                command=command,
                envelope=self._envelope(command_id, reason, actor),
                expected=parse_generation("expected_generation", expected_generation),
                sent_before=command_id is not None,
            )
        )

    def preview(
        self, command: Command, state: Allocation, *, reason: str = "", actor: str | None = None
    ) -> DecisionEvent | None:
        """The event that `send` would append to a state, None where the wish already holds.

        No I/O: nothing is read, and nothing recorded, so `previous_digest` is None. Raises the
        refusals of the rules.
        """
        return decide(self.key, state, command, self._envelope(None, reason, actor))

    def _envelope(self, command_id: str | None, reason: str, actor: str | None) -> Envelope:
        chosen = self._ledger.new_id() if command_id is None else command_id
        return Envelope(
            command_id=CommandId(parse_identifier("command id", chosen)),
            actor=self._actor(actor),
            reason=parse_reason(reason),
            at=self._ledger.clock(),
            max_challengers=self._ledger.max_challengers,
        )

    def _asked(
        self, run_id: object, unit: object, actor: str | None, timeout: float | None
    ) -> tuple[WorkflowKey, RunId, Unit, Actor, float | None]:
        """What a run is spawned with, as the caller gave it."""
        self._ledger.check_usable()
        return (
            self.key,
            RunId(parse_identifier("run id", run_id)),
            Unit(parse_identifier("unit", run_id if unit is None else unit)),
            self._actor(actor),
            None if timeout is None else parse_timeout(timeout),
        )

    def _current_at(self, generation: int | None) -> Version | None:
        """The version that was current at a generation, None where there is none."""
        if generation is None:
            return None
        then = self._read(lambda log: log.at(self.key.stream, generation))
        return then.event.allocation.current if then else None

    def _read(self, read: Callable[[EventLog[DecisionEvent]], T]) -> T:
        self._ledger.check_usable()
        return self._ledger.patience.insist(lambda: read(self._ledger.decisions))

    def _actor(self, actor: str | None) -> Actor:
        return self._ledger.actor if actor is None else Actor(parse_identifier("actor", actor))
