"""Runs from a file or a pipe: settled in groups, and told before the next ones are read."""

from collections.abc import Iterator

from alloc_es.app import Allocations
from alloc_es.cli.account import Account, Outcome
from alloc_es.cli.documents import Stopped
from alloc_es.cli.exits import INTERRUPTED, STREAM_LOST
from alloc_es.cli.interrupts import Interrupts
from alloc_es.cli.lines import InputLost, Lines
from alloc_es.cli.rows import Row, Rows
from alloc_es.spawning import SpawnRequest

CHUNK = 1_000
"""How many rows are settled together at most: what one transaction takes."""


def settle(
    allocations: Allocations, lines: Lines, rows: Rows, account: Account, interrupts: Interrupts
) -> None:
    """Settle every row, in their order. Raises `Stopped` when that is not done.

    The first Ctrl-C lets the chunk that is under way be settled and told, the second does
    not.
    """
    try:
        for chunk in _chunks(lines, rows):
            account.tell(_answered(allocations, chunk))
            interrupts.check()
    except KeyboardInterrupt:
        rest = "nothing is known of the next ones" if interrupts.insisting else None
        raise _stopped("interrupted", INTERRUPTED, account, rest) from None
    except InputLost as error:
        raise _stopped(str(error), STREAM_LOST, account) from error


def _chunks(lines: Lines, rows: Rows) -> Iterator[list[Row]]:
    """Up to a chunk of what has arrived: who types, or waits for an answer, gets it at once."""
    chunk: list[Row] = []
    while not lines.at_end:
        if (row := rows.take()) is not None:
            chunk.append(row)
        if len(chunk) == CHUNK or (not lines.arrived() and chunk):
            yield chunk
            chunk = []
    if chunk:
        yield chunk


def _answered(allocations: Allocations, chunk: list[Row]) -> list[tuple[int, Outcome]]:
    asked = [content for _, content in chunk if isinstance(content, SpawnRequest)]
    answers = iter(allocations.spawn_runs(asked))
    return [
        (line, next(answers) if isinstance(content, SpawnRequest) else content)
        for line, content in chunk
    ]


def _stopped(problem: str, code: int, account: Account, rest: str | None = None) -> Stopped:
    line = account.settled
    settled = f"the rows up to line {line} are settled" if line else "no row is settled"
    message = (
        f"{problem}: {settled}, {rest or 'the next ones are not'}; "
        f"run the command again to settle them"
    )
    return Stopped(message, settled=line, exit_code=code)
