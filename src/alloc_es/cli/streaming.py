"""Runs from a file or a pipe: settled in groups, told one by one, whatever ends the command."""

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor

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


class Stream:
    """Settles rows in their order. While one chunk is under way the next one is read.

    A chunk is sent when it is full, when the input ends, and when nothing more has arrived:
    somebody who types gets an answer for each line, and under load chunks fill up.
    """

    def __init__(
        self,
        allocations: Allocations,
        lines: Lines,
        rows: Rows,
        account: Account,
        interrupts: Interrupts,
    ) -> None:
        self._allocations = allocations
        self._lines = lines
        self._rows = rows
        self._account = account
        self._interrupts = interrupts
        self._worker = ThreadPoolExecutor(1, "alloc-es rows")
        self._under_way: tuple[list[Row], Future[list[Outcome]]] | None = None

    def settle(self) -> None:
        """Settle every row. Raises `Stopped` when that is not done.

        The first Ctrl-C lets the chunk that is under way be settled and told, the second
        does not.
        """
        try:
            self._follow()
        except KeyboardInterrupt:
            if not self._interrupts.insisting:
                self._finish()
            raise self._stopped("interrupted", INTERRUPTED) from None
        except InputLost as error:
            self._finish()
            raise self._stopped(str(error), STREAM_LOST) from error
        finally:
            self._worker.shutdown(wait=False)

    def _follow(self) -> None:
        for chunk in self._chunks():
            answered = self._answer()
            if chunk and not self._interrupts.heard and not self._account.is_lost(answered):
                self._under_way = chunk, self._worker.submit(self._ask, chunk)
            self._account.tell(answered)
            self._interrupts.check()
        self._account.tell(self._answer())

    def _finish(self) -> None:
        try:
            self._account.tell(self._answer())
        except KeyboardInterrupt:
            return

    def _chunks(self) -> Iterator[list[Row]]:
        """What has arrived, up to a chunk; an empty one when the next row must be waited for."""
        chunk: list[Row] = []
        while not self._lines.at_end:
            if (row := self._rows.take()) is not None:
                chunk.append(row)
            if len(chunk) == CHUNK:
                yield chunk
                chunk = []
            while not self._lines.arrived():
                yield chunk
                if not chunk:
                    break
                chunk = []
        yield chunk

    def _answer(self) -> list[tuple[Row, Outcome]]:
        """Wait for what became of the chunk that is under way, if there is one."""
        if self._under_way is None:
            return []
        chunk, work = self._under_way
        outcomes = work.result()
        self._under_way = None
        return list(zip(chunk, outcomes, strict=True))

    def _ask(self, chunk: list[Row]) -> list[Outcome]:
        asked = [content for _, content in chunk if isinstance(content, SpawnRequest)]
        answers = iter(self._allocations.spawn_runs(asked))
        return [
            next(answers) if isinstance(content, SpawnRequest) else content for _, content in chunk
        ]

    def _stopped(self, problem: str, code: int) -> Stopped:
        line = self._account.settled
        settled = f"the rows up to line {line} are settled" if line else "no row is settled"
        rest = "nothing is known of the next ones" if self._under_way else "the next ones are not"
        message = f"{problem}: {settled}, {rest}; run the command again to settle them"
        return Stopped(message, settled=line, exit_code=code)
