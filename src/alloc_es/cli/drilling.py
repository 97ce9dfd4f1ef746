"""The command that puts a store under fire, and its verdict."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import Annotated, Any, cast, get_args

import typer

from alloc_es.cli.documents import Ended
from alloc_es.cli.drawing import Rows
from alloc_es.cli.exits import CHECK_FAILED, exit_code
from alloc_es.cli.options import STORE, AsJson, StoreUrl, UsageError
from alloc_es.cli.output import print_document, print_rich, say
from alloc_es.cli.running import interruptible, notices
from alloc_es.cli.standings import counted
from alloc_es.drill.drill import drill as play
from alloc_es.drill.plan import FaultKind
from alloc_es.drill.settings import Settings, is_postgres
from alloc_es.drill.tenants import what_remains
from alloc_es.drill.verdict import Verdict
from alloc_es.errors import AllocationError
from alloc_es.harness import Mode
from alloc_es.wording import listed, numbered, shown

_TENTH = 10
_HUNDREDTH = 100


_STRANGERS = (
    "somebody else wrote to the drill's tenant, so it proves nothing: stop schedulers that work "
    "on all tenants, or let them leave out tenants that begin with drill-, and drill again"
)


class DrillFailed(Ended):
    """A drill found what must not be: `findings` of them."""

    def __init__(self, verdict: Verdict) -> None:
        self.findings = len(verdict.problems)
        self.tenant = verdict.tenant
        broken = f"promises were broken; keep the log of tenant {self.tenant} as evidence"
        super().__init__(_STRANGERS if verdict.disturbed else broken, exit_code=CHECK_FAILED)


class DrillStopped(Ended):
    """A drill ended before its verdict, by the `error`."""

    def __init__(self, error: AllocationError, notes: Sequence[str]) -> None:
        self.error = error
        super().__init__("; ".join([str(error), *notes]), exit_code=exit_code(error))


def drill(
    context: typer.Context,
    schedulers: Annotated[
        int, typer.Option(metavar="N", help="How many decide on the same generation.")
    ] = 2,
    spawners: Annotated[int, typer.Option(metavar="N", help="How many spawn runs meanwhile.")] = 1,
    rounds: Annotated[
        int, typer.Option(metavar="N", help="How often they race; the first time without faults.")
    ] = 100,
    mode: Annotated[
        str, typer.Option(metavar="MODE", help="How they run: process, thread or in_process.")
    ] = "process",
    kill: Annotated[
        bool, typer.Option("--kill", help="Kill processes, at named moments and at random ones.")
    ] = False,
    pause: Annotated[
        bool, typer.Option("--pause", help="Stop processes for a while and let them go on.")
    ] = False,
    drop_replies: Annotated[
        bool,
        typer.Option("--drop-replies", help="Lose the server's replies to commits, by a proxy."),
    ] = False,
    break_connections: Annotated[
        bool,
        typer.Option(
            "--break-connections",
            help="Cut, delay and black-hole connections, and let the server end them.",
        ),
    ] = False,
    restart: Annotated[
        str | None,
        typer.Option(
            metavar="CMD",
            help="A shell command that stops the server at once and starts it again.",
            show_default=False,
        ),
    ] = None,
    fill_disk: Annotated[
        bool, typer.Option("--fill-disk", help="Let writes fail as on a full disk (SQLite).")
    ] = False,
    faults: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="How many faults of each kind that is asked for.",
            show_default="a tenth of the rounds; of restarts and black holes a hundredth",
        ),
    ] = None,
    seed: Annotated[
        int, typer.Option(metavar="N", help="The same seed plans the same faults.")
    ] = 0,
    store: StoreUrl = STORE,
    as_json: AsJson = False,
) -> None:
    """Break things while schedulers race, and check the logs.

    Clocks step by an hour and crowds of 64 callers come in every drill; the rest is asked
    for. All is recorded for a tenant of the drill's own, named drill-…, which the read
    models leave out in the end and whose events stay in the logs. Stop whoever decides on
    all tenants first. The exit code is 6 if a promise was broken.
    """
    if problem := _unfit(
        mode,
        store,
        faults,
        processes={"--kill": kill, "--pause": pause, "--fill-disk": fill_disk},
        servers={
            "--drop-replies": drop_replies,
            "--break-connections": break_connections,
            "--restart": restart is not None,
        },
    ):
        raise UsageError(problem, context)
    asked = {
        "kill": kill,
        "pause": pause,
        "lost reply": drop_replies,
        "cut": break_connections,
        "delay": break_connections,
        "black hole": break_connections,
        "termination": break_connections,
        "restart": restart is not None,
        "full disk": fill_disk,
        "clock step": rounds > 1,
        "crowd": rounds > 1,
    }
    settings = Settings(
        url=store,
        schedulers=schedulers,
        spawners=spawners,
        rounds=rounds,
        mode=cast(Mode, mode),
        faults=_counts(asked, rounds, faults),
        restart=restart,
        seed=seed,
    )
    settings.check()
    with (
        _stopped(),
        interruptible("the drill was ended in mid-round, and nothing was checked"),
        counted("rounds", hidden=as_json) as report,
    ):
        verdict = play(
            settings,
            on_round=lambda done: report(done, rounds),
            tell=notices(as_json=as_json),
        )
    if as_json:
        print_document(verdict_document(verdict))
    else:
        _print(verdict)
    if not verdict.passed:
        raise DrillFailed(verdict)


def verdict_document(verdict: Verdict) -> dict[str, Any]:
    """A verdict with all its counts; seconds to the millisecond."""
    times = {
        "seconds": round(verdict.seconds, 3),
        "outages": [round(seconds, 3) for seconds in verdict.outages],
    }
    found = {"passed": verdict.passed, "lost": verdict.lost, "doubled": verdict.doubled}
    return {**found, **asdict(verdict), **times}


def _unfit(
    mode: str,
    store: str,
    faults: int | None,
    *,
    processes: Mapping[str, bool],
    servers: Mapping[str, bool],
) -> str:
    """Why options do not go together, in their names; empty where they do."""
    of_processes = [name for name, given in processes.items() if given]
    of_servers = [name for name, given in servers.items() if given]
    if mode not in get_args(Mode):
        return f"--mode: {shown(mode)} is none of {', '.join(get_args(Mode))}"
    if faults is not None and faults < 0:
        return f"--faults: {faults} is no count"
    if of_processes and mode != "process":
        return f"{listed(of_processes)} can befall processes only; use --mode process"
    if of_servers and not is_postgres(store):
        return f"{listed(of_servers)} can befall PostgreSQL only; use --store postgresql://…"
    if processes["--fill-disk"] and is_postgres(store):
        return "--fill-disk can befall a SQLite file only; use --store sqlite:///…"
    return ""


@contextmanager
def _stopped() -> Iterator[None]:
    """Tell what a drill that stops early leaves behind."""
    try:
        yield
    except AllocationError as error:
        if notes := getattr(error, "__notes__", ()):
            raise DrillStopped(error, notes) from error
        raise


def _counts(asked: Mapping[str, bool], rounds: int, faults: int | None) -> dict[FaultKind, int]:
    rare = ("restart", "black hole")
    kinds: Any = [kind for kind, wanted in asked.items() if wanted]
    return {
        kind: max(1, rounds // (_HUNDREDTH if kind in rare else _TENTH))
        if faults is None
        else faults
        for kind in kinds
    }


def _print(verdict: Verdict) -> None:
    cells = [
        (name, *(f"{count:,}" for count in (s.won, s.lost, s.unchanged, s.refused, s.unsettled)))
        for name, s in verdict.scores.items()
    ]
    columns = ("SCHEDULER", "WON", "LOST", "UNCHANGED", "REFUSED", "UNSETTLED")
    details = [
        tuple(f"{column.lower()} {cell}" for column, cell in zip(columns[1:], row[1:], strict=True))
        for row in cells
    ]
    print_rich(Rows(columns, cells, [row[0] for row in cells], details))
    for sentence in _sentences(verdict):
        say(sentence)
    for problem in verdict.problems:
        say(f"FOUND: {problem}")
    found = numbered(len(verdict.problems), "finding") if verdict.problems else "no finding"
    rounds = numbered(verdict.rounds, "round")
    say(f"{found} in {rounds} on {verdict.store}, seed {verdict.seed}")


def _sentences(verdict: Verdict) -> list[str]:
    faults = ", ".join(
        f"{verdict.faults.get(kind, 0):,} of {count:,} × {kind}"
        for kind, count in verdict.planned.items()
    )
    rerouted = "unknown" if verdict.rerouted is None else f"{verdict.rerouted:,}"
    sentences = [
        (
            f"decisions {verdict.decisions:,}; commands that lost to another one "
            f"{verdict.conflicts:,}, of them at the commit {verdict.lost_at_commit:,}"
        ),
        f"runs {verdict.runs:,}, routed again behind a decision {rerouted}",
        (
            f"answers in doubt that were settled {verdict.settled:,}, "
            f"participants started again {verdict.restarted:,}"
        ),
        f"faults: {faults or 'none'}",
        f"lost {verdict.lost:,}, doubled {verdict.doubled:,}",
    ]
    if verdict.outages:
        longest = max(verdict.outages)
        sentences.append(
            f"back in service after a restart of the server in {longest * 1000:,.0f} ms at most"
        )
    if verdict.left_in:
        sentences.append(what_remains(verdict.tenant, verdict.left_in))
    sentences.append(f"{verdict.seconds:.1f} s, tenant {verdict.tenant}, {verdict.mode}")
    return sentences
