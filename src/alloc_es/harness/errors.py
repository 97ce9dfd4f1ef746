"""What a launcher refuses, each with its facts as fields."""

from collections.abc import Iterable, Mapping

from alloc_es.errors import AllocationError
from alloc_es.wording import with_article


class HarnessError(AllocationError):
    """What a launcher and its participants refuse, or fail at."""


class UnknownParticipant(HarnessError):
    """Nobody of this `name` was started here; `known` are those who were, also the `ended`."""

    def __init__(self, name: str, known: Iterable[str], ended: Iterable[str] = ()) -> None:
        self.name = name
        self.known = tuple(known)
        self.ended = tuple(ended)
        marked = (f"{each!r}{' (ended)' * (each in self.ended)}" for each in self.known)
        there = f"those that were are {', '.join(marked)}" if self.known else "nobody was"
        super().__init__(f"no participant {name!r} was started here; {there}")


class AlreadyStarted(HarnessError):
    """A participant of this `name` runs, as `incarnation`; None while it is being started.

    Nothing was started.
    """

    def __init__(self, name: str, incarnation: int | None) -> None:
        self.name = name
        self.incarnation = incarnation
        stands = (
            f"runs already, as incarnation {incarnation}" if incarnation else "is being started"
        )
        super().__init__(f"{name} {stands}; restart it for another one")


class NotAuthorised(HarnessError):
    """`name` was `asked` for what it was not given: its `role`, and what it `may` do.

    Nothing was sent to it.
    """

    def __init__(self, name: str, role: str, may: str, asked: str) -> None:
        self.name = name
        self.role = role
        self.may = may
        self.asked = asked
        super().__init__(f"{name} is {with_article(role)} and may {may}; it was asked to {asked}")


class ThreadBudgetSpent(HarnessError):
    """More threads were `asked` for than are left of the `budget`; `given` says who has them."""

    def __init__(self, name: str, asked: int, budget: int, given: Mapping[str, int]) -> None:
        self.name = name
        self.asked = asked
        self.budget = budget
        self.given = dict(given)
        holders = ", ".join(f"{holder} has {count}" for holder, count in self.given.items())
        left = budget - sum(self.given.values())
        super().__init__(
            f"{name} needs {asked} of {budget} threads and {left} are left "
            f"({holders or 'nobody has any'}); stop a participant or give the launcher more threads"
        )


class ParticipantEnded(HarnessError):
    """The participant `name` does not run any more: the `reason`."""

    def __init__(self, name: str, incarnation: int, reason: str) -> None:
        self.name = name
        self.incarnation = incarnation
        self.reason = reason
        super().__init__(
            f"{name}, incarnation {incarnation}, has ended: {reason}; restart it to go on"
        )


class ParticipantNotStarted(HarnessError):
    """A participant did not come up: the `problem`. Nothing is left of it."""

    def __init__(self, name: str, incarnation: int, problem: str) -> None:
        self.name = name
        self.incarnation = incarnation
        self.problem = problem
        super().__init__(f"{name}, incarnation {incarnation}, did not come up: {problem}")


class CannotKill(HarnessError):
    """Only a process can be killed; `mode` is another one."""

    def __init__(self, name: str, mode: str) -> None:
        self.name = name
        self.mode = mode
        super().__init__(f"{name} runs as {mode} and only a process can be killed; stop it")


class UnreadableRequest(HarnessError):
    """A request can't be sent to `name`, or not be read there: the `problem`.

    Nothing of it was carried out.
    """

    def __init__(self, name: str, problem: str) -> None:
        self.name = name
        self.problem = problem
        super().__init__(
            f"{name} can't be asked this: {problem}; what a request names must be importable "
            f"where {name} runs, so in a module and not in __main__"
        )


class ParticipantFailed(HarnessError):
    """A request met something that is no refusal: its `kind` and `message`.

    What had been recorded until then stays.
    """

    def __init__(self, name: str, kind: str, message: str) -> None:
        self.name = name
        self.kind = kind
        self.message = message
        super().__init__(f"{name} met an unexpected {kind}: {message}")


class NotCarriedOut(HarnessError):
    """The `incarnation` of `name` has recorded nothing for a request, and never will.

    It has a successor, which may be asked under the same `request_id`.
    """

    def __init__(self, name: str, incarnation: int, request_id: str) -> None:
        self.name = name
        self.incarnation = incarnation
        self.request_id = request_id
        super().__init__(
            f"{name}, incarnation {incarnation}, has recorded nothing for {request_id} and "
            f"never will, as it has a successor; ask that one"
        )


class RequestIdReused(HarnessError):
    """A request id, which stands for one request, came back with another one."""

    def __init__(self, name: str, request_id: str) -> None:
        self.name = name
        self.request_id = request_id
        super().__init__(
            f"{name} was asked something else under the request id {request_id}; "
            f"a request id stands for one request, use a fresh one"
        )
