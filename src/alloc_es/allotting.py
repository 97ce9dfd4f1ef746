"""Which version a run gets: routes kept in memory, and the runs that are allotted by them."""

from datetime import UTC, datetime
from threading import RLock

from alloc_es.codec import RunForm, time_text
from alloc_es.errors import AllocationError, RunIdTaken
from alloc_es.events import DecisionEvent, Recorded, RunSpawned
from alloc_es.identity import Actor, RunId, Unit, WorkflowKey, run_stream
from alloc_es.routing import Router


class Route:
    """What runs of one workflow are allotted by: the allocation that a decision left behind.

    At some moment between `read_at` and `known_at`, on the monotonic clock, the decision
    was the newest.
    """

    __slots__ = (
        "_samples",
        "digest",
        "generation",
        "key",
        "known_at",
        "read_at",
        "router",
        "stream",
    )

    def __init__(self, decision: Recorded[DecisionEvent], read_at: float, known_at: float) -> None:
        allocation = decision.event.allocation
        self.digest = decision.digest
        self.key = allocation.key
        self.stream = self.key.stream
        self.generation = allocation.generation
        self.read_at = read_at
        self.known_at = known_at
        self.router = Router(allocation)
        self._samples: list[tuple[RunSpawned, RunForm] | None] = [None] * len(self.router.slots)

    def confirm(self, read_at: float, known_at: float) -> None:
        """It was found to be the newest between two moments, which may be earlier ones."""
        if read_at >= self.read_at:
            self.read_at, self.known_at = read_at, known_at

    def sample(self, slot: int) -> tuple[RunSpawned, RunForm]:
        """A run of a slot, with what each run has of its own left open, and its JSON."""
        made = self._samples[slot]
        if made is None:
            event = self._sample(slot)
            made = self._samples[slot] = (event, RunForm(event))
        return made

    def _sample(self, slot: int) -> RunSpawned:
        routing = self.router.slots[slot]
        return RunSpawned(
            tenant_id=self.key.tenant_id,
            workflow_id=self.key.workflow_id,
            run_id=RunId(""),
            unit=routing.unit,
            version=routing.version,
            arm=routing.arm,
            generation=routing.generation,
            bucket=routing.bucket,
            slot=routing.slot,
            episode=routing.episode,
            salt=routing.salt,
            hash_version=routing.hash_version,
            actor=Actor(""),
            recorded_at=datetime.fromtimestamp(0, UTC),
            decision_digest=self.digest,
        )


class RouteCache:
    """The routes of the workflows that were used last, up to a number; safe for threads.

    Two dictionaries: what was not used while the younger one filled up is dropped with
    the older. A look costs no lock.
    """

    def __init__(self, capacity: int) -> None:
        self._half = max(1, capacity // 2)
        self._young: dict[WorkflowKey, Route] = {}
        self._old: dict[WorkflowKey, Route] = {}
        # A signal's handler may peek while its thread is in here.
        self._lock = RLock()

    def get(self, key: WorkflowKey) -> Route | None:
        """The route of a workflow, or None when it is not kept."""
        route = self._young.get(key)
        if route is None:
            route = self._old.get(key)
            if route is not None:
                self.put(route)
        return route

    def put(self, route: Route) -> None:
        """Keep a route, unless one is kept that is, or may be, of a later decision.

        An earlier generation is believed when it was read after the later one was known: a
        database may be restored from a backup.
        """
        with self._lock:
            held = self._young.get(route.key) or self._old.get(route.key)
            if held is not None and held.digest == route.digest:
                held.confirm(route.read_at, route.known_at)
                self._keep(held)
            elif (
                held is None or held.generation < route.generation or held.known_at < route.read_at
            ):
                self._keep(route)

    def replace(self, route: Route) -> None:
        """Keep a route that was found under the fence, whatever is kept."""
        with self._lock:
            self._keep(route)

    def _keep(self, route: Route) -> None:
        self._young[route.key] = route
        if len(self._young) >= self._half:
            self._old, self._young = self._young, {}


class Allotment:
    """One run that is to be recorded, and what became of it.

    It is settled by a position, the run that was recorded before, or an error.
    """

    __slots__ = (
        "_answer",
        "_bucket",
        "_position",
        "_sent",
        "_slot",
        "actor",
        "in_doubt",
        "key",
        "recorded_at",
        "route",
        "run_id",
        "settled",
        "state",
        "stream",
        "unit",
    )

    def __init__(
        self, key: WorkflowKey, run_id: RunId, unit: Unit, actor: Actor, recorded_at: datetime
    ) -> None:
        self.key = key
        self.run_id = run_id
        self.unit = unit
        self.actor = actor
        self.recorded_at = recorded_at
        self.stream = run_stream(key.tenant_id, run_id)
        self.route: Route | None = None
        self.state = ""
        self.in_doubt = False
        """Whether an attempt was made whose answer was lost."""
        self.settled = False
        """Whether it is known what became of it."""
        self._position: int | None = None
        self._answer: RunSpawned | AllocationError | None = None
        self._sent: tuple[RunSpawned, ...] = ()

    def allot(self, route: Route) -> None:
        """Choose the version, and write the event that says so."""
        self.route = route
        self._bucket, self._slot = route.router.place(self.unit)
        self.state = route.sample(self._slot)[1].fill(
            actor=self.actor,
            bucket=self._bucket,
            recorded_at=time_text(self.recorded_at),
            run_id=self.run_id,
            unit=self.unit,
        )

    def record(self, position: int) -> None:
        """It was recorded, verified at a position of the decision log."""
        self._position = position
        self.settled = True

    def doubt(self) -> None:
        """It may have been recorded as it is allotted now: the answer was lost."""
        self.in_doubt = True
        sent = self._event(None)
        if sent not in self._sent:
            self._sent = (*self._sent, sent)

    def find(self, held: RunSpawned) -> None:
        """Its place holds a run: an earlier one, or itself if its answer was lost."""
        self.settled = True
        if held.key != self.key:
            self._answer = RunIdTaken(held, self.key)
        elif self._sent and held.model_copy(update={"decision_position": None}) in self._sent:
            self._answer = held
        else:
            self._answer = held.model_copy(update={"replayed": True})

    def fail(self, error: AllocationError) -> None:
        """It can't be recorded."""
        self._answer = error
        self.settled = True

    def outcome(self) -> RunSpawned | AllocationError | None:
        """The recorded run, or why there is none; None while that is not known."""
        if self._answer is None and self._position is not None:
            self._answer = self._event(self._position)
        return self._answer

    def _event(self, position: int | None) -> RunSpawned:
        assert self.route is not None
        return self.route.sample(self._slot)[0].stamped(
            {
                "run_id": self.run_id,
                "unit": self.unit,
                "bucket": self._bucket,
                "actor": self.actor,
                "recorded_at": self.recorded_at,
                "decision_position": position,
            }
        )
