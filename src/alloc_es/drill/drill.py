"""A drill: schedulers and spawners on a user's own store, with faults, and a verdict."""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress

from alloc_es.app import Allocations, connect
from alloc_es.clock import new_id
from alloc_es.drill.account import Account
from alloc_es.drill.checking import problems
from alloc_es.drill.crew import Crew
from alloc_es.drill.faults import Faults, Network
from alloc_es.drill.network import network_of
from alloc_es.drill.plan import plan_faults
from alloc_es.drill.rounds import Rounds
from alloc_es.drill.settings import Settings
from alloc_es.drill.spawners import Batch, SpawnerThread
from alloc_es.drill.verdict import Verdict
from alloc_es.errors import AllocationError
from alloc_es.harness import Launcher, Read
from alloc_es.identity import WorkflowKey

CROWD = 64
"""How many callers spawn at the same time in a crowd."""

_ACTOR = "drill"
_REASON = "a drill with seed {}: no traffic, see `alloc-es drill`"
_SHARE = 5_000


def drill(
    settings: Settings,
    *,
    on_round: Callable[[int], None] = lambda _: None,
    new_id: Callable[[], str] = new_id,
) -> Verdict:
    """Play all rounds, hold the logs against what everybody was told, and clean up.

    `on_round` is called with the number of rounds done. Everything is recorded for a tenant
    of the drill's own, named `drill-…`, which no other drill uses; the read models leave it
    out in the end, and its events stay in the logs, each with a reason that says drill.

    Raises `InvalidSetting`, `RestartFailed`, what a launcher refuses, and
    `StoreUnavailable` where the store can't be used before the first round.
    """
    settings.check()
    with connect(settings.url, actor=_ACTOR, timeout=60) as allocations:
        return _Drill(settings, allocations, f"drill-{new_id()[:12]}").run(on_round)


class _Drill:
    def __init__(self, settings: Settings, allocations: Allocations, tenant: str) -> None:
        self._settings = settings
        self._allocations = allocations
        self._tenant = tenant
        self._account = Account()
        self._keys = [
            WorkflowKey.parse(tenant, f"workflow-{number}")
            for number in range(1, settings.workflows + 1)
        ]
        self._schedulers = _names("scheduler", settings.schedulers)
        self._spawners = _names("spawner", settings.spawners)

    def run(self, on_round: Callable[[int], None]) -> Verdict:
        """Play it from the first command to the verdict."""
        begun = time.monotonic()
        before = self._allocations.position()
        runs_before = self._allocations.position("runs")
        for key in self._keys:
            self._start(key)
        try:
            with self._crew() as (crew, network):
                self._play(crew, network, on_round)
                rerouted = crew.rerouted()
            return self._verdict(begun, before, runs_before, rerouted)
        finally:
            self._leave_out()

    def _start(self, key: WorkflowKey) -> None:
        workflow = self._allocations.workflow(*key)
        reason = _REASON.format(self._settings.seed)
        workflow.start("v1", reason=reason)
        workflow.register_challenger("v2", _SHARE, reason=reason)

    @contextmanager
    def _crew(self) -> Iterator[tuple[Crew, Network]]:
        """Everybody, started; ended with the context."""
        settings = self._settings
        with ExitStack() as held:
            network, url = held.enter_context(network_of(settings, self._tenant))
            launcher = held.enter_context(
                Launcher(
                    url,
                    threads=settings.schedulers + settings.spawners,
                    timeout=settings.timeout,
                    opener=settings.opener,
                )
            )
            crew = Crew(launcher, self._account, self._tenant, settings.mode)
            for name in self._schedulers:
                crew.enlist(name, "scheduler")
            for name in self._spawners:
                crew.enlist(name, "spawner")
            yield crew, network

    def _play(self, crew: Crew, network: Network, on_round: Callable[[int], None]) -> None:
        settings = self._settings
        plan = plan_faults(settings.seed, settings.rounds, settings.faults)
        faults = Faults(
            crew,
            self._account,
            network,
            names=[*self._schedulers, *self._spawners],
            restart=settings.restart,
            probe=lambda: self._answered(crew),
        )
        rounds = Rounds(
            self._allocations,
            crew,
            faults,
            self._account,
            keys=self._keys,
            schedulers=self._schedulers,
            seed=settings.seed,
        )
        spawners = [SpawnerThread(crew, self._account, name, self._keys) for name in self._spawners]
        for number in range(settings.rounds):
            planned = plan.get(number, [])
            crowded = any(fault.kind == "crowd" for fault in planned)
            self._account.count("fault: crowd", crowded)
            batch = Batch(
                number,
                CROWD if crowded else settings.runs_per_round,
                CROWD if crowded else 1,
            )
            for spawner in spawners:
                spawner.give(batch)
            rounds.play(number, planned)
            on_round(number + 1)
        for spawner in spawners:
            spawner.finish()

    def _answered(self, crew: Crew) -> None:
        """Return once a participant that was connected before has read the store again."""
        request_id = new_id()
        member, pending = crew.ask(self._schedulers[0], Read(self._keys[0]), request_id)
        crew.settle(member, pending)

    def _verdict(
        self, begun: float, before: int, runs_before: int, rerouted: int | None
    ) -> Verdict:
        account, settings = self._account, self._settings
        runs = [
            run
            for run in self._allocations.runs(after=runs_before)
            if run.event.tenant_id == self._tenant
        ]
        decisions = [
            decision
            for decision in self._allocations.decisions(after=before)
            if decision.event.key.tenant_id == self._tenant
        ]
        found = tuple(problems(account, decisions, runs, self._allocations.position()))
        counts = account.counts
        return Verdict(
            store=self._allocations.store,
            tenant=self._tenant,
            mode=settings.mode,
            seed=settings.seed,
            rounds=settings.rounds,
            seconds=time.monotonic() - begun,
            scores={name: account.score(name) for name in self._schedulers},
            decisions=len(decisions),
            runs=len(runs),
            conflicts=sum(told.conflict is not None for told in account.told),
            lost_at_commit=sum(
                told.conflict is not None and told.conflict.lost_at_commit for told in account.told
            ),
            settled=counts["settled"],
            rerouted=rerouted,
            restarted=counts["restarted"],
            faults={
                what.removeprefix("fault: "): count
                for what, count in sorted(counts.items())
                if what.startswith("fault: ")
            },
            outages=tuple(account.outages),
            problems=found,
        )

    def _leave_out(self) -> None:
        """Let every read model leave the tenant out; one that can't be is left as it is."""
        projections = self._allocations.projections()
        for name in projections.known:
            with suppress(AllocationError):
                projections.purge(name, self._tenant)


def _names(role: str, count: int) -> list[str]:
    return [f"{role}-{number}" for number in range(1, count + 1)]
