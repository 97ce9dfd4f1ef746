"""What becomes of a decide pass: a result for each workflow, and when the pass has its goal."""

import pickle
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, get_args

from alloc_es.arguments import is_async, parse_count
from alloc_es.errors import InvalidSetting
from alloc_es.events import DecisionEvent
from alloc_es.identity import WorkflowKey
from alloc_es.proposals import Proposal
from alloc_es.wording import shown

Outcome: TypeAlias = Literal["decided", "unchanged", "held", "failed", "skipped", "not run"]

OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)

_MOST_COUNTED = 2**62


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a workflow was not decided: the type and message of the `error` itself.

    Equal to another one of the same facts. Where it is pickled, an error that can't be is
    left behind as None.
    """

    key: WorkflowKey
    error_type: str
    message: str
    error: BaseException | None = field(default=None, compare=False, repr=False)

    @classmethod
    def of(cls, key: WorkflowKey, error: BaseException) -> "Failure":
        """The failure of a workflow that an error is."""
        try:
            message = str(error)
        except Exception as mistake:  # noqa: BLE001 - it is the error's own code
            message = f"it has no message: {type(mistake).__name__}"
        return cls(key, type(error).__name__, message, error)

    def __reduce__(self) -> tuple[Any, ...]:
        facts = (self.key, self.error_type, self.message)
        return Failure, (*facts, self.error if _survives(self.error) else None)


@dataclass(frozen=True, slots=True)
class PassResult:
    """What became of one workflow in a decide pass.

    `outcome` is "decided" (`event` is the decision, or in a dry run the one that would be
    appended), "unchanged" (what was proposed held already), "held" (the policy said so),
    "failed" (`failure` says why, and nothing was recorded, unless its error is an
    `OutcomeUnknown`), "skipped" (it had reached its own goal) or "not run".

    `proposal` is the last answer, `seen` the generation it was based on, None where the
    policy was not asked, and `asked` how often it was. `generation` is the newest that the
    pass knows, None where it read nothing. `lost_to` are the decisions of others that came
    first, one for each conflict.
    """

    key: WorkflowKey
    outcome: Outcome
    proposal: Proposal | None = None
    seen: int | None = None
    event: DecisionEvent | None = None
    generation: int | None = None
    asked: int = 0
    lost_to: tuple[DecisionEvent, ...] = ()
    failure: Failure | None = None


@dataclass(frozen=True, slots=True)
class PassReport:
    """What became of a decide pass: a result for each key, in the order given.

    `waves` is how many were run. `goal_reached` says whether the pass-wide goal was, and is
    False where there was none.
    """

    results: tuple[PassResult, ...]
    waves: int
    goal_reached: bool

    @property
    def counts(self) -> dict[Outcome, int]:
        """How many results have each outcome; all of them are there, also with 0."""
        counted = Counter(result.outcome for result in self.results)
        return {outcome: counted[outcome] for outcome in OUTCOMES}


@dataclass(frozen=True, slots=True)
class Goal:
    """When a pass has enough: once `counts` said yes to `count` results.

    It is asked once about each result of a workflow that was run, in the order of the keys.
    A *hard* goal is never passed: a wave takes at most as many workflows as are missing, so
    waves shrink near the goal. A *soft* goal is looked at before every `every` workflows
    only: waves stay full, and it may be passed by up to `every - 1`. Either way the
    workflows that run are the same at any concurrency.

    Raises `InvalidSetting`.
    """

    count: int
    counts: Callable[[PassResult], bool]
    hard: bool = True
    every: int = 100

    def __post_init__(self) -> None:
        parse_count("count", self.count, _MOST_COUNTED)
        parse_count("every", self.every, _MOST_COUNTED)
        if is_async(self.counts):
            raise InvalidSetting("counts", f"{shown(self.counts)} is async; only a policy may be")
        if not callable(self.counts):
            raise InvalidSetting("counts", f"{shown(self.counts)} can't be called with a result")


def _survives(error: BaseException | None) -> bool:
    """Whether an error comes back from pickling as it went; other people's need not."""
    try:
        return type(pickle.loads(pickle.dumps(error))) is type(error)
    except Exception:  # noqa: BLE001 - whatever its own code does
        return False
