"""What can be asked of a store as a whole."""

import builtins
import os
import socket
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from functools import partial
from types import TracebackType
from typing import Self, TypeVar

from alloc_es.allocation import Allocation
from alloc_es.arguments import parse_ordinal, parse_seconds, parse_timeout
from alloc_es.building import Books
from alloc_es.clock import Patience
from alloc_es.committing import Committer
from alloc_es.delivering import Deliveries
from alloc_es.errors import AllocationError, InvalidSetting, StoreUnavailable
from alloc_es.events import DecisionEvent, E, RunSpawned
from alloc_es.explaining import Explanation, explain
from alloc_es.following import Tell, surely, tell_log
from alloc_es.grouping import MAX_GROUP
from alloc_es.history_errors import UnknownRun
from alloc_es.identity import (
    Actor,
    RunId,
    TenantId,
    WorkflowKey,
    parse_identifier,
    run_stream,
    tenant_prefix,
)
from alloc_es.incarnation import Incarnation, parse_name
from alloc_es.ledger import Ledger
from alloc_es.projection import Projection, by_name, installed
from alloc_es.projections import Projections
from alloc_es.spawning import SpawnCounts, Spawner, SpawnRequest, parse_requests
from alloc_es.store import EventLog, Recorded, Store, participants
from alloc_es.store.recorder import LOGS, LogName
from alloc_es.triggers import LEASE, LONGEST_LEASE, Begin, Triggers
from alloc_es.wording import shown
from alloc_es.workflow import Workflow

T = TypeVar("T")

_EVERY_STREAM = "allocation/"


