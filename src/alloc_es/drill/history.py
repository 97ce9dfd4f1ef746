"""A linearizability check of what clients were told, against the order that the log holds.

Each workflow is a register with compare-and-set whose values are its generations. The log
gives the order of the writes, and with that the check takes one pass over the operations
instead of a search: P. B. Gibbons and E. Korach, "Testing Shared Memories", SIAM Journal on
Computing 26 (1997). Linearizability is local, so it goes workflow by workflow: M. Herlihy
and J. Wing, "Linearizability", ACM TOPLAS 12 (1990).
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Literal

from alloc_es.identity import WorkflowKey

Log = Mapping[WorkflowKey, Sequence[str]]
"""The command ids of each workflow's decisions, in the order of their generations from 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Op:
    """What a process asked of a workflow, and what it was told.

    `began` and `ended` are readings of one monotonic clock for all processes. A `read`
    `found` a generation, and so did a command whose wish held already, which is a read too.
    A `cas` is any other command: it was `ok` and `made` a generation, or it `lost` and `found`
    another one than it `expected`, of which a `winner` (a command id) had come first, or its
    outcome is `unknown`. A command that was sent again under its `command_id` is an operation
    each time it is sent, and all of them are one write.
    """

    process: str
    key: WorkflowKey
    kind: Literal["read", "cas"]
    outcome: Literal["ok", "lost", "unknown"] = "ok"
    began: float
    ended: float | None
    command_id: str | None = None
    expected: int | None = None
    found: int | None = None
    made: int | None = None
    winner: str | None = None

    def __str__(self) -> str:
        asked = "read" if self.kind == "read" else f"command {self.command_id}"
        told = {
            "ok": f"found {self.found}" if self.made is None else f"made {self.made}",
            "lost": f"lost, found {self.found}",
            "unknown": "unknown",
        }
        return f"{self.process}'s {asked} ({told[self.outcome]}; {self.began} to {self.ended})"


@dataclass(frozen=True, slots=True)
class Violation:
    """Operations on a workflow that no order explains: one and the log, or two; and why."""

    key: WorkflowKey
    ops: tuple[Op, ...]
    why: str

    def __str__(self) -> str:
        return f"{self.key}: {self.why}: {' and '.join(map(str, self.ops))}"


def violations(ops: Iterable[Op], log: Log) -> Iterator[Violation]:
    """What in a history can't be; none means that it is linearizable.

    Every operation that contradicts the log, or, of a workflow with no such operation, the
    first pair that contradicts the order of time: one of them ended before the other began
    and is placed behind it by the log. An unknown command that the log holds took effect at
    some time after it began; one that the log does not hold had no effect.
    """
    by_key: defaultdict[WorkflowKey, list[Op]] = defaultdict(list)
    for op in ops:
        by_key[op.key].append(op)
    for key, own in by_key.items():
        history = _History(key, own, log.get(key, ()))
        contradictions = list(history.contradictions())
        yield from contradictions or history.misplaced()


