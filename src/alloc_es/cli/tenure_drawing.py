"""The tenures of a workflow, drawn one under the other along its generations."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderableType

from alloc_es.cli.drawing import Rows, fills_of, look, when
from alloc_es.cli.output import one_line
from alloc_es.split import Share
from alloc_es.tenures import Tenure

_BAR_WIDTH = 24


@dataclass(frozen=True, slots=True)
class TenureDrawing:
    """A bar and a row for each tenure; `runs` are how many runs each got, None if not counted."""

    tenures: Sequence[Tenure]
    runs: Sequence[int] | None
    generations: int

    def __rich_console__(
        self, console: Console, options: ConsoleOptions
    ) -> Iterator[RenderableType]:
        """Draw with the characters that a terminal has."""
        fills = fills_of(options)
        rows = [self._row(place, fills) for place in range(len(self.tenures))]
        yield Rows(
            columns=("VERSION", "ROLE", "SERVED", "GENERATIONS", "SHARE", "RUNS", "HOW IT ENDED"),
            cells=rows,
            titles=[f"{version}  {role}" for version, role, *_ in rows],
            details=[
                (bar, f"generation {generations}: {share}; runs: {runs}", ended)
                for _, _, bar, generations, share, runs, ended in rows
            ],
        )

    def _row(self, place: int, fills: str) -> tuple[str, ...]:
        tenure = self.tenures[place]
        return (
            one_line(tenure.version),
            tenure.role,
            _bar(tenure, self.generations, fills),
            _generations(tenure),
            _share(tenure),
            "-" if self.runs is None else f"{self.runs[place]:,}",
            _ended(tenure),
        )


def _bar(tenure: Tenure, generations: int, fills: str) -> str:
    """The generations from left to right; a tenure has one cell at least."""
    width = min(generations, _BAR_WIDTH)
    end = generations + 1 if tenure.ended is None else tenure.ended.generation
    first = (tenure.began.generation - 1) * width // generations
    cells = max(1, (end - 1) * width // generations - first)
    fill, _ = look(0 if tenure.role == "current" else 1, fills)
    return f"{' ' * first}{fill * cells}"


def _generations(tenure: Tenure) -> str:
    """The generations at which it served."""
    first = tenure.began.generation
    if tenure.ended is None:
        return f"{first} on"
    last = tenure.ended.generation - 1
    return f"{first}" if first == last else f"{first} to {last}"


def _share(tenure: Tenure) -> str:
    """The shares that it had, one after the other; of many the first and the last.

    Where these two are one, the least and the most.
    """
    shares = [Share(share) for _, share in tenure.shares]
    if len(shares) <= 3:
        return ", ".join(map(str, shares))
    steps = f"in {len(shares) - 1} steps"
    if shares[0] == shares[-1]:
        return f"{min(shares)} to {max(shares)}, {steps}"
    return f"{shares[0]} to {shares[-1]} {steps}"


def _ended(tenure: Tenure) -> str:
    ended = tenure.ended
    if ended is None:
        return "still serving"
    why = f": {one_line(ended.reason)}" if ended.reason else ""
    return f"{tenure.outcome} by {one_line(ended.actor)}, {when(ended.time)}{why}"
