"""Linearizability by its definition: try every order of the operations."""

from collections.abc import Sequence

from alloc_es.drill.history import Op


def is_linearizable(ops: Sequence[Op], log: Sequence[str]) -> bool:
    """Whether some order keeps time, tells each operation what it was told, and makes the log.

    What the log holds of nobody here may come at any time.
    """
    return _completes(tuple(ops), log, 0, {op.command_id for op in ops})


def _completes(left: tuple[Op, ...], log: Sequence[str], state: int, ours: set[str | None]) -> bool:
    if state < len(log) and log[state] not in ours and _completes(left, log, state + 1, ours):
        return True
    if not left:
        return state == len(log)
    for index, op in enumerate(left):
        if any(_precedes(other, op) for other in left):
            continue
        after = _applied(op, log, state)
        rest = left[:index] + left[index + 1 :]
        if after is not None and _completes(rest, log, after, ours):
            return True
    return False


def _precedes(one: Op, other: Op) -> bool:
    return one.outcome != "unknown" and one.ended is not None and one.ended < other.began


def _applied(op: Op, log: Sequence[str], state: int) -> int | None:
    """The state after an operation; None where it can't come now."""
    if op.kind == "read" or op.outcome == "lost":
        fits = op.outcome == "unknown" or op.found == state
        if op.outcome == "lost":
            fits = fits and op.found != op.expected and op.command_id not in log
        return state if fits else None
    if op.outcome == "unknown" and op.command_id not in log:
        return state
    fits = state < len(log) and log[state] == op.command_id and op.expected in (None, state)
    if op.outcome == "ok":
        fits = fits and op.made == state + 1
    return state + 1 if fits else None
