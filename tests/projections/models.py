"""Projections of the tests' own, and installed ones that were built by another version."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from alloc_es import Allocations, Column, Projection, Recorded, Rows, Table
from alloc_es.projection import Apply
from tests.projections.reading import execute

SEEN = Table(
    "seen",
    "One row for each decision.",
    (
        Column("tenant_id", "text", "The tenant."),
        Column("workflow_id", "text", "The workflow."),
        Column("position", "integer", "Its position."),
    ),
    key=("tenant_id", "workflow_id", "position"),
)


def note(events: Sequence[Recorded[Any]], rows: Rows) -> None:
    """A row for each decision."""
    rows.insert("seen", [(*entry.event.key, entry.position) for entry in events])


def seen(apply: Apply = note, **changes: Any) -> Projection:
    """A small projection of the decisions."""
    whole: dict[str, Any] = {
        "name": "seen",
        "version": 1,
        "meaning": "Which decisions were seen.",
        "logs": ("decisions",),
        "tables": (SEEN,),
        "apply": apply,
    }
    return Projection(**whole | changes)


def refusing(is_bad: Callable[[Recorded[Any]], bool]) -> Apply:
    """An `apply` that can't handle some events."""

    def apply(events: Sequence[Recorded[Any]], rows: Rows) -> None:
        for entry in events:
            if is_bad(entry):
                raise LookupError(f"no rate for\n{entry.event.key.workflow_id}")
        note(events, rows)

    return apply


@contextmanager
def older(allocations: Allocations, name: str) -> Iterator[None]:
    """Let the live build of a projection be one that another version has made."""
    statement = "UPDATE projection_builds SET version = version + ? WHERE name = ?"
    execute(allocations, statement, 1, name)
    yield
    execute(allocations, statement, -1, name)
