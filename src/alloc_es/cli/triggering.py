"""The command that hands out triggers: all to whoever looks, each once to a consumer."""

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import Annotated

import typer

from alloc_es.app import Allocations
from alloc_es.cli.documents import trigger_document
from alloc_es.cli.drawing import when
from alloc_es.cli.interrupts import Interrupts
from alloc_es.cli.options import STORE, AsJson, StoreUrl, UsageError, is_given, opened
from alloc_es.cli.output import OutputLost, end_now, print_line, say
from alloc_es.cli.running import Interrupted, notices
from alloc_es.errors import StoreUnavailable
from alloc_es.events import ChallengerRejectedWithoutReplacement
from alloc_es.following import Tell, Trouble
from alloc_es.triggers import LEASE, Trigger

_LOOK = 0.25


class BeginAt(StrEnum):
    """Where in the log the first trigger is looked for."""

    BEGINNING = "beginning"
    NOW = "now"


def triggers(
    context: typer.Context,
    follow: Annotated[
        bool, typer.Option("--follow", help="Wait for new ones, until Ctrl-C or SIGTERM.")
    ] = False,
    consumer: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Take this consumer's triggers, and acknowledge each when it is printed.",
            show_default=False,
        ),
    ] = None,
    begin: Annotated[
        BeginAt, typer.Option(help="Where to begin; a known consumer goes on where it was.")
    ] = BeginAt.BEGINNING,
    lease: Annotated[
        float,
        typer.Option(
            metavar="SECONDS",
            help="How long a worker may be silent before its triggers go to others.",
        ),
    ] = LEASE,
    store: StoreUrl = STORE,
    as_json: AsJson = False,
) -> None:
    """Print each rejection without a replacement, a line each.

    Without --consumer it lists them, and records nothing. With it, what counts as done is
    that a trigger is printed: it is acknowledged once stdout has taken it, and one that was
    not printed comes again. What the reader of a pipe does with it is the reader's; a
    consumer that must not lose any acknowledges by itself, in Python.
    """
    if consumer is None and is_given(context, "lease"):
        raise UsageError("--lease is for the workers of a --consumer", context)
    interrupts = Interrupts(signal.SIGTERM)
    if consumer is not None and getattr(sys.stdout, "name", "") == os.devnull:
        # It was closed, and stands for one that swallows: nobody would have seen the triggers.
        raise OutputLost("the output is closed, so no trigger was taken")
    printer = _Printer(consumer, as_json=as_json)
    with opened(store) as allocations:
        try:
            with (
                interrupts.kept(),
                _source(allocations, consumer, begin, follow, lease, as_json) as (found, settle),
            ):
                printer.print_all(found, settle, interrupts)
        except KeyboardInterrupt:
            ended = Interrupted(printer.account)
            if interrupts.insisting:
                end_now(ended, as_json=as_json)
            if interrupts.first == signal.SIGINT:
                raise ended from None
    if not printer.printed and not as_json and not follow:
        say(f"no trigger is left for {consumer}" if consumer else "there is no trigger yet")


class _Printer:
    """Prints triggers one after the other, and settles each that is printed."""

    def __init__(self, consumer: str | None, *, as_json: bool) -> None:
        self._consumer = consumer
        self._as_json = as_json
        self.printed = 0

    def print_all(
        self, found: Iterator[Trigger], settle: Callable[[Trigger], None], interrupts: Interrupts
    ) -> None:
        """Ctrl-C ends a wait at once; what is being printed then is printed and settled."""
        while True:
            with interrupts.let_through():
                trigger = next(found, None)
            if trigger is None:
                return
            if self._as_json:
                print_line(trigger_document(trigger))
            else:
                say(_sentence(trigger))
            settle(trigger)
            self.printed += 1

    @property
    def account(self) -> str:
        """What was done so far."""
        if self._consumer is None:
            return f"{self.printed:,} triggers were printed"
        return (
            f"{self.printed:,} triggers were printed and acknowledged, the next ones stay for "
            f"the workers of {self._consumer}"
        )


@contextmanager
def _source(
    allocations: Allocations,
    consumer: str | None,
    begin: BeginAt,
    follow: bool,
    lease: float,
    as_json: bool,
) -> Iterator[tuple[Iterator[Trigger], Callable[[Trigger], None]]]:
    """The triggers, and what to call with each that was printed."""
    tell = notices(as_json=as_json)
    if consumer is None:
        after = 0 if begin is BeginAt.BEGINNING else allocations.position()
        yield _listed(allocations, after, follow=follow, tell=tell), lambda _: None
        return
    with allocations.triggers(
        consumer,
        begin=begin.value,
        follow=follow,
        lease=lease,
        tell=tell,
    ) as taken:
        yield iter(taken), taken.acknowledge


def _listed(allocations: Allocations, after: int, *, follow: bool, tell: Tell) -> Iterator[Trigger]:
    """The triggers behind a position, handed to nobody; with `follow` also those to come."""
    trouble = Trouble("triggers", tell)
    while True:
        try:
            for entry in allocations.decisions(after=after):
                after = entry.position
                if isinstance(entry.event, ChallengerRejectedWithoutReplacement):
                    yield _trigger(entry.event, after)
            trouble.over()
        except StoreUnavailable as error:
            if not (follow and error.retryable):
                raise
            time.sleep(trouble.met(error))
            continue
        if not follow:
            return
        time.sleep(_LOOK)


def _trigger(event: ChallengerRejectedWithoutReplacement, position: int) -> Trigger:
    """What a rejection is to a consumer, before it was delivered to any."""
    return Trigger(
        key=event.key,
        version=event.version,
        reason=event.reason,
        actor=event.actor,
        generation=event.generation,
        position=position,
        remaining=event.allocation.challengers,
        time=event.recorded_at,
        attempt=0,
    )


def _sentence(trigger: Trigger) -> str:
    again = f", attempt {trigger.attempt}" if trigger.attempt > 1 else ""
    live = ", ".join(trigger.remaining) or "none"
    why = f": {trigger.reason}" if trigger.reason else ""
    return (
        f"{trigger.position}: {trigger.key} rejected {trigger.version} at generation "
        f"{trigger.generation} (live: {live}), by {trigger.actor}, {when(trigger.time)}"
        f"{again}{why}"
    )
