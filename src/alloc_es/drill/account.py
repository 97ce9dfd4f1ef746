"""What the participants of a drill were told, kept to be held against the logs."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from signal import SIGKILL
from threading import Lock

from alloc_es.committing import Committed
from alloc_es.drill.plan import FaultKind
from alloc_es.drill.verdict import Score
from alloc_es.errors import AllocationError, GenerationConflict
from alloc_es.events import RunSpawned
from alloc_es.identity import WorkflowKey
from alloc_es.spawning import SpawnRequest


@dataclass(frozen=True, slots=True)
class Told:
    """What became of one scheduler's command, or of a read.

    `began` and `ended` are nanoseconds of the system's monotonic clock; `ended` is None
    where no answer came and the log settled it. `expected` is the generation that a
    command was decided on, None for a read. Of `committed`, `conflict` and `refused` a
    command has one, or none where nobody can tell; a read has `found` instead.
    """

    scheduler: str
    key: WorkflowKey
    command_id: str
    round: int
    began: int
    ended: int | None
    expected: int | None = None
    found: int | None = None
    committed: Committed | None = None
    conflict: GenerationConflict | None = None
    refused: AllocationError | None = None

    @property
    def ending(self) -> str:
        """How a command ended: the field of `Score` that it counts for."""
        if self.committed:
            return "won" if self.committed.event else "unchanged"
        if self.conflict:
            return "lost"
        return "refused" if self.refused else "unsettled"


@dataclass(frozen=True, slots=True)
class ToldRun:
    """A run that a spawner was told of, and the generation that was acknowledged before."""

    run: RunSpawned
    behind: int


@dataclass
class Account:
    """All of it; safe for threads."""

    told: list[Told] = field(default_factory=list)
    runs: list[ToldRun] = field(default_factory=list)
    asked_runs: set[str] = field(default_factory=set)
    unresolved: list[str] = field(default_factory=list)
    deaths: list[str] = field(default_factory=list)
    broken: list[tuple[str, str]] = field(default_factory=list)
    """Promises that were seen to be broken, by their names, and how."""
    counts: Counter[str] = field(default_factory=Counter)
    faults: Counter[FaultKind] = field(default_factory=Counter)
    outages: list[float] = field(default_factory=list)
    _acknowledged: dict[WorkflowKey, int] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)

    def tell(self, told: Told) -> None:
        """Keep what became of a command."""
        with self._lock:
            self.told.append(told)
            if told.committed:
                newest = self._acknowledged.get(told.key, 0)
                self._acknowledged[told.key] = max(newest, told.committed.generation)

    def score(self, scheduler: str) -> Score:
        """How a scheduler's commands ended, of those in rounds."""
        ended: Counter[str] = Counter(
            told.ending for told in self.told if told.scheduler == scheduler and told.round >= 0
        )
        return Score(**{name: ended[name] for name in Score.__dataclass_fields__})

    def ask_runs(self, runs: Iterable[SpawnRequest]) -> None:
        """Keep which runs are asked for, before they are."""
        with self._lock:
            self.asked_runs |= {run.run_id for run in runs}

    def tell_runs(self, runs: list[ToldRun]) -> None:
        """Keep what spawners were told."""
        with self._lock:
            self.runs += runs

    def count(self, what: str, by: int = 1) -> None:
        """Count something."""
        with self._lock:
            self.counts[what] += by

    def count_fault(self, kind: FaultKind, by: int = 1) -> None:
        """Count a fault that has happened."""
        with self._lock:
            self.faults[kind] += by

    def mourn(self, who: str, exit_code: int | None) -> None:
        """Note who died by no hand of the drill's."""
        ending = "died" if exit_code is None else f"died with exit code {exit_code}"
        if exit_code == -SIGKILL:
            ending = "was killed by somebody else: an operator, or a system that ran out of memory"
        with self._lock:
            self.deaths.append(f"{who}, {ending}")

    def leave(self, what: str) -> None:
        """Note what could not be settled."""
        with self._lock:
            self.unresolved.append(what)

    def acknowledged(self, key: WorkflowKey) -> int:
        """The newest generation of a workflow that somebody was told of."""
        with self._lock:
            return self._acknowledged.get(key, 0)
