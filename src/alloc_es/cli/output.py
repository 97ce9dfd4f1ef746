"""How results and errors are put into words and into JSON."""

import json
import sys
from dataclasses import asdict
from datetime import datetime
from typing import Any

from rich.console import Console, RenderableType

from alloc_es.allocation import Allocation
from alloc_es.committing import Committed
from alloc_es.errors import AllocationError
from alloc_es.events import DecisionEvent
from alloc_es.routing import Routing
from alloc_es.split import Share
from alloc_es.store import Recorded
from alloc_es.wording import describe

_PIPE_WIDTH = 160


def one_line(text: str) -> str:
    """Text as one line that can't move the cursor or turn the writing direction."""
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode()
        for character in text
    )


def say(text: str) -> None:
    """Print one sentence for people."""
    print(one_line(text))


def print_rich(*parts: RenderableType) -> None:
    """Print tables and drawings: coloured and folded on a terminal, plain and wide in a pipe."""
    width = None if sys.stdout.isatty() else _PIPE_WIDTH
    console = Console(width=width, highlight=False, markup=False, emoji=False)
    console.print(*parts, sep="\n")


def print_document(document: Any) -> None:
    """Print one JSON document."""
    print(json.dumps(document, ensure_ascii=False, indent=2))


def print_committed(committed: Committed, *, as_json: bool) -> None:
    """Print what became of a command."""
    if as_json:
        print_document(committed_document(committed))
        return
    allocation = committed.allocation
    what = describe(committed.event) if committed.event else "nothing to do"
    before = ", by an earlier call" if committed.replayed else ""
    say(
        f"{allocation.key} is at generation {committed.generation} ({what}{before}): "
        f"{split_words(allocation)}"
    )


def split_words(allocation: Allocation) -> str:
    """The split in a few words, control first."""
    return ", ".join(f"{version} {Share(bps)}" for version, bps in allocation.split.items())


def committed_document(committed: Committed) -> dict[str, Any]:
    """A command's outcome, in the names of the Python API."""
    event = committed.event
    return {
        "generation": committed.generation,
        "allocation": allocation_document(committed.allocation),
        "event": event_fields(event) if event else None,
        "attempts": committed.attempts,
        "replayed": committed.replayed,
    }


def allocation_document(allocation: Allocation) -> dict[str, Any]:
    """An allocation, in the names of the Python API."""
    stored = allocation.model_dump(mode="json")
    shares = [arm.share_bps for arm in allocation.arms]
    arms = [{**arm, "share_bps": share} for arm, share in zip(stored["arms"], shares, strict=True)]
    return {
        "tenant_id": allocation.tenant_id,
        "workflow_id": allocation.workflow_id,
        "current": allocation.current,
        "challenger": allocation.challenger,
        "challengers": list(allocation.challengers),
        "split": allocation.split,
        **stored,
        "arms": arms,
    }


def event_fields(event: DecisionEvent) -> dict[str, Any]:
    """A decision with its type, without the allocation that it left behind."""
    return {"type": type(event).__name__, **event.model_dump(mode="json", exclude={"allocation"})}


def event_document(entry: Recorded[DecisionEvent]) -> dict[str, Any]:
    """A decision with its place in the log and the allocation that it left behind."""
    fields = event_fields(entry.event)
    return {
        "generation": entry.generation,
        "position": entry.position,
        "time": fields["recorded_at"],
        "what": describe(entry.event),
        **fields,
        "allocation": allocation_document(entry.event.allocation),
    }


def routing_document(routing: Routing) -> dict[str, Any]:
    """A routing, in the names of the Python API."""
    return asdict(routing)


def error_document(error: AllocationError, code: int) -> dict[str, Any]:
    """An error with its facts, as far as JSON has a form for them."""
    facts = {name: _fact(value) for name, value in vars(error).items() if not name.startswith("_")}
    return {
        "error": {
            "type": type(error).__name__,
            "message": str(error),
            "exit_code": code,
            **facts,
        }
    }


def _fact(value: Any) -> Any:
    match value:
        case None | bool() | int() | str():
            return value
        case datetime():
            return value.isoformat()
        case tuple() | list():
            return [_fact(item) for item in value]
        case Allocation():
            return allocation_document(value)
        case _ if isinstance(value, DecisionEvent):
            return event_fields(value)
        case _ if hasattr(value, "model_dump"):
            return value.model_dump(mode="json")
        case _:
            return str(value)
