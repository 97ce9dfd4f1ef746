"""What can go wrong when one looks back: at a moment, or for a run."""

from datetime import datetime
from typing import TYPE_CHECKING

from alloc_es.errors import Refusal

if TYPE_CHECKING:
    from alloc_es.events import DecisionEvent, Recorded
    from alloc_es.identity import TenantId, WorkflowKey


class NothingThen(Refusal):
    """A workflow had no allocation at the moment that was asked for.

    That is a `generation`, a `position` or a `time`, and the other two are None. What is there
    begins at `first_generation`, which lies at `first_position` and counts from `first_time`,
    and ends with `last_generation`.
    """

    def __init__(
        self,
        key: "WorkflowKey",
        first: "Recorded[DecisionEvent]",
        last: "Recorded[DecisionEvent]",
        *,
        generation: int | None = None,
        position: int | None = None,
        time: datetime | None = None,
    ) -> None:
        self.key = key
        self.generation = generation
        self.position = position
        self.time = time
        self.first_generation = first.generation
        self.first_position = first.position
        self.first_time = first.time
        self.last_generation = last.generation
        if generation is not None:
            held = (
                f"has no generation {generation}: there is {first.generation} to {last.generation}"
            )
        elif position is not None:
            held = f"had no allocation at position {position}: its first lies at {first.position}"
        else:
            held = (
                f"had no allocation at {time and time.isoformat()}: its first is of "
                f"{first.time.isoformat()}"
            )
        later = "choose one of these" if generation is not None else "choose that or a later one"
        super().__init__(f"{key} {held}; {later}")


class UnknownRun(Refusal):
    """No run `run_id` of `tenant_id` is recorded in `where`."""

    def __init__(self, tenant_id: "TenantId", run_id: str, where: str) -> None:
        self.tenant_id = tenant_id
        self.run_id = run_id
        self.where = where
        super().__init__(
            f"no run {run_id} of tenant {tenant_id} is recorded in {where}; "
            f"look for a misspelt id, or for another store"
        )
