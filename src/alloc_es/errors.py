"""What can go wrong, as one tree: every error carries its facts as fields and survives pickling."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from alloc_es.wording import listed, name_arms, shown, with_article

if TYPE_CHECKING:
    from alloc_es.allocation import Allocation, Arm
    from alloc_es.events import DecisionEvent, RunSpawned
    from alloc_es.identity import WorkflowKey


class AllocationError(Exception):
    """Whatever alloc-es refuses or fails at.

    The message says what held, what was asked and what to do next; the facts in it are
    also fields.
    """

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, (type(self), self.args, self.__dict__)


def _restore(
    kind: type[AllocationError], args: tuple[Any, ...], facts: dict[str, Any]
) -> AllocationError:
    error = kind.__new__(kind, *args)
    error.args = args
    error.__dict__.update(facts)
    return error


class InvalidIdentifier(AllocationError):
    """A text can't name anything: `kind` of id, the `value`, and the `problem` with it."""

    def __init__(self, kind: str, value: object, problem: str) -> None:
        self.kind = kind
        # What is no text need not survive pickling.
        self.value = value if isinstance(value, str) else shown(value)
        self.problem = problem
        super().__init__(f"{shown(value)} can't be {with_article(kind)}: {problem}")


class InvalidSetting(AllocationError):
    """An argument or setting that can't be one: its name as `setting`, and the `problem`."""

    def __init__(self, setting: str, problem: str) -> None:
        self.setting = setting
        self.problem = problem
        super().__init__(f"{setting}: {problem}")


class Refusal(AllocationError):
    """A command that the rules forbid; nothing was recorded."""


class InvalidSplit(Refusal):
    """Shares that can't be: the `problem`, and in `advice` what to do."""

    def __init__(self, problem: str, advice: str) -> None:
        self.problem = problem
        self.advice = advice
        super().__init__(f"{problem}; {advice}")


class UnknownWorkflow(Refusal):
    """No allocation was ever started for `key`, nor, where many were asked for, for `also`."""

    def __init__(self, key: "WorkflowKey", also: Sequence["WorkflowKey"] = ()) -> None:
        self.key = key
        self.also = tuple(also)
        one = f"{key} was never started; start it with its current version first"
        each = f"{listed((key, *also))} were never started; start each with its current version"
        super().__init__(f"{each} first" if also else one)


class WorkflowAlreadyStarted(Refusal):
    """`start` was asked for a workflow that has an `allocation`."""

    def __init__(self, allocation: "Allocation") -> None:
        self.allocation = allocation
        super().__init__(
            f"{allocation.key} was started before and runs {allocation.current} at generation "
            f"{allocation.generation}; register a challenger to change it"
        )


class ChallengerAlreadyLive(Refusal):
    """Every slot is taken.

    `incumbent` is the live challenger's version, `since_generation` and `since` when it
    came; `incumbents` are the arms of all of them, in tournament mode.
    """

    def __init__(self, key: "WorkflowKey", asked: str, incumbents: Sequence["Arm"]) -> None:
        self.key = key
        self.asked = asked
        self.incumbents = tuple(incumbents)
        self.incumbent: str = self.incumbents[0].version
        self.since_generation = self.incumbents[0].since_generation
        self.since = self.incumbents[0].since
        live = f"{name_arms(self.incumbents)} {'is' if len(self.incumbents) == 1 else 'are'} live"
        if asked in {arm.version for arm in self.incumbents}:
            super().__init__(f"{key} has {asked} as a challenger already: {live}")
        else:
            super().__init__(
                f"{key} has no slot for {asked}: {live}; promote or reject {self.incumbent} first"
            )


class AlreadyCurrent(Refusal):
    """The `version` asked for runs already, since `since_generation`."""

    def __init__(self, key: "WorkflowKey", control: "Arm", live: Sequence["Arm"]) -> None:
        self.key = key
        self.version: str = control.version
        self.since_generation = control.since_generation
        self.live: tuple[str, ...] = tuple(arm.version for arm in live)
        standing = (
            f" while {name_arms(live)} {'is' if len(live) == 1 else 'are'} live; "
            f"to take {live[0].version} out, reject it"
            if live
            else "; nothing is to be done"
        )
        super().__init__(
            f"{key} runs {self.version} already, since generation {self.since_generation}{standing}"
        )


class NoSuchChallenger(Refusal):
    """`version` is not live; `live` names those that are, `current` the current version."""

    def __init__(self, allocation: "Allocation", version: str) -> None:
        self.key = allocation.key
        self.version = version
        self.live: tuple[str, ...] = allocation.challengers
        self.current: str = allocation.current
        role = "it is the current version" if version == self.current else "it is not live"
        live = name_arms(allocation.challenger_arms) or "none"
        super().__init__(
            f"{version} is no challenger of {self.key}: {role} at generation "
            f"{allocation.generation}; live challengers: {live}"
        )


class ChallengersStillLive(Refusal):
    """A roll-back would take out challengers that were not named: `undropped`."""

    def __init__(self, key: "WorkflowKey", target: str, undropped: Sequence["Arm"]) -> None:
        self.key = key
        self.target = target
        self.undropped: tuple[str, ...] = tuple(arm.version for arm in undropped)
        super().__init__(
            f"{key} can't go back to {target} while {name_arms(undropped)} "
            f"{'is' if len(self.undropped) == 1 else 'are'} live; "
            f"{'promote it, or ' if target in self.undropped else ''}"
            f"name what is to be dropped (drop): {', '.join(self.undropped)}"
        )