class _History:
    """The operations on one workflow, and the order in which the log holds their writes."""

    def __init__(self, key: WorkflowKey, ops: Sequence[Op], log: Sequence[str]) -> None:
        self._key = key
        self._ops = ops
        self._log = log
        self._places = {name: place for place, name in enumerate(log, start=1)}

    def contradictions(self) -> Iterator[Violation]:
        """Each operation that was told something else than the log holds."""
        if len(self._places) < len(self._log):
            yield Violation(self._key, (), "the log holds a command id twice")
        for op in self._ops:
            why = self._why_not(op) if op.kind == "cas" else self._why_no_read(op)
            if why:
                yield Violation(self._key, (op, *self._rival(op)), why)

    def _why_not(self, op: Op) -> str | None:
        place = self._places.get(op.command_id or "")
        if op.outcome == "lost":
            return self._why_not_lost(op, place)
        if op.outcome == "ok" and place is None:
            return "it was acknowledged, and the log does not hold it"
        if op.outcome == "ok" and place != op.made:
            return f"the log holds it as generation {place}"
        if place is not None and op.expected is not None and place != op.expected + 1:
            return f"it expected generation {op.expected}, and the log holds it as {place}"
        return None

    def _why_not_lost(self, op: Op, place: int | None) -> str | None:
        if place is not None:
            return f"it was told that it lost, and the log holds it as generation {place}"
        if op.found is not None and op.found == op.expected:
            return "it lost, and what it found is what it expected"
        if op.winner is not None and op.winner not in self._possible_winners(op):
            return f"the log holds another winner than {op.winner}"
        return self._why_no_read(op)

    def _possible_winners(self, op: Op) -> set[str]:
        """Who made the generation after the one that was expected, or the one found."""
        generations = {op.found, None if op.expected is None else op.expected + 1}
        return {self._log[g - 1] for g in generations if g and g <= len(self._log)}

    def _why_no_read(self, op: Op) -> str | None:
        if op.found is None or 0 <= op.found <= len(self._log):
            return None
        return f"it found a generation, and the log ends at {len(self._log)}"

    def _rival(self, op: Op) -> Iterator[Op]:
        """Another operation that was told it had made the same generation."""
        rivals = (
            each
            for each in self._ops
            if op.made is not None
            and (each.made, each.outcome) == (op.made, "ok")
            and each.command_id != op.command_id
        )
        if rival := next(rivals, None):
            yield rival

    def misplaced(self) -> Iterator[Violation]:
        """The first operation that can't be placed where the log has it, if there is one.

        Goes through the generations and puts each operation at the earliest moment that is
        left to it: no sooner than it began, and no sooner than whatever comes before it.
        """
        writes, reads = self._writes(), self._reads()
        moment, latest = -inf, None
        for generation in range(len(self._log) + 1):
            write = writes.get(generation)
            if write and write.began > moment:
                moment, latest = write.began, write.first
            after, last = moment, latest
            placed = [(write.acknowledged, write.ended)] if write else []
            placed += [(op, op.ended) for op in reads[generation]]
            for op, ended in placed:
                if ended is not None and ended < moment:
                    assert latest is not None
                    yield self._violation(op, latest)
                    return
            for op in reads[generation]:
                if op.began > after:
                    after, last = op.began, op
            moment, latest = after, last

    def _violation(self, op: Op, later: Op) -> Violation:
        why = "the first ended before the second began, and the log places it behind that"
        return Violation(self._key, (op, later), why)

    def _writes(self) -> "dict[int, _Write]":
        """The writes of commands that were recorded here, by generation."""
        sent: defaultdict[int, list[Op]] = defaultdict(list)
        for op in self._ops:
            place = self._places.get(op.command_id or "")
            if op.kind == "cas" and place is not None:
                sent[place].append(op)
        return {place: _write(ops) for place, ops in sent.items()}

    def _reads(self) -> defaultdict[int, list[Op]]:
        """What saw each generation: reads, and commands that lost to it."""
        seen: defaultdict[int, list[Op]] = defaultdict(list)
        for op in self._ops:
            if op.outcome != "unknown" and op.made is None and op.found is not None:
                seen[op.found].append(op)
        return seen


@dataclass(frozen=True, slots=True)
class _Write:
    """A write by one command, sent once or more; `ended` is None if none was acknowledged."""

    first: Op
    acknowledged: Op
    ended: float | None

    @property
    def began(self) -> float:
        return self.first.began


def _write(ops: Sequence[Op]) -> _Write:
    first = min(ops, key=lambda op: op.began)
    answered = [op for op in ops if op.outcome == "ok" and op.ended is not None]
    acknowledged = min(answered, key=lambda op: op.ended or inf, default=first)
    return _Write(first, acknowledged, acknowledged.ended if answered else None)
