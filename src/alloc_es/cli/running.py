"""What goes on until a signal ends it: following, told on stderr, and long commands."""

import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from alloc_es.app import Allocations
from alloc_es.cli.documents import Ended
from alloc_es.cli.drawing import when
from alloc_es.cli.exits import INTERRUPTED, UNEXPECTED
from alloc_es.cli.interrupts import Interrupts
from alloc_es.cli.output import OutputLost, end_now, print_aside
from alloc_es.cli.standings import counted, places, watched
from alloc_es.clock import utc_now
from alloc_es.errors import AllocationError, StoreUnavailable
from alloc_es.following import Follower, Tell, Trouble
from alloc_es.projections import Projections

_LOOK = 0.25


class Interrupted(Ended):
    """A signal ended a command that would have gone on."""

    def __init__(self, message: str, exit_code: int = INTERRUPTED) -> None:
        super().__init__(f"interrupted: {message}", exit_code=exit_code)


class FollowersEnded(Ended):
    """Every follower met an error that is a bug, and each was told."""

    def __init__(self) -> None:
        super().__init__("no follower is left, see above; run it again", exit_code=UNEXPECTED)


def notices(*, as_json: bool) -> Tell:
    """What prints each sentence on stderr with its time."""

    def tell(sentence: str) -> None:
        now = utc_now()
        document = {"time": now.isoformat(), "notice": sentence}
        print_aside(document, f"{when(now)}: {sentence}", as_json=as_json)

    return tell


@contextmanager
def interruptible(message: str) -> Iterator[None]:
    """What is inside is ended by Ctrl-C and by SIGTERM, at once, which raises `Interrupted`.

    What it notes on a `KeyboardInterrupt` on its way out is told as well.
    """
    interrupts = Interrupts(signal.SIGTERM)
    try:
        with interrupts.kept(), interrupts.let_through():
            yield
    except KeyboardInterrupt as interrupt:
        said = "; ".join([message, *getattr(interrupt, "__notes__", ())])
        raise Interrupted(said, interrupts.exit_code) from None


@contextmanager
def reported(
    doing: str, rest: str, *, hidden: bool, as_json: bool
) -> Iterator[Callable[[int, int], None]]:
    """Show how far it is, and end at the next report behind a Ctrl-C, or a SIGTERM.

    That raises `Interrupted`, which says what is left: `rest`. A second one ends at once.
    """
    interrupts = Interrupts(signal.SIGTERM)
    try:
        with counted(doing, hidden=hidden) as show, interrupts.kept():

            def report(done: int, goal: int) -> None:
                show(done, goal)
                interrupts.check()

            yield report
    except KeyboardInterrupt:
        ended = Interrupted(rest, interrupts.exit_code)
        if interrupts.insisting:
            end_now(ended, as_json=as_json)
        raise ended from None


@contextmanager
def arriving(out: str) -> Iterator[None]:
    """Raise `OutputLost` where the files at a path can't be written."""
    try:
        yield
    except OSError as error:
        raise OutputLost(f"{out} could not be written: {error.strerror}") from error


def follow(
    opened: Callable[[], Allocations],
    names: Sequence[str],
    *,
    poll: float,
    listen: bool,
    as_json: bool,
) -> None:
    """Keep read models up to date until Ctrl-C, which raises `Interrupted`, or SIGTERM.

    `opened` connects to the store, and is called again for as long as that is away.
    """
    tell = notices(as_json=as_json)
    interrupts = Interrupts(signal.SIGTERM)
    with interrupts.kept():
        try:
            with interrupts.let_through():
                allocations = _opened_at_last(opened, tell)
        except KeyboardInterrupt:
            _end(interrupts, tell, "nothing was begun")
            return
        with allocations:
            try:
                projections = allocations.projections()
                _follow(projections, names, interrupts, tell, as_json, poll=poll, listen=listen)
            except KeyboardInterrupt:
                if interrupts.insisting:
                    lost = "the batches under way are undone, all others are kept"
                    end_now(Interrupted(lost, interrupts.exit_code), as_json=as_json)
                _end(interrupts, tell, "every batch under way was finished")
            else:
                raise FollowersEnded


def _opened_at_last(opened: Callable[[], Allocations], tell: Tell) -> Allocations:
    trouble = Trouble("read models", tell)
    while True:
        try:
            allocations = opened()
        except StoreUnavailable as error:
            if not error.retryable:
                raise
            time.sleep(trouble.met(error))
        else:
            trouble.over()
            return allocations


def _follow(
    projections: Projections,
    names: Sequence[str],
    interrupts: Interrupts,
    tell: Tell,
    as_json: bool,
    **keywords: Any,
) -> None:
    """Follow until nothing is left to follow, or a `KeyboardInterrupt`; then say how far."""
    states: dict[str, str] = {}
    try:
        with projections.follow(*names, **keywords, tell=tell) as follower:
            states = follower.states
            tell(f"follows {', '.join(states)}")
            with (
                watched(projections, list(states), lambda: follower.states, hidden=as_json),
                interrupts.let_through(),
            ):
                _wait(follower)
    except KeyboardInterrupt:
        away = "waiting for the store"
        if not interrupts.insisting and away not in follower.states.values():
            _account(projections, list(states), tell)
        raise


def _wait(follower: Follower) -> None:
    """Wait for as long as anything is followed."""
    while not {"failed", "closed"}.issuperset(follower.states.values()):
        time.sleep(_LOOK)


def _account(projections: Projections, names: Sequence[str], tell: Tell) -> None:
    """Tell how far each read model is, where the store answers."""
    with suppress(AllocationError):
        for status in projections.status():
            if status.name in names:
                tell(f"{status.name} is {status.standing}: {places(status)}")


def _end(interrupts: Interrupts, tell: Tell, done: str) -> None:
    if interrupts.first == signal.SIGINT:
        raise Interrupted(f"{done}; run it again to go on") from None
    tell(f"ended by SIGTERM, {done}")