class NoEarlierVersion(Refusal):
    """There is nothing to roll back to: `to_generation` is not in the past, or None is."""

    def __init__(self, key: "WorkflowKey", generation: int, to_generation: int | None) -> None:
        self.key = key
        self.generation = generation
        self.to_generation = to_generation
        if to_generation is None:
            message = f"{key} has had no other current version up to generation {generation}"
        else:
            message = (
                f"{key} has no generation {to_generation} to go back to: it is at generation "
                f"{generation}; choose one from 1 to {generation - 1}"
            )
        super().__init__(message)


class CommandIdReused(Refusal):
    """A command id came back with another command; `event` is what its first one did."""

    def __init__(self, event: "DecisionEvent") -> None:
        self.event = event
        self.command_id: str = event.command_id
        super().__init__(
            f"command id {event.command_id} made generation {event.generation} of {event.key} "
            f"({event.summary}) and can't stand for another command; use a fresh one"
        )


class RunIdTaken(Refusal):
    """A run id is known in this tenant, for another workflow; `recorded` is that run."""

    def __init__(self, recorded: "RunSpawned", asked: "WorkflowKey") -> None:
        self.recorded = recorded
        self.asked = asked
        super().__init__(
            f"run id {recorded.run_id} of tenant {recorded.tenant_id} belongs to a run of "
            f"{recorded.key}, not of {asked}; run ids are unique inside their tenant"
        )


class GenerationConflict(AllocationError):
    """Another command came first; nothing of this one was recorded.

    `expected` is the generation the command was decided on, `actual` the newest one, and
    `winner` the event that took the place (who, what, when; None if nothing ever did).
    `refusal` is what the rules would say to the same command now, None when it would
    still be legal. `lost_at_commit` tells a race lost in the store from an expectation
    that was stale on arrival; `attempts` counts the tries.
    """

    def __init__(
        self,
        key: "WorkflowKey",
        *,
        expected: int,
        actual: int,
        winner: "DecisionEvent | None",
        refusal: AllocationError | None,
        lost_at_commit: bool,
        attempts: int,
    ) -> None:
        self.key = key
        self.expected = expected
        self.actual = actual
        self.winner = winner
        self.refusal = refusal
        self.lost_at_commit = lost_at_commit
        self.attempts = attempts
        won = (
            f"generation {winner.generation} was made by {winner.actor} at "
            f"{winner.recorded_at:%Y-%m-%d %H:%M:%S} UTC ({winner.summary})"
            if winner
            else "nothing was ever decided"
        )
        now = "would be refused now: " + str(refusal) if refusal else "would still be legal"
        held = (
            f"{key} is at generation {actual}, not {expected}"
            if expected != actual
            else f"others decided on {key} before each of {attempts} attempts; "
            f"it is at generation {actual}"
        )
        super().__init__(f"{held}: {won}; the command {now}")

    @property
    def still_legal(self) -> bool:
        """Whether the same command, decided on the newest state, would be let through."""
        return self.refusal is None


class StoreUnavailable(AllocationError):
    """The store can't be used now, and this call recorded nothing; `problem` says why.

    It does not settle an earlier `OutcomeUnknown` of the same command id or run id.
    `retryable` is False when trying again can't help before somebody acts.
    """

    def __init__(self, problem: str, *, retryable: bool = True) -> None:
        self.problem = problem
        self.retryable = retryable
        super().__init__(problem)


class AnswerLost(StoreUnavailable):
    """The store broke off after a statement was sent: it may have been carried out.

    Adapters raise it; callers of alloc-es see what became of it, or `OutcomeUnknown`.
    """


class StoreNotInitialised(StoreUnavailable):
    """There are no tables of alloc-es, or tables of an older release.

    `found` is their schema version, 0 for none, and `missing` says that there is no
    database to hold them.
    """

    def __init__(self, where: str, *, found: int, wanted: int, missing: bool = False) -> None:
        self.where = where
        self.found = found
        self.wanted = wanted
        self.missing = missing
        advice = "run `alloc-es init` on it once"
        if missing:
            state, advice = "does not exist", f"if its name is right, {advice}"
        elif found:
            state = f"is at schema version {found} of {wanted}"
        else:
            state = "has no alloc-es tables"
        super().__init__(f"{where} {state}; {advice}", retryable=False)


class SchemaTooNew(StoreUnavailable):
    """The tables were made by a newer release: version `found`, this one knows `known`."""

    def __init__(self, where: str, *, found: int, known: int) -> None:
        self.where = where
        self.found = found
        self.known = known
        super().__init__(
            f"{where} is at schema version {found} and this alloc-es knows {known}; "
            f"upgrade alloc-es, nothing was touched",
            retryable=False,
        )


class UnreadableEvent(StoreUnavailable):
    """A stored event that this release can't read, at `stream` and `version`."""

    def __init__(self, stream: str, version: int, topic: str, problem: str) -> None:
        self.stream = stream
        self.version = version
        self.topic = topic
        self.unreadable = problem
        super().__init__(
            f"event {version} of {stream}, {with_article(topic)}, can't be read: {problem}; "
            f"it was written by a newer alloc-es or changed by other hands, "
            f"and nothing is guessed from it",
            retryable=False,
        )


class OutcomeUnknown(AllocationError):
    """The store stopped answering before it said whether it recorded something.

    Asking again with the same `command_id`, or the same `run_id`, settles it: what was
    recorded is returned, what was not is done now, and nothing is done twice.
    """

    def __init__(
        self,
        key: "WorkflowKey",
        problem: str,
        *,
        command_id: str | None = None,
        run_id: str | None = None,
    ) -> None:
        self.key = key
        self.problem = problem
        self.command_id = command_id
        self.run_id = run_id
        what = f"command id {command_id}" if command_id else f"run id {run_id}"
        super().__init__(
            f"{what} on {key} may or may not have been recorded ({problem}); "
            f"asking again with the same {what} settles it"
        )
