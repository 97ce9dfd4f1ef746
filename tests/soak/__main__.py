"""`make soak`: the drills of the report, one after the other, and a row for each.

`ALLOC_ES_SOAK_SHARE=0.1` plays a tenth of everything; `ALLOC_ES_SOAK_ONLY=kills` what has
that word in its name. The rows go to stdout as a table in Markdown, what is found to stderr,
and the exit code is 6 if anything was.
"""

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple, get_args

from alloc_es.connecting import connect
from alloc_es.drill.drill import drill
from alloc_es.drill.plan import FaultKind
from alloc_es.drill.settings import Settings
from alloc_es.drill.verdict import Verdict
from alloc_es.harness import Mode
from tests.support.postgres import PostgresServer, with_schema
from tests.support.restarting import restart_command

_HEAD = (
    "| store | drill | mode | schedulers | rounds | won | conflicts | at the commit | runs "
    "| routed again | settled | restarted | faults | back in service, s | findings | s |"
)
_RULE = "|---|---|---|" + "---:|" * 9 + "---|---:|---:|---:|"
_FOUND = 6


class Case(NamedTuple):
    """One drill: its name, on which store, with whom, for how long, and what befalls them."""

    name: str
    store: str
    mode: Mode
    schedulers: int
    rounds: int
    faults: dict[FaultKind, int]


class Stores(NamedTuple):
    """Where the drills are played."""

    sqlite: str
    postgresql: str
    restart: str

    def url(self, case: Case) -> str:
        """A store of the case's own."""
        if case.store == "SQLite":
            return f"{self.sqlite}/{case.name}-{case.mode}-{case.schedulers}.db".replace(" ", "-")
        schema = f"{case.name}_{case.mode}_{case.schedulers}".replace(" ", "_")
        return with_schema(self.postgresql, schema)


def cases(share: float) -> Iterator[Case]:
    """Every drill, of which `share` is played."""

    def part(count: int) -> int:
        return max(2, round(count * share))

    for store in ("PostgreSQL", "SQLite"):
        for mode in get_args(Mode):
            for schedulers in (2, 8):
                yield Case("races", store, mode, schedulers, part(10_000), {"crowd": part(20)})
        kills: dict[FaultKind, int] = {"kill": part(260), "pause": part(20), "clock step": part(50)}
        yield Case("kills", store, "process", 3, part(2_000), kills)
    breaks: dict[FaultKind, int] = {
        "cut": part(50),
        "delay": part(20),
        "termination": part(50),
        "black hole": part(5),
    }
    yield Case("lost replies", "PostgreSQL", "process", 3, part(2_000), {"lost reply": part(200)})
    yield Case("broken connections", "PostgreSQL", "process", 3, part(1_000), breaks)
    yield Case("restarts", "PostgreSQL", "process", 3, part(400), {"restart": part(20)})
    yield Case("full disks", "SQLite", "process", 3, part(500), {"full disk": part(50)})


def main() -> int:
    """Play the drills; the exit code."""
    share = float(os.environ.get("ALLOC_ES_SOAK_SHARE", "1"))
    only = os.environ.get("ALLOC_ES_SOAK_ONLY", "")
    findings = 0
    print(_HEAD, _RULE, sep="\n", flush=True)
    with _stores() as stores:
        for case in cases(share):
            if only not in case.name:
                continue
            verdict = _played(case, stores)
            findings += len(verdict.problems)
            print(_row(case, verdict), flush=True)
            for problem in verdict.problems:
                print(f"{case}: {problem}", file=sys.stderr, flush=True)
    return _FOUND if findings else 0


def _played(case: Case, stores: Stores) -> Verdict:
    connect(stores.url(case)).close()
    settings = Settings(
        url=stores.url(case),
        mode=case.mode,
        schedulers=case.schedulers,
        rounds=case.rounds,
        faults=case.faults,
        restart=stores.restart if case.faults.get("restart") else None,
        seed=case.rounds,
    )

    def show(done: int) -> None:
        print(f"\r{case.store}, {case.name}: {done:,} of {case.rounds:,}", end="", file=sys.stderr)

    terminal = sys.stderr.isatty()
    verdict = drill(settings, on_round=show if terminal else lambda _: None)
    if terminal:
        print("\r\033[K", end="", file=sys.stderr)
    return verdict


def _row(case: Case, verdict: Verdict) -> str:
    faults = ", ".join(f"{count} {kind}" for kind, count in verdict.faults.items()) or "none"
    outage = f"{max(verdict.outages):.1f}" if verdict.outages else "-"
    counts = (
        verdict.rounds,
        sum(score.won for score in verdict.scores.values()),
        verdict.conflicts,
        verdict.lost_at_commit,
        verdict.runs,
        "-" if verdict.rerouted is None else verdict.rerouted,
        verdict.settled,
        verdict.restarted,
    )
    cells = [case.store, case.name, case.mode, case.schedulers, *counts, faults, outage]
    return f"| {' | '.join(map(_cell, [*cells, len(verdict.problems), round(verdict.seconds)]))} |"


def _cell(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)


@contextmanager
def _stores() -> Iterator[Stores]:
    with ExitStack() as held:
        home = held.enter_context(tempfile.TemporaryDirectory())
        server = held.enter_context(PostgresServer())
        restart = held.enter_context(restart_command(server))
        yield Stores(f"sqlite:///{Path(home)}", server.url, restart)


if __name__ == "__main__":
    sys.exit(main())
