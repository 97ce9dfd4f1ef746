"""Following in the foreground: told on stderr as it happens, ended by a signal."""

import signal
import time
from collections.abc import Sequence
from typing import Any

from alloc_es.cli.documents import Ended
from alloc_es.cli.drawing import when
from alloc_es.cli.exits import INTERRUPTED, UNEXPECTED
from alloc_es.cli.interrupts import Interrupts
from alloc_es.cli.output import end_now, print_aside
from alloc_es.cli.standings import watched
from alloc_es.clock import utc_now
from alloc_es.following import Follower, Tell
from alloc_es.projections import Projections

_LOOK = 0.25


class Interrupted(Ended):
    """Ctrl-C ended a command that would have gone on."""

    def __init__(self, message: str) -> None:
        super().__init__(f"interrupted: {message}", exit_code=INTERRUPTED)


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


def follow(
    projections: Projections, names: Sequence[str], *, poll: float, listen: bool, as_json: bool
) -> None:
    """Keep read models up to date until Ctrl-C, which raises `Interrupted`, or SIGTERM."""
    tell = notices(as_json=as_json)
    interrupts = Interrupts(signal.SIGTERM)
    keywords: dict[str, Any] = {"poll": poll, "listen": listen, "tell": tell}
    try:
        with interrupts.kept(), projections.follow(*names, **keywords) as follower:
            tell(f"follows {', '.join(follower.states)}")
            with (
                watched(projections, names, lambda: follower.states, hidden=as_json),
                interrupts.let_through(),
            ):
                _wait(follower)
    except KeyboardInterrupt:
        if interrupts.insisting:
            ended = Interrupted("the batches under way are undone, all others are kept")
            end_now(ended, as_json=as_json)
        if interrupts.first == signal.SIGINT:
            message = "every batch under way was finished; run it again to go on"
            raise Interrupted(message) from None
        tell("ended by SIGTERM, every batch under way was finished")
    else:
        raise FollowersEnded


def _wait(follower: Follower) -> None:
    """Wait for as long as anything is followed."""
    while not {"failed", "closed"}.issuperset(follower.states.values()):
        time.sleep(_LOOK)
