"""A drill: schedulers and spawners on a user's own store, with faults, and a verdict."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager

from alloc_es.app import Allocations
from alloc_es.clock import new_id
from alloc_es.connecting import connect
from alloc_es.drill.account import Account
from alloc_es.drill.aftermath import Aftermath
from alloc_es.drill.checking import ACTOR, problems
from alloc_es.drill.crew import Crew
from alloc_es.drill.faults import Faults
from alloc_es.drill.network import Network, network_of
from alloc_es.drill.plan import Fault, plan_faults
from alloc_es.drill.rounds import Rounds
from alloc_es.drill.settings import Settings
from alloc_es.drill.spawners import CROWD, Batch, SpawnerThread
from alloc_es.drill.tenants import drills_tenant, leave_out, what_remains
from alloc_es.drill.verdict import Verdict
from alloc_es.harness import Done, Launcher, Read
from alloc_es.identity import WorkflowKey

_TIMEOUT = 60.0
_REASON = "a drill with seed {}: no traffic, see `alloc-es drill`"
_SHARE = 5_000


def drill(
    settings: Settings,
    *,
    on_round: Callable[[int], None] = lambda _: None,
    tell: Callable[[str], object] = lambda _: None,
    new_id: Callable[[], str] = new_id,
) -> Verdict:
    """Play all rounds, hold the logs against what everybody was told, and clean up.

    `on_round` is called with the number of rounds done, and `tell`, from another thread,
    with what takes long. Everything is recorded for a tenant of the drill's own, named
    `drill-…`, which no other drill uses. The read models leave it out in the end, or will
    when they are built, which is a row in `projection_purges` for each. Its events stay in
    the logs, each with a reason that says drill, and its participants in `participants`. No
    table is created or changed, and no trigger is sent to anybody.

    Raises `InvalidSetting`, `RestartFailed`, what a launcher refuses, and
    `StoreUnavailable` where the store can't be used before the first round. What is raised
    behind the first command has a note that names the tenant, and which read models are
    still to leave it out.
    """
    settings.check()
    with connect(settings.url, actor=ACTOR, timeout=_TIMEOUT, migrate=False) as allocations:
        playing = _Drill(settings, allocations, drills_tenant(new_id()), tell)
        try:
            return playing.run(on_round)
        except BaseException as error:
            if remains := playing.remains:
                error.add_note(remains)
            raise


class _Drill:
    def __init__(
        self,
        settings: Settings,
        allocations: Allocations,
        tenant: str,
        tell: Callable[[str], object],
    ) -> None:
        self._settings = settings
        self._allocations = allocations
        self._tenant = tenant
        self._tell = tell
        self._left_in: dict[str, str] | None = None
        self._account = Account()
        self._keys = [
            WorkflowKey.parse(tenant, f"workflow-{number}")
            for number in range(1, settings.workflows + 1)
        ]
        self._schedulers = _names("scheduler", settings.schedulers)
        self._spawners = _names("spawner", settings.spawners)
        self._spawning: list[SpawnerThread] = []

    def run(self, on_round: Callable[[int], None]) -> Verdict:
        """Play it from the first command to the verdict."""
        begun = time.monotonic()
        before = self._allocations.position(), self._allocations.position("runs")
        projections = self._allocations.projections()
        self._left_in = dict.fromkeys(projections.known, "it was not asked to")
        try:
            for key in self._keys:
                self._start(key)
            with self._crew() as (crew, network):
                self._play(crew, network, on_round)
                rerouted = crew.end()
        finally:
            leave_out(projections, self._tenant, self._left_in)
        return self._verdict(begun, before, rerouted, self._left_in)

    @property
    def remains(self) -> str:
        """What is left of it in the store; empty where it has not begun."""
        return "" if self._left_in is None else what_remains(self._tenant, self._left_in)

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
            # Behind the launcher's end, which ends whom they wait for.
            held.callback(self._each_spawner, SpawnerThread.await_end)
            launcher = held.enter_context(
                Launcher(
                    url,
                    threads=settings.schedulers + settings.spawners,
                    timeout=settings.timeout,
                    opener=settings.opener,
                )
            )
            crew = Crew(launcher, self._account, self._tenant, settings.mode)
            crew.enlist(
                {
                    **dict.fromkeys(self._schedulers, "scheduler"),
                    **dict.fromkeys(self._spawners, "spawner"),
                }
            )
            held.callback(self._each_spawner, SpawnerThread.abandon)
            yield crew, network

    def _each_spawner(self, act: Callable[[SpawnerThread], None]) -> None:
        for spawner in self._spawning:
            act(spawner)

    def _play(self, crew: Crew, network: Network, on_round: Callable[[int], None]) -> None:
        settings, account = self._settings, self._account
        plan = plan_faults(settings.seed, settings.rounds, settings.faults)
        faults = Faults(
            crew,
            account,
            network,
            names=[*self._schedulers, *self._spawners],
            restart=settings.restart,
            probe=lambda: self._is_served(crew),
            tell=self._tell,
        )
        rounds = Rounds(
            self._allocations,
            crew,
            faults,
            account,
            keys=self._keys,
            schedulers=self._schedulers,
            seed=settings.seed,
        )
        for name in self._spawners:
            self._spawning.append(SpawnerThread(crew, account, name, self._keys))
        for number in range(settings.rounds):
            planned = plan.get(number, [])
            self._spawn(number, planned)
            rounds.play(number, planned)
            on_round(number + 1)
        for spawner in self._spawning:
            spawner.finish()
        Aftermath(
            self._allocations, crew, account, self._keys[0], self._schedulers, self._spawners
        ).play()
        faults.count_lost()

    def _spawn(self, number: int, planned: Sequence[Fault]) -> None:
        """Hand every spawner its runs of a round, and some of them a crowd."""
        for spawner in self._spawning:
            spawner.give(Batch(str(number), self._settings.runs_per_round))
        crowds = (fault for fault in planned if fault.kind == "crowd")
        for place, fault in enumerate(crowds):
            spawner = self._spawning[fault.target % len(self._spawning)]
            spawner.give(Batch(f"{number}-crowd-{place}", CROWD, CROWD))

    def _is_served(self, crew: Crew) -> bool:
        """Whether a participant that was connected before can read the store again."""
        name = self._schedulers[0]
        member, pending = crew.ask(name, Read(self._keys[0]), new_id())
        return isinstance(crew.settle(name, member, pending), Done)

    def _verdict(
        self,
        begun: float,
        before: tuple[int, int],
        rerouted: int | None,
        left_in: Mapping[str, str],
    ) -> Verdict:
        account, settings = self._account, self._settings
        decisions = [
            each
            for each in self._allocations.decisions(after=before[0])
            if each.event.key.tenant_id == self._tenant
        ]
        runs = [
            each
            for each in self._allocations.runs(after=before[1])
            if each.event.tenant_id == self._tenant
        ]
        found = tuple(problems(account, decisions, runs, self._allocations.position()))
        conflicts = [told.conflict for told in account.told if told.conflict]
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
            conflicts=len(conflicts),
            lost_at_commit=sum(conflict.lost_at_commit for conflict in conflicts),
            settled=account.counts["settled"],
            rerouted=rerouted,
            restarted=account.counts["restarted"],
            planned={kind: count for kind, count in settings.faults.items() if count},
            faults={kind: count for kind, count in account.faults.items() if count},
            outages=tuple(account.outages),
            left_in=left_in,
            problems=found,
        )


def _names(role: str, count: int) -> list[str]:
    return [f"{role}-{number}" for number in range(1, count + 1)]
