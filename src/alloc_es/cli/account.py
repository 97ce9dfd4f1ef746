"""What became of many rows: told as it becomes known, counted, and summed up."""

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TypeGuard

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from alloc_es.cli.documents import Stopped, error_document, run_json
from alloc_es.cli.exits import USAGE, exit_code
from alloc_es.cli.output import knows_utf, print_aside, print_error, safe_json, write
from alloc_es.cli.rows import InvalidRow
from alloc_es.errors import AllocationError, OutcomeUnknown, StoreUnavailable, UnreadableEvent
from alloc_es.events import RunSpawned

Outcome = RunSpawned | AllocationError | InvalidRow
Loss = StoreUnavailable | OutcomeUnknown


class Account:
    """Tells rows in their order: runs as JSON lines on stdout, what failed on stderr."""

    def __init__(self, *, as_json: bool) -> None:
        self._as_json = as_json
        self.on_told: Callable[[str], None] = lambda _: None
        """Called with how far it is, after every chunk."""
        self._utf = knows_utf(sys.stdout)
        self._began = time.perf_counter()
        self.recorded = 0
        self.known = 0
        self.failed = 0
        self.unknown = 0
        self.settled = 0
        """The last line up to which every row is settled and told."""
        self.code = 0
        """The highest exit code that one of the rows alone would have ended with."""

    def tell(self, answered: Iterable[tuple[int, Outcome]]) -> None:
        """Tell of rows. Raises `OutputLost`, and `Stopped` where the store gave no answer."""
        texts: list[str] = []
        settled, lost = self.settled, None
        for line, outcome in answered:
            if isinstance(outcome, RunSpawned):
                texts.append(self._told(outcome, line))
            else:
                self._fail(outcome, line)
                if lost is None and _is_loss(outcome):
                    lost = outcome, line
            if lost is None:
                settled = line
        if texts:
            write("".join(texts))
        self.settled = settled
        self.on_told(f"{self.recorded + self.known:,} runs, {self.failed:,} failed")
        if lost:
            raise self._stopped(*lost)

    def sum_up(self, rerouted: int) -> None:
        """Print how many rows came to what, for people and on stderr."""
        seconds = time.perf_counter() - self._began
        rate = (self.recorded + self.known) / seconds
        unknown = f"{self.unknown:,} of unknown outcome, " if self.unknown else ""
        summary = {
            "recorded": self.recorded,
            "known": self.known,
            "failed": self.failed,
            "unknown": self.unknown,
            "rerouted": rerouted,
            "seconds": round(seconds, 3),
            "runs_per_second": round(rate),
        }
        sentence = (
            f"{self.recorded:,} recorded, {self.known:,} known before, {self.failed:,} failed, "
            f"{unknown}{rerouted:,} re-routed; {rate:,.0f} runs/s"
        )
        print_aside({"summary": summary}, sentence, as_json=self._as_json)

    def _told(self, run: RunSpawned, line: int) -> str:
        if run.replayed:
            self.known += 1
        else:
            self.recorded += 1
        return f"{safe_json(run_json(run, line), utf=self._utf)}\n"

    def _fail(self, error: AllocationError | InvalidRow, line: int) -> None:
        code = USAGE if isinstance(error, InvalidRow) else exit_code(error)
        self.code = max(self.code, code)
        if isinstance(error, OutcomeUnknown):
            self.unknown += 1
        elif _is_loss(error):
            # One word for all of these rows, at the end: this call recorded none of them.
            return
        else:
            self.failed += 1
        document = error_document(error, str(error), code)
        document["error"]["line"] = line
        print_error(document, as_json=self._as_json)

    def _stopped(self, loss: Loss, line: int) -> Stopped:
        message = (
            f"{loss.problem}; from line {line} on nothing is known, "
            f"run the command again to settle it"
        )
        return Stopped(message, settled=self.settled, exit_code=self.code)


def _is_loss(outcome: Outcome) -> TypeGuard[Loss]:
    """Whether an error is the store's and not the row's: the next row would get it too."""
    return isinstance(outcome, StoreUnavailable | OutcomeUnknown) and not isinstance(
        outcome, UnreadableEvent
    )


@contextmanager
def progress(size: int | None, settled: Callable[[], int]) -> Iterator[Callable[[str], None]]:
    """Show how much of `size` bytes is settled, where a terminal has nothing else to show.

    On a terminal that gets the runs themselves, these are what moves.
    """
    console = Console(stderr=True)
    hidden = not console.is_terminal or sys.stdout.isatty()
    if hidden:
        yield lambda _: None
        return
    elapsed = (TimeElapsedColumn(), TextColumn("elapsed"))
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        *elapsed,
        console=console,
        transient=True,
        redirect_stdout=False,
    ) as bar:
        task = bar.add_task("0 runs", total=size)

        def show(said: str) -> None:
            done = settled()
            part = f", {done / size:.0%} of the file" if size else ""
            bar.update(task, description=f"{said}{part}", completed=done)

        yield show
