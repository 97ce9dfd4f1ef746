"""What can go wrong on the read side: with projections, and with triggers."""

from alloc_es.errors import AllocationError


class ProjectionStopped(AllocationError):
    """A projection can't handle an event and stays in front of it, or can't make a view.

    `name` of the projection, `log` and `position` of the event, the `event` in words and
    the `error` that it met. Of a view `log` and `position` are None, and `event` names it.
    What was applied before is kept, other projections go on.
    """

    def __init__(
        self, name: str, *, log: str | None, position: int | None, event: str, error: str
    ) -> None:
        self.name = name
        self.log = log
        self.position = position
        self.event = event
        self.error = error
        place = "" if position is None else f" in front of position {position} of the {log}"
        super().__init__(
            f"projection {name} stopped{place}: {event}: {error}; "
            f"mend its code and run it again, or rebuild it"
        )


class ProjectionOutdated(AllocationError):
    """A read model was built by version `built` of a projection, and the code has `known`.

    Nothing is mixed: the model stays as it is until the newer code rebuilds it.
    """

    def __init__(self, name: str, *, built: int, known: int) -> None:
        self.name = name
        self.built = built
        self.known = known
        advice = (
            f"rebuild it: alloc-es projections rebuild {name}"
            if built < known
            else "upgrade the package that it comes with"
        )
        super().__init__(
            f"projection {name} was built by its version {built}, installed is {known}; {advice}"
        )


class ProjectionNotBuilt(AllocationError):
    """A projection was never built in this store, so there is no read model to work on."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(
            f"projection {name} was never built here; build it: "
            f"alloc-es projections run {name} --catch-up"
        )


class ProjectionBehind(AllocationError):
    """A read model did not come up to a position in time.

    `position` of the `log` was waited for, `reached` is how far the model is, None while
    there is none.
    """

    def __init__(
        self, name: str, *, log: str, position: int, reached: int | None, seconds: float
    ) -> None:
        self.name = name
        self.log = log
        self.position = position
        self.reached = reached
        self.seconds = seconds
        stands = "is not built" if reached is None else f"is at {reached}"
        super().__init__(
            f"projection {name} {stands}, not at position {position} of the {log}, after "
            f"{seconds:g} s; see whether it runs: alloc-es projections status"
        )


class TriggerLost(AllocationError):
    """A worker does not hold a trigger, so its acknowledgement counts for nothing.

    It was silent for longer than its lease, or gave the trigger back, and another delivery
    settles it; or it was acknowledged before, where that is to be part of a transaction.
    `position` is the trigger's, and `consumer` whose it is.
    """

    def __init__(self, consumer: str, position: int) -> None:
        self.consumer = consumer
        self.position = position
        super().__init__(
            f"the trigger at position {position} is not held by this worker of {consumer}: it was "
            f"acknowledged before, given back, or taken away after too long a silence; undo what "
            f"was done for it, or make sure that doing it twice does no harm"
        )
