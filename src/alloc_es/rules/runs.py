"""The rules of the run log, each a function that says what is wrong with a run."""

from collections.abc import Iterable, Iterator, Mapping
from hashlib import blake2b

from alloc_es.events import DecisionEvent, Recorded, RunSpawned
from alloc_es.routing import Routing
from alloc_es.rules.chain import run_chain
from alloc_es.rules.decisions import decision_findings
from alloc_es.rules.finding import Finding, found
from alloc_es.rules.timeline import Timeline

# What fits beside the head of a small object of Python. Of 10^12 run ids no two share a digest,
# but for a chance of one in 10^12.
_DIGEST_BYTES = 15

_NOWHERE: Mapping[str, int] = {}


def findings(
    decisions: Iterable[Recorded[DecisionEvent]],
    runs: Iterable[Recorded[RunSpawned]],
    began_behind: Mapping[str, int] = _NOWHERE,
) -> Iterator[Finding]:
    """Whatever breaks a rule in the two logs of a store, as it is met; see `run_findings`.

    Both come in the order of their positions. Of a store in use, read the runs up to an end
    that was looked up before the decisions were read: else a run may be newer than they are.
    """
    timeline = Timeline()
    yield from decision_findings(decisions, timeline)
    yield from run_findings(timeline, runs, began_behind)


def run_findings(
    timeline: Timeline,
    runs: Iterable[Recorded[RunSpawned]],
    began_behind: Mapping[str, int] = _NOWHERE,
) -> Iterator[Finding]:
    """Every run that breaks a rule, as it is met; of the runs a short digest each is kept.

    `began_behind` says of some runs, by the name of their stream, behind which decision
    their call began: the position of one whose own call had returned by then.
    """
    order, run_ids, verified = RunOrder(), RunIds(), Verified()
    for each in runs:
        run = each.event
        problems = {
            "order": order(each),
            "routing": routing(timeline, run),
            "newest": newest(timeline, run) or verified(run),
            "run_ids": run_ids(run),
            "chain": run_chain(timeline, run),
        }
        floor = began_behind.get(run.originator_id) if began_behind else None
        if floor is not None:
            problems["begun"] = begun(run, floor)
            problems["service"] = service(timeline, run, floor)
        yield from (found(rule, each, problem) for rule, problem in problems.items() if problem)


class RunOrder:
    """Positions rise, one event at each."""

    def __init__(self) -> None:
        self._position = 0

    def __call__(self, each: Recorded[RunSpawned]) -> str | None:
        """What is wrong with the next run, or None."""
        last, self._position = self._position, each.position
        return f"it lies behind position {last}" if each.position <= last else None


class Verified:
    """Runs are verified in their order: whoever records one has the lock that orders them.

    So one that was put behind others afterwards is found, whatever it says of itself.
    """

    def __init__(self, highest: int = 0) -> None:
        self.highest = highest
        """The latest position at which a run was verified so far."""

    def __call__(self, run: RunSpawned) -> str | None:
        """What is wrong with the next run, or None."""
        position = run.decision_position
        if position is None:
            return None
        if position < self.highest:
            return f"it was verified at position {position}, and one before it at {self.highest}"
        self.highest = position
        return None


class RunIds:
    """A tenant gives out each run id once; 15 bytes are kept of each."""

    def __init__(self) -> None:
        self._seen: set[bytes] = set()

    def __call__(self, run: RunSpawned) -> str | None:
        """What is wrong with the next run, or None."""
        name = blake2b(run.originator_id.encode(), digest_size=_DIGEST_BYTES).digest()
        known = name in self._seen
        self._seen.add(name)
        return "its id was recorded before" if known else None


def routing(timeline: Timeline, run: RunSpawned) -> str | None:
    """What a run says of itself against what follows from its unit and generation."""
    router = timeline.router(run.key, run.generation)
    if router is None and timeline.is_unread(run.key, run.generation):
        return None
    if router is None:
        return f"{run.key} has no generation {run.generation}"
    owed = router.route(run.unit)
    said = (
        run.version,
        run.arm,
        run.generation,
        run.bucket,
        run.unit,
        run.slot,
        run.episode,
        run.salt,
        run.hash_version,
    )
    if said == owed:
        return None
    differences = (
        f"{name} {own!r} where its generation says {right!r}"
        for name, own, right in zip(Routing._fields, said, owed, strict=True)
        if own != right
    )
    return f"it has {', '.join(differences)}"


def newest(timeline: Timeline, run: RunSpawned) -> str | None:
    """A run's generation against the newest one at its decision position."""
    position = run.decision_position
    if position is None:
        return "it was not verified"
    if position > timeline.end:
        return f"it was verified at position {position}, and the decisions end at {timeline.end}"
    unread = timeline.unread_at(run.key, position)
    if unread == run.generation:
        return None
    if unread is not None:
        return (
            f"it is of generation {run.generation} of {run.key}, and at position {position} "
            f"generation {unread} was the newest, which can't be read"
        )
    held = timeline.at(run.key, position)
    if held is None:
        return f"nothing was decided on {run.key} at position {position}"
    if held.generation == run.generation:
        return None
    served = "" if run.version in held.split else f", in which {run.version} does not serve"
    return (
        f"it is of generation {run.generation} of {run.key}, and at position "
        f"{position} generation {held.generation} was the newest{served}"
    )


def begun(run: RunSpawned, floor: int) -> str | None:
    """A run's decision position against the position behind which its call began."""
    if run.decision_position is not None and run.decision_position >= floor:
        return None
    return f"it began behind position {floor} and was verified at {run.decision_position}"


def service(timeline: Timeline, run: RunSpawned, floor: int) -> str | None:
    """Whether a run's version served at some moment since its call began.

    One that was rejected, or superseded, before the call began may have come back before
    the run was verified; else nothing may be on it.
    """
    served = timeline.between(run.key, floor, run.decision_position or 0)
    if any(run.version in allocation.split for allocation in served):
        return None
    return f"it is on {run.version}, which was out of service from position {floor} on"
