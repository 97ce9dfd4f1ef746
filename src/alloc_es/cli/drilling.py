"""The command that puts a store under fire, and its verdict."""

from collections.abc import Mapping
from dataclasses import asdict
from enum import StrEnum
from typing import Annotated, Any

import typer

from alloc_es.cli.documents import Ended
from alloc_es.cli.drawing import Rows
from alloc_es.cli.exits import CHECK_FAILED
from alloc_es.cli.options import STORE, AsJson, StoreUrl
from alloc_es.cli.output import print_document, print_rich, say
from alloc_es.cli.running import interruptible
from alloc_es.cli.standings import counted
from alloc_es.drill.drill import drill as play
from alloc_es.drill.plan import FaultKind
from alloc_es.drill.settings import Settings
from alloc_es.drill.verdict import Verdict

_TENTH = 10
_HUNDREDTH = 100


class ModeName(StrEnum):
    """How the participants of a drill run."""

    PROCESS = "process"
    THREAD = "thread"
    IN_PROCESS = "in_process"


class DrillFailed(Ended):
    """A drill found what must not be: `findings` of them."""

    def __init__(self, verdict: Verdict) -> None:
        self.findings = len(verdict.problems)
        super().__init__(
            f"{self.findings:,} findings on {verdict.store}: promises were broken, see above; "
            f"keep the log of tenant {verdict.tenant} as evidence",
            exit_code=CHECK_FAILED,
        )


def drill(
    schedulers: Annotated[
        int, typer.Option(metavar="N", help="How many decide on the same generation.")
    ] = 2,
    spawners: Annotated[int, typer.Option(metavar="N", help="How many spawn runs meanwhile.")] = 1,
    rounds: Annotated[int, typer.Option(metavar="N", help="How often they race.")] = 100,
    mode: Annotated[ModeName, typer.Option(help="How they run.")] = ModeName.PROCESS,
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
    """Race schedulers on a store, break things on purpose, and check every promise.

    Clocks step by an hour and crowds of 64 callers come in every drill; the rest is asked
    for. All is recorded for a tenant of the drill's own, named drill-…, which the read
    models leave out in the end and whose events stay in the logs. The exit code is 6 if a
    promise was broken.
    """
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
        mode=mode.value,
        faults=_counts(asked, rounds, faults),
        restart=restart,
        seed=seed,
    )
    settings.check()
    with (
        interruptible("the drill was ended in mid-round, and nothing was checked"),
        counted("rounds", hidden=as_json) as report,
    ):
        verdict = play(settings, on_round=lambda done: report(done, rounds))
    if as_json:
        print_document(verdict_document(verdict))
    else:
        _print(verdict)
    if not verdict.passed:
        raise DrillFailed(verdict)


def verdict_document(verdict: Verdict) -> dict[str, Any]:
    """A verdict with all its counts."""
    return {"passed": verdict.passed, **asdict(verdict)}


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
    found = f"{len(verdict.problems):,} findings" if verdict.problems else "no finding"
    say(f"{found} in {verdict.rounds:,} rounds on {verdict.store}, seed {verdict.seed}")


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
    ]
    if verdict.outages:
        longest = max(verdict.outages)
        sentences.append(
            f"back in service after a restart of the server in {longest:.1f} s at most"
        )
    if verdict.left_in:
        sentences.append(
            f"read models that still show the drill: {', '.join(verdict.left_in)}; once they can "
            f"be worked on, run `alloc-es projections purge NAME {verdict.tenant}` on each"
        )
    sentences.append(f"{verdict.seconds:.1f} s, tenant {verdict.tenant}, {verdict.mode}")
    return sentences
