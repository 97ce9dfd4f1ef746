"""What can go wrong for schedulers: an old incarnation, and decide passes."""

from typing import TYPE_CHECKING

from alloc_es.errors import AllocationError, Refusal

if TYPE_CHECKING:
    from alloc_es.identity import WorkflowKey
    from alloc_es.pass_results import PassReport


class IncarnationSuperseded(AllocationError):
    """A connection speaks for an old incarnation of a participant; this call recorded nothing.

    `incarnation` of `name` is the connection's, and `successor` the one that the store counts
    now; None where it knows nobody of that name. It does not settle an earlier
    `OutcomeUnknown` of the same command id or run id.
    """

    def __init__(self, name: str, incarnation: int, successor: int | None) -> None:
        self.name = name
        self.incarnation = incarnation
        self.successor = successor
        if successor is not None and successor > incarnation:
            held = f"{name} is at incarnation {successor} now"
            advice = f"stop this process, incarnation {successor} goes on in its place"
        else:
            known = "does not know it" if successor is None else f"is at {successor}"
            held = f"this store never gave out incarnation {incarnation} of {name}, and {known}"
            advice = "connect with a new incarnation, once no other process has this name"
        super().__init__(
            f"{held}: incarnation {incarnation} may record no decision and no run; {advice}"
        )


class DecisionInsidePolicy(Refusal):
    """A policy decided on `key` by itself while it was asked for `asked_for`.

    A policy answers, and the pass commits its answer when the wave has ended.
    """

    def __init__(self, key: "WorkflowKey", asked_for: "WorkflowKey") -> None:
        self.key = key
        self.asked_for = asked_for
        whose = "it" if key == asked_for else str(key)
        super().__init__(
            f"the policy was asked for {asked_for} and may not decide on {whose} itself; "
            f"let it return what it proposes"
        )


class PassStopped(AllocationError):
    """A decide pass ended early because of `error`, which every workflow would have met.

    `report` holds what was done so far, which stays; the workflows that were not reached are
    "not run". Where `error` is an `OutcomeUnknown`, the decision that is in doubt is that of
    a failed result.
    """

    def __init__(self, report: "PassReport", error: AllocationError) -> None:
        self.report = report
        self.error = error
        counts = report.counts
        # One that was overtaken has been told to end, so no pass of its own goes on.
        overtaken = isinstance(error, IncarnationSuperseded)
        rest = "" if overtaken else ", and another pass goes on with the rest"
        super().__init__(
            f"the pass stopped with {counts['decided']} of {len(report.results)} workflows decided "
            f"and {counts['not run']} not run: {error}; what was decided stays{rest}"
        )
