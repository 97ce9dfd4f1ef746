"""`alloc-es demo`: the whole job, on a real store, with every claim checked as it is made."""

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import sqrt
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from typing import Annotated, Any
from urllib.parse import urlsplit

import typer
from rich.console import Console
from rich.progress import Progress

from alloc_es.allocation import Allocation
from alloc_es.app import Allocations
from alloc_es.cli.documents import Ended, allocation_document, split_words
from alloc_es.cli.exits import CHECK_FAILED
from alloc_es.cli.options import AsJson, refuse_memory
from alloc_es.cli.output import print_document, say
from alloc_es.cli.race import Race, race
from alloc_es.clock import new_id
from alloc_es.connecting import connect
from alloc_es.errors import ChallengerAlreadyLive
from alloc_es.events import ChallengerRejectedWithoutReplacement, RunSpawned
from alloc_es.routing import bucket_of
from alloc_es.split import BUCKETS, holds
from alloc_es.workflow import Workflow

_TENANT = "demo"
# A fair split is off by more once in 1.7 million demos (normal approximation).
_SIGMAS = 5


class ClaimFailed(Ended):
    """What the demo was about to say is not so."""

    def __init__(self, claim: str) -> None:
        super().__init__(f"the demo found this not to hold: {claim}", exit_code=CHECK_FAILED)


@dataclass(slots=True)
class _Script:
    """Tells what happens, line by line, and keeps the facts; silent when JSON is wanted."""

    quiet: bool
    facts: dict[str, Any] = field(default_factory=dict)

    def tell(self, text: str, **facts: Any) -> None:
        self.facts.update(facts)
        if not self.quiet:
            say(text)

    def check(self, claim: str, *, holds: bool) -> None:
        """Stop the demo at a claim that does not hold."""
        if not holds:
            raise ClaimFailed(claim)


