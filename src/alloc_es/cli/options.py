"""The arguments and options that commands share."""

import getpass
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, cast

import typer

from alloc_es.app import Allocations
from alloc_es.connecting import DEFAULT_STORE, connect
from alloc_es.errors import InvalidSetting, InvalidSplit
from alloc_es.split import Share

Tenant = Annotated[
    str, typer.Argument(metavar="TENANT", help="The tenant's id.", show_default=False)
]
WorkflowId = Annotated[
    str, typer.Argument(metavar="WORKFLOW", help="The workflow's id.", show_default=False)
]
VersionId = Annotated[
    str, typer.Argument(metavar="VERSION", help="A workflow version.", show_default=False)
]

StoreUrl = Annotated[
    str,
    typer.Option(
        "--store",
        metavar="URL",
        envvar="ALLOC_ES_STORE",
        help="sqlite:///path or postgresql://host/database[?schema=name].",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
MaxChallengers = Annotated[
    int,
    typer.Option(
        metavar="N",
        envvar="ALLOC_ES_MAX_CHALLENGERS",
        help="How many challengers may be live; above 1 is tournament mode.",
    ),
]
Expected = Annotated[
    int | None,
    typer.Option(
        "--expected-generation",
        metavar="N",
        help="Refuse the command unless this is the newest generation.",
        show_default=False,
    ),
]
CommandId = Annotated[
    str | None,
    typer.Option(
        "--command-id",
        metavar="ID",
        help="The same id again returns the first outcome and changes nothing.",
        show_default=False,
    ),
]
Reason = Annotated[
    str, typer.Option("--reason", metavar="TEXT", help="Why, for the record.", show_default=False)
]
Actor = Annotated[
    str | None,
    typer.Option(
        "--actor",
        metavar="NAME",
        envvar="ALLOC_ES_ACTOR",
        help="Who, for the record.",
        show_default="your user name",
    ),
]

AtGeneration = Annotated[
    int | None,
    typer.Option("--at-generation", metavar="N", help="As of a generation.", show_default=False),
]
AtPosition = Annotated[
    int | None,
    typer.Option(
        "--at-position", metavar="P", help="As of a position of the decisions.", show_default=False
    ),
]
AtTime = Annotated[
    datetime | None,
    typer.Option(
        "--at-time",
        metavar="TIME",
        parser=lambda text: parse_time(text),
        help="As of a time, for example 2026-03-01T12:00:00Z.",
        show_default=False,
    ),
]

STORE = DEFAULT_STORE

# Its class is click's in older releases of typer and typer's own in newer ones.
UsageError = cast(type[Exception], typer.BadParameter.__mro__[1])


@dataclass(frozen=True, slots=True)
class Sender:
    """What a command that decides is sent with."""

    expected_generation: int | None
    command_id: str | None
    reason: str
    actor: str | None

    @property
    def keywords(self) -> dict[str, Any]:
        """The keywords that every deciding method of `Workflow` takes."""
        return {
            "expected_generation": self.expected_generation,
            "command_id": self.command_id,
            "reason": self.reason,
            "actor": self.actor or user_name(),
        }


def opened(
    store: str,
    *,
    migrate: bool = False,
    max_challengers: int = 1,
    actor: str = "operator",
    archives: Sequence[Path] | None = None,
) -> Allocations:
    """A connection for one command. A mistyped store is reported, never created."""
    refuse_memory(store)
    return connect(
        store,
        migrate=migrate,
        max_challengers=max_challengers,
        actor=actor,
        archives=archives or (),
    )


def refuse_memory(store: str) -> None:
    """Refuse a store that would be gone when the command ends, before it is believed."""
    if store.startswith("memory:"):
        raise InvalidSetting("store", "one in memory ends with the command; name one that lasts")


def user_name() -> str:
    """The name of the user who runs the command, `operator` where the system has none."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return "operator"


def is_given(context: typer.Context, name: str) -> bool:
    """Whether an option stands on the command line or in the environment."""
    source = context.get_parameter_source(name)
    return source is not None and source.name not in ("DEFAULT", "DEFAULT_MAP")


def parse_time(text: str) -> datetime:
    """A time given on the command line; usage error when it is none, or has no zone."""
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        time = None
    if time is None or time.utcoffset() is None:
        problem = f"{text!r} is no time in ISO 8601 with its zone, as 2026-03-01T12:00:00Z is"
        raise typer.BadParameter(problem)
    return time


def parse_share(text: str) -> Share:
    """A share given on the command line; usage error when it is none."""
    try:
        return Share.parse(text)
    except InvalidSplit as error:
        raise typer.BadParameter(str(error)) from None


def parse_shares(texts: list[str]) -> dict[str, int]:
    """`VERSION=SHARE` arguments as a mapping; usage error for anything else."""
    shares: dict[str, int] = {}
    for text in texts:
        version, separator, share = text.rpartition("=")
        if not separator or not version:
            raise typer.BadParameter(f"{text!r} is not VERSION=SHARE, for example v2=10%")
        if version in shares:
            raise typer.BadParameter(f"{version!r} is given two shares")
        shares[version] = parse_share(share)
    return shares
