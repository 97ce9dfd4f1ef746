"""Makes two threads overlap where it matters, every time: both decided, neither appended."""

from collections.abc import Callable
from threading import Barrier, Thread
from typing import Any, TypeVar

import pytest

T = TypeVar("T")

_PATIENCE_SECONDS = 30.0


def meet_before_append(monkeypatch: pytest.MonkeyPatch, module: Any, parties: int) -> Barrier:
    """Make the first `parties` calls of a module's `append` wait for each other.

    Later calls, those of losers who decided again, pass. The barrier's `broken` says that
    the calls never met.
    """
    barrier = Barrier(parties, timeout=_PATIENCE_SECONDS)
    genuine = module.append
    places = iter(range(parties))

    def append(*arguments: Any) -> Any:
        if next(places, None) is not None:
            barrier.wait()
        return genuine(*arguments)

    monkeypatch.setattr(module, "append", append)
    return barrier


def in_threads(*calls: Callable[[], T]) -> list[T | Exception]:
    """Make the calls in a thread each; what each returned or raised, in order."""
    outcomes: list[T | Exception] = [RuntimeError("never ended")] * len(calls)

    def run(index: int) -> None:
        try:
            outcomes[index] = calls[index]()
        except Exception as error:  # noqa: BLE001 - it is the outcome
            outcomes[index] = error

    threads = [Thread(target=run, args=(index,), daemon=True) for index in range(len(calls))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(_PATIENCE_SECONDS)
    return outcomes
