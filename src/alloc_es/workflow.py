"""The handle on one workflow: every command and question about its allocation."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar

from alloc_es.allocation import Allocation
from alloc_es.clock import Patience
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
from alloc_es.committing import Committed, Committer, Order
from alloc_es.errors import InvalidSetting, InvalidSplit, UnknownWorkflow
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
from alloc_es.routing import Routing
from alloc_es.spawning import Spawner
from alloc_es.split import DEFAULT_CHALLENGER_SHARE_BPS, parse_share_bps
from alloc_es.store import EventLog, Recorded
from alloc_es.wording import shown

T = TypeVar("T")
V = TypeVar("V", bound=str)

# Well inside what both databases count to.
_LAST_ORDINAL = 2**62


@dataclass(frozen=True, slots=True)
class Ledger:
    """What the handles of one connection share."""

    decisions: EventLog[DecisionEvent]
    committer: Committer
    spawner: Spawner
    patience: Patience
    actor: Actor
    max_challengers: int
    clock: Callable[[], datetime]
    new_id: Callable[[], str]
    check_usable: Callable[[], None]


class Workflow:
    """One workflow of one tenant. Cheap to make, keeps nothing, safe for threads.

    Every command takes, by keyword: `expected_generation` (refused with
    `GenerationConflict` unless it is the newest; without it the command is decided again
    when another one came first), `command_id` (the same id again returns the first
    outcome and appends nothing), `reason` and `actor`. A command appends one event or
    none, *atomically*, and returns `Committed`. Besides the refusals named at each,
    every command may raise `UnknownWorkflow`, `CommandIdReused`, `GenerationConflict`,
    `InvalidIdentifier`, `StoreUnavailable` and `OutcomeUnknown`.
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
        command = Start(current=_version(current), salt=self._ledger.new_id())
        return self._send(command, expected_generation, command_id, reason, actor)

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
            version=_version(version),
            share_bps=parse_share_bps(share_bps),
            salt=self._ledger.new_id(),
        )
        return self._send(command, expected_generation, command_id, reason, actor)

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
        command = CommitAllocation(shares=_shares(shares))
        return self._send(command, expected_generation, command_id, reason, actor)

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
        command = PromoteChallenger(version=_version(version))
        return self._send(command, expected_generation, command_id, reason, actor)

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
            version=_version(version),
            replacement=None if replacement is None else _version(replacement),
        )
        return self._send(command, expected_generation, command_id, reason, actor)

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
        generation = _generation("to_generation", to_generation)
        command = RollBack(
            to_generation=generation,
            target=self._current_at(generation),
            drop=_versions(drop),
        )
        return self._send(command, expected_generation, command_id, reason, actor)

    def allocation(self) -> Allocation:
        """The newest allocation, read from the store. Raises `UnknownWorkflow`."""
        return self.newest().event.allocation

    def newest(self) -> Recorded[DecisionEvent]:
        """The newest decision, with its position. Raises `UnknownWorkflow`."""
        newest = self._read(lambda log: log.newest(self.key.stream))
        if newest is None:
            raise UnknownWorkflow(self.key)
        return newest

    def history(self) -> list[Recorded[DecisionEvent]]:
        """Every decision, oldest first, with position and generation.

        Raises `UnknownWorkflow`.
        """
        events = self._read(lambda log: log.stream(self.key.stream))
        if not events:
            raise UnknownWorkflow(self.key)
        return events

    def spawn_run(
        self, run_id: str, *, unit: str | None = None, actor: str | None = None
    ) -> RunSpawned:
        """Route a run by the newest split and record which version it got.

        `unit` is what sticks to an arm (a customer, a conversation); by default it is the
        run itself. A run id that the tenant knows returns what was recorded, with
        `replayed` set. Raises `UnknownWorkflow`, `RunIdTaken`, `InvalidIdentifier`,
        `StoreUnavailable` and `OutcomeUnknown`.
        """
        self._ledger.check_usable()
        parsed_run = RunId(parse_identifier("run id", run_id))
        parsed_unit = Unit(parse_identifier("unit", run_id if unit is None else unit))
        return self._ledger.spawner.spawn(self.key, parsed_run, parsed_unit, self._actor(actor))

    def find_run(self, run_id: str) -> RunSpawned | None:
        """What a run was allotted, or None if it was never spawned. Raises `RunIdTaken`."""
        self._ledger.check_usable()
        return self._ledger.spawner.find(self.key, RunId(parse_identifier("run id", run_id)))

    def peek(self, unit: str) -> Routing:
        """Where a unit would go now; records nothing. Raises `UnknownWorkflow`."""
        self._ledger.check_usable()
        return self._ledger.spawner.peek(self.key, Unit(parse_identifier("unit", unit)))

    def _send(
        self,
        command: Command,
        expected_generation: int | None,
        command_id: str | None,
        reason: str,
        actor: str | None,
    ) -> Committed:
        self._ledger.check_usable()
        chosen = self._ledger.new_id() if command_id is None else command_id
        envelope = Envelope(
            command_id=CommandId(parse_identifier("command id", chosen)),
            actor=self._actor(actor),
            reason=parse_reason(reason),
            at=self._ledger.clock(),
            max_challengers=self._ledger.max_challengers,
        )
        return self._ledger.committer.commit(
            Order(
                key=self.key,
                command=command,
                envelope=envelope,
                expected=_generation("expected_generation", expected_generation),
                sent_before=command_id is not None,
            )
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


def _version(value: object) -> Version:
    return Version(parse_identifier("version", value))


def _versions(value: object) -> tuple[Version, ...]:
    if isinstance(value, str):
        return (_version(value),)
    if not isinstance(value, Iterable):
        raise InvalidSetting("drop", f"{shown(value)} names no versions; give a list of them")
    return tuple(_version(version) for version in value)


def _shares(value: object) -> tuple[tuple[Version, int], ...]:
    if not isinstance(value, Mapping) or not value:
        raise InvalidSplit(
            f"{shown(value)} sets no share", "give a mapping from challengers to basis points"
        )
    return tuple((_version(version), parse_share_bps(bps)) for version, bps in value.items())


def parse_ordinal(setting: str, kind: str, value: object) -> int:
    """A generation or a position as a caller gave it, from 0 up; raises `InvalidSetting`."""
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _LAST_ORDINAL:
        raise InvalidSetting(setting, f"{shown(value)} is no {kind}; give an integer from 0 up")
    return value


def _generation(setting: str, value: object) -> int | None:
    return None if value is None else parse_ordinal(setting, "generation", value)