def demo(
    store: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="A store that outlives a process.",
            show_default="a SQLite file that is removed afterwards",
        ),
    ] = None,
    rounds: Annotated[int, typer.Option(min=1, metavar="N", help="Rounds of the race.")] = 100,
    runs: Annotated[int, typer.Option(min=1, metavar="N", help="Runs to spawn.")] = 1_000,
    keep: Annotated[
        bool, typer.Option("--keep", help="Keep the SQLite file and say where it is.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Do the whole job on a real store, checking every claim.

    Two scheduler processes race, runs are spawned and recomputed, the challenger is
    rejected, its trigger is read once, and a fresh process reopens the store. It works on
    a workflow of its own and does not look at ALLOC_ES_STORE.
    """
    script = _Script(quiet=as_json)
    with _demo_store(store, keep=keep) as url, connect(url, actor="demo") as allocations:
        workflow = allocations.workflow(_TENANT, f"triage-{new_id()[:8]}")
        script.tell(
            f"store: {allocations.store}", store=allocations.store, workflow=str(workflow.key)
        )
        _begin(script, workflow)
        _race(script, url, workflow, rounds)
        _spawn(script, workflow, runs)
        _recompute(script, workflow, runs)
        _reject(script, allocations, workflow)
        _reopen(script, url, workflow.allocation())
        script.tell(_afterwards(url, workflow, kept=bool(store) or keep))
    if as_json:
        print_document(script.facts)


def _afterwards(url: str, workflow: Workflow, *, kept: bool) -> str:
    if not kept:
        return "the store is removed now; --keep keeps it, --store URL names one of yours"
    secret = urlsplit(url).password or "password=" in url
    shown = "URL" if secret else shlex.quote(url)
    command = f"{_TENANT} {workflow.key.workflow_id} --store {shown}"
    return f"look at it: alloc-es show {command}, or history in place of show"


def _begin(script: _Script, workflow: Workflow) -> None:
    workflow.start("v1")
    workflow.register_challenger("v2", 500)
    script.tell(f"{workflow.key} runs v1; v2 challenges it: {split_words(workflow.allocation())}")
    refused = None
    try:
        workflow.register_challenger("v3")
    except ChallengerAlreadyLive as error:
        refused = error
    script.check("a second challenger is refused, naming v2", holds=_names(refused, "v2"))
    script.tell(f"v3 is refused: {refused}", refused=str(refused))


def _race(script: _Script, url: str, workflow: Workflow, rounds: int) -> None:
    before = workflow.allocation().generation
    script.tell(f"two scheduler processes race for {rounds} rounds ...")
    key = workflow.key
    try:
        with _progress(script, "racing", rounds) as step:
            result = race(url, key.tenant_id, key.workflow_id, rounds=rounds, on_round=step)
    except RuntimeError as error:
        script.check(f"both schedulers finish ({error})", holds=False)
        raise
    script.check("each round has one winner", holds=_one_winner_each(result, rounds))
    script.check("each loser is told who won, and then commits", holds=_losers_know(result))
    generations = [entry.generation for entry in workflow.history()]
    made = generations[-1] - before
    script.check("each commit made one generation", holds=made == len(result.attempts))
    whole = generations == list(range(1, generations[-1] + 1))
    script.check("the log holds every generation once", holds=whole)
    wins = ", ".join(f"{name} won {count}" for name, count in result.wins.items())
    script.tell(
        f"{wins}; {result.conflicts} losers were told who had won, then committed; "
        f"in {result.overlapped} rounds both were at it at once",
        wins=result.wins,
        conflicts=result.conflicts,
        overlapped=result.overlapped,
        commits=made,
    )
    workflow.commit_allocation({"v2": 500}, reason="back to the split of the demo")


def _one_winner_each(result: Race, rounds: int) -> bool:
    winners = [sum(attempt.won for attempt in attempts) for attempts in result.rounds]
    return winners == [1] * rounds


def _losers_know(result: Race) -> bool:
    """Whether each loser's conflict named the round's winner and generation, not its own."""
    for attempts in result.rounds:
        won = next(attempt for attempt in attempts if attempt.won)
        for lost in (attempt for attempt in attempts if not attempt.won):
            told = (lost.winner, lost.actual) == (won.scheduler, won.generation)
            if not told or lost.generation <= won.generation:
                return False
    return True


def _spawn(script: _Script, workflow: Workflow, runs: int) -> None:
    with _progress(script, "spawning runs", runs) as step:
        arms = []
        for run_id in _run_ids(workflow, runs):
            arms.append(workflow.spawn_run(run_id).arm)
            step(len(arms))
    observed = arms.count("challenger") / runs
    share = workflow.allocation().challenger_arms[0].share_bps
    wanted = share / BUCKETS
    tolerance = _SIGMAS * sqrt(wanted * (1 - wanted) / runs)
    script.check(
        f"the challenger got {observed:.2%} of the runs, {wanted:.2%} +- {tolerance:.2%} expected",
        holds=abs(observed - wanted) <= tolerance,
    )
    script.tell(
        f"{runs} runs are recorded: {observed:.2%} went to v2, the split says {wanted:.2%} "
        f"(+- {tolerance:.2%} is chance)",
        runs=runs,
        observed_share_bps=round(observed * BUCKETS),
        split_share_bps=share,
    )


def _recompute(script: _Script, workflow: Workflow, runs: int) -> None:
    split = workflow.allocation()
    recorded = [workflow.find_run(run_id) for run_id in _run_ids(workflow, runs)]
    right = sum(run is not None and _is_explained(run, split) for run in recorded)
    script.check("each run's event explains its version", holds=right == runs)
    script.tell(f"{right} of {runs} recomputed from their stored events alone", recomputed=right)


def _run_ids(workflow: Workflow, runs: int) -> list[str]:
    return [f"{workflow.key.workflow_id}-run-{number}" for number in range(runs)]


def _is_explained(run: RunSpawned, split: Allocation) -> bool:
    """Whether a run's own event gives its bucket, and its bucket its version."""
    bucket = bucket_of(run.unit, salt=run.salt, hash_version=run.hash_version)
    owners = [arm.version for arm in split.arms if holds(arm.slots, bucket)]
    return bucket == run.bucket and owners == [run.version] and bool(holds((run.slot,), bucket))


def _reject(script: _Script, allocations: Allocations, workflow: Workflow) -> None:
    after = allocations.position()
    workflow.reject_challenger("v2", reason="worse on the eval set")
    triggers = [
        entry
        for entry in allocations.decisions(after=after)
        if isinstance(entry.event, ChallengerRejectedWithoutReplacement)
        and entry.event.key == workflow.key
    ]
    script.check("the rejection is one trigger", holds=len(triggers) == 1)
    rest = list(allocations.decisions(after=triggers[0].position))
    script.check(
        "the trigger is read once", holds=not any(e.event.key == workflow.key for e in rest)
    )
    script.tell(
        f"v2 is rejected without a replacement: one trigger, at position {triggers[0].position}",
        triggers=len(triggers),
    )


def _reopen(script: _Script, url: str, allocation: Allocation) -> None:
    command = [sys.executable, "-m", "alloc_es.cli", "show", *_names_of(allocation), "--json"]
    seen = subprocess.run(
        command, env={**os.environ, "ALLOC_ES_STORE": url}, capture_output=True, text=True
    )
    script.check(
        f"a fresh process reads the store ({seen.stderr.strip()})", holds=seen.returncode == 0
    )
    same = json.loads(seen.stdout) == json.loads(json.dumps(allocation_document(allocation)))
    script.check("a fresh process sees the same allocation", holds=same)
    script.tell(
        f"a fresh process sees the same: generation {allocation.generation}, "
        f"{split_words(allocation)}",
        generation=allocation.generation,
        split=allocation.split,
    )


def _names_of(allocation: Allocation) -> tuple[str, str]:
    return allocation.tenant_id, allocation.workflow_id


def _names(refused: ChallengerAlreadyLive | None, incumbent: str) -> bool:
    return refused is not None and refused.incumbent == incumbent


@contextmanager
def _progress(script: _Script, doing: str, total: int) -> Iterator[Callable[[int], None]]:
    """Show how many of `total` are done, on a terminal."""
    console = Console(stderr=True)
    hidden = script.quiet or not console.is_terminal
    with Progress(console=console, disable=hidden, transient=True) as progress:
        task = progress.add_task(doing, total=total)
        yield lambda done: progress.update(task, completed=done)


@contextmanager
def _demo_store(store: str | None, *, keep: bool) -> Iterator[str]:
    """The URL of the store to work on; a directory that was made for it goes, unless kept."""
    if store:
        refuse_memory(store)
        yield store
        return
    directory = Path(mkdtemp(prefix="alloc-es-demo-"))
    try:
        yield f"sqlite:///{directory / 'alloc.db'}"
    finally:
        if not keep:
            rmtree(directory, ignore_errors=True)