class Allocations:
    """An open store of allocations; safe for threads, for one process.

    Made by `alloc_es.connect`. A child process makes its own: one that was handed over by a fork
    refuses to work, because the two would share sockets.
    """

    def __init__(
        self,
        store: Store,
        *,
        actor: Actor,
        max_challengers: int,
        cached_workflows: int,
        patience: Patience,
        clock: Callable[[], datetime],
        new_id: Callable[[], str],
    ) -> None:
        self._store = store
        self._process = os.getpid()
        self._closed = False
        spawner = Spawner(store.decisions, store.runs, patience, clock, cached_workflows)
        self._ledger = Ledger(
            decisions=store.decisions,
            committer=Committer(store.decisions, patience, spawner.learn),
            spawner=spawner,
            patience=patience,
            actor=actor,
            max_challengers=max_challengers,
            clock=clock,
            new_id=new_id,
            check_usable=self._check_usable,
            check_incarnation=self._check_incarnation,
        )

    def __repr__(self) -> str:
        return f"<Allocations in {self.store}>"

    @property
    def store(self) -> str:
        """The name of the store for people, without secrets."""
        return self._store.where

    def workflow(self, tenant_id: str, workflow_id: str) -> Workflow:
        """A handle on one workflow of one tenant; no I/O. Raises `InvalidIdentifier`."""
        return Workflow(self._ledger, WorkflowKey.parse(tenant_id, workflow_id))

    def spawn_runs(
        self, requests: Iterable[SpawnRequest], *, timeout: float | None = None
    ) -> "builtins.list[RunSpawned | AllocationError]":
        """Spawn many runs, of any workflows and tenants; an outcome for each, in their order.

        An outcome is the recorded run or the error that `Workflow.spawn_run` would raise
        for it; one that fails does not fail its neighbours. Up to 1,000 runs are recorded
        in a transaction, and `timeout` is for each of these. The whole is not *atomic*,
        and *idempotent*: asking again with the same run ids records what is missing.

        Raises `InvalidSetting` for a request that is none, before any run is recorded.
        """
        self._check_usable()
        asked = parse_requests(requests)
        seconds = None if timeout is None else parse_timeout(timeout)
        outcomes: builtins.list[RunSpawned | AllocationError] = []
        for first in range(0, len(asked), MAX_GROUP):
            self._check_usable()
            group = asked[first : first + MAX_GROUP]
            outcomes += self._ledger.spawner.spawn_all(group, self._ledger.actor, seconds)
        return outcomes

    def spawn_counts(self) -> SpawnCounts:
        """What became of the runs that were spawned through this connection so far."""
        return self._ledger.spawner.counts()

    def list(self, tenant_id: str | None = None) -> list[Allocation]:
        """The newest allocation of every workflow, or of one tenant's, in order of the ids."""
        prefix = _EVERY_STREAM
        if tenant_id is not None:
            prefix = tenant_prefix(TenantId(parse_identifier("tenant id", tenant_id)))
        heads = self._insist(lambda: self._store.decisions.heads(prefix))
        return sorted((head.event.allocation for head in heads), key=lambda found: found.key)

    def decisions(self, *, after: int = 0) -> Iterator[Recorded[DecisionEvent]]:
        """Every decision behind a position, *in commit order*, up to the end of the log."""
        self._check_usable()
        return self._scan(self._store.decisions, parse_ordinal("after", "position", after))

    def runs(self, *, after: int = 0) -> Iterator[Recorded[RunSpawned]]:
        """Every run behind a position of the run log, *in commit order*, up to its end."""
        self._check_usable()
        return self._scan(self._store.runs, parse_ordinal("after", "position", after))

    def explain_run(self, tenant_id: str, run_id: str) -> Explanation:
        """Why a run got its version, computed again: one indexed look-up in each log.

        Raises `UnknownRun`, `InvalidIdentifier`, and `RunArchived` where its archive is not at
        hand.
        """
        tenant = TenantId(parse_identifier("tenant id", tenant_id))
        wanted = RunId(parse_identifier("run id", run_id))
        run = self._insist(lambda: self._store.runs.newest(run_stream(tenant, wanted)))
        if run is None:
            raise UnknownRun(tenant, wanted, self.store)
        stream, generation = run.event.key.stream, run.generation
        decisions = self._store.decisions
        return explain(
            run, self._insist(lambda: decisions.between(stream, generation, generation + 1))
        )

    def position(self, log: LogName = "decisions") -> int:
        """The last position of the decision log, or of the run log; 0 while it is empty."""
        if log not in LOGS:
            raise InvalidSetting("log", f"{shown(log)} is none of {', '.join(LOGS)}")
        return self._insist(self._store.log(log).end)

    def new_incarnation(self, name: str) -> Incarnation:
        """Begin the next life of a participant, 1 being the first; *atomic*.

        It waits for what its old incarnation is committing. Once it has returned, that one
        records no decision and no run any more, in whatever process it is: whoever connected
        with it is refused with `IncarnationSuperseded`. Where the answer of the store is lost,
        it is counted up again, so numbers may have gaps.

        Raises `InvalidIdentifier` and `StoreUnavailable`, after which a number may be gone.
        """
        parsed = parse_name(name)
        return self._insist(
            lambda: participants.begin(self._store.desk, parsed, self._ledger.clock())
        )

    def newest_incarnation(self, name: str) -> Incarnation | None:
        """The incarnation of a participant that the store counts now, None where it has none.

        What an earlier one has committed is readable once this was answered, and it commits
        nothing more. Raises `InvalidIdentifier` and `StoreUnavailable`.
        """
        parsed = parse_name(name)
        return self._insist(lambda: participants.newest(self._store.desk, parsed))

    def projections(self, *more: Projection) -> Projections:
        """The read models of this store: of the projections that are installed, and `more`.

        An installed one that can't be loaded is among its `broken`. Raises `InvalidSetting`
        where two have a name, or a table's name, in common.
        """
        self._check_usable()
        found, broken = installed()
        books = Books(self._new_name(), self._ledger.clock)
        return Projections(
            self._store,
            by_name([*found, *more]),
            broken,
            books,
            self._ledger.patience,
            self._check_usable,
        )

    def triggers(
        self,
        consumer: str,
        *,
        begin: Begin = "beginning",
        follow: bool = True,
        lease: float = LEASE,
        tell: Tell = tell_log,
    ) -> Triggers:
        """The rejections without a replacement, for one worker of a consumer; close it.

        The store keeps, for each consumer, which triggers were handed to whom and which are
        acknowledged. A consumer that is new begins at the `beginning` of the log, or `now`.
        Its workers, in as many processes as there are, share the triggers. With
        `follow=False` iterating ends where no trigger is left to take, else it waits, also
        while the store is away; `tell` is called with what an operator should know. A
        worker that holds triggers and is not heard of for `lease` seconds counts as dead.

        Raises `InvalidIdentifier`, `InvalidSetting` and `StoreUnavailable`.
        """
        self._check_usable()
        parsed = parse_identifier("consumer", consumer)
        if begin not in ("beginning", "now"):
            raise InvalidSetting("begin", f"{shown(begin)} is neither 'beginning' nor 'now'")
        seconds = parse_seconds("lease", lease, LONGEST_LEASE)
        ledger = self._ledger
        return Triggers(
            self._store,
            Deliveries(self._store, parsed, self._new_name(), seconds),
            ledger.patience,
            ledger.clock,
            self._check_usable,
            begin=begin,
            follow=follow,
            tell=surely(tell),
        )

    def _new_name(self) -> str:
        """The name of something that works in this process, of which there may be others."""
        return f"{socket.gethostname()}:{os.getpid()}:{self._ledger.new_id()[:8]}"

    def close(self) -> None:
        """Give back the connections; later calls are refused. Closing twice is allowed.

        Calls that other threads or tasks have made to spawn runs get their answers first.
        """
        if os.getpid() == self._process:
            self._closed = True
            self._ledger.spawner.close()
            self._store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _scan(self, log: EventLog[E], after: int) -> Iterator[Recorded[E]]:
        while True:
            batch = self._insist(partial(log.batch, after))
            yield from batch.events
            if batch.failure is not None:
                raise batch.failure
            if not batch.events:
                return
            after = batch.read_to

    def _insist(self, call: Callable[[], T]) -> T:
        self._check_usable()
        return self._ledger.patience.insist(call)

    def _check_incarnation(self) -> None:
        held = self._store.incarnation
        if held is not None:
            self._insist(lambda: participants.look(self._store.desk, held))

    def _check_usable(self) -> None:
        if os.getpid() != self._process:
            raise StoreUnavailable(
                f"this connection to {self.store} was made by process {self._process}, before "
                f"a fork; call connect() in process {os.getpid()}",
                retryable=False,
            )
        if self._closed:
            raise StoreUnavailable(f"this connection to {self.store} was closed", retryable=False)
