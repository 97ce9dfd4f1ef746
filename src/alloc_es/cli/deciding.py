"""The commands that decide, and `init`, which makes the tables that they write to."""

from typing import Annotated

import typer

from alloc_es.cli.options import (
    STORE,
    Actor,
    AsJson,
    CommandId,
    Expected,
    MaxChallengers,
    Reason,
    Sender,
    StoreUrl,
    Tenant,
    VersionId,
    WorkflowId,
    opened,
    parse_share,
    parse_shares,
)
from alloc_es.cli.output import print_committed, print_document, say
from alloc_es.errors import StoreNotInitialised
from alloc_es.identity import WorkflowKey, parse_identifier
from alloc_es.split import Share
from alloc_es.store.schema import SCHEMA_VERSION


def init(store: StoreUrl = STORE, as_json: AsJson = False) -> None:
    """Make a store's tables, or upgrade those of an older release."""
    found = _schema_version(store)
    with opened(store, migrate=True) as allocations:
        where = allocations.store
    match found:
        case 0:
            done, words = "created", "its tables were made"
        case version if version < SCHEMA_VERSION:
            done, words = "upgraded", f"it was upgraded from schema version {version}"
        case _:
            done, words = "unchanged", "nothing to do"
    if as_json:
        version = SCHEMA_VERSION
        print_document({"store": where, "ready": True, "done": done, "schema_version": version})
    else:
        say(f"{where} is ready: {words}")


def _schema_version(store: str) -> int:
    """The schema version that a store is at; 0 for one without tables, or without a file."""
    try:
        opened(store).close()
    except StoreNotInitialised as missing:
        return missing.found
    return SCHEMA_VERSION


def start(
    tenant: Tenant,
    workflow: WorkflowId,
    version: VersionId,
    max_challengers: MaxChallengers = 1,
    store: StoreUrl = STORE,
    expected_generation: Expected = None,
    command_id: CommandId = None,
    reason: Reason = "",
    actor: Actor = None,
    as_json: AsJson = False,
) -> None:
    """Give a workflow its first current version.

    Makes the store if there is none.
    """
    sender = Sender(expected_generation, command_id, reason, actor)
    WorkflowKey.parse(tenant, workflow)
    parse_identifier("version", version)
    with opened(store, migrate=True, max_challengers=max_challengers) as allocations:
        target = allocations.workflow(tenant, workflow)
        print_committed(target.start(version, **sender.keywords), as_json=as_json)


def register(
    tenant: Tenant,
    workflow: WorkflowId,
    version: VersionId,
    share: Annotated[
        Share, typer.Option(parser=parse_share, metavar="SHARE", help="For example 5% or 500bp.")
    ] = "5%",  # type: ignore[assignment] # typer parses the default like an argument
    max_challengers: MaxChallengers = 1,
    store: StoreUrl = STORE,
    expected_generation: Expected = None,
    command_id: CommandId = None,
    reason: Reason = "",
    actor: Actor = None,
    as_json: AsJson = False,
) -> None:
    """Let a version compete for a share of the traffic.

    Refused while another challenger is live, unless --max-challengers allows more.
    """
    sender = Sender(expected_generation, command_id, reason, actor)
    with opened(store, max_challengers=max_challengers) as allocations:
        target = allocations.workflow(tenant, workflow)
        committed = target.register_challenger(version, share, **sender.keywords)
    print_committed(committed, as_json=as_json)


def commit(
    tenant: Tenant,
    workflow: WorkflowId,
    shares: Annotated[
        list[str],
        typer.Argument(metavar="VERSION=SHARE", help="For example v2=10%.", show_default=False),
    ],
    max_challengers: MaxChallengers = 1,
    store: StoreUrl = STORE,
    expected_generation: Expected = None,
    command_id: CommandId = None,
    reason: Reason = "",
    actor: Actor = None,
    as_json: AsJson = False,
) -> None:
    """Set challengers' shares; the current version gets the rest."""
    sender = Sender(expected_generation, command_id, reason, actor)
    wish = parse_shares(shares)
    with opened(store, max_challengers=max_challengers) as allocations:
        target = allocations.workflow(tenant, workflow)
        committed = target.commit_allocation(wish, **sender.keywords)
    print_committed(committed, as_json=as_json)


def promote(
    tenant: Tenant,
    workflow: WorkflowId,
    version: VersionId,
    max_challengers: MaxChallengers = 1,
    store: StoreUrl = STORE,
    expected_generation: Expected = None,
    command_id: CommandId = None,
    reason: Reason = "",
    actor: Actor = None,
    as_json: AsJson = False,
) -> None:
    """Make a live challenger the current version."""
    sender = Sender(expected_generation, command_id, reason, actor)
    with opened(store, max_challengers=max_challengers) as allocations:
        target = allocations.workflow(tenant, workflow)
        committed = target.promote_challenger(version, **sender.keywords)
    print_committed(committed, as_json=as_json)


def reject(
    tenant: Tenant,
    workflow: WorkflowId,
    version: VersionId,
    replacement: Annotated[
        str | None,
        typer.Option(
            metavar="VERSION", help="The version that takes over its slot.", show_default=False
        ),
    ] = None,
    max_challengers: MaxChallengers = 1,
    store: StoreUrl = STORE,
    expected_generation: Expected = None,
    command_id: CommandId = None,
    reason: Reason = "",
    actor: Actor = None,
    as_json: AsJson = False,
) -> None:
    """Take a live challenger out, or replace it.

    Without a replacement this is the trigger to generate another version.
    """
    sender = Sender(expected_generation, command_id, reason, actor)
    with opened(store, max_challengers=max_challengers) as allocations:
        target = allocations.workflow(tenant, workflow)
        committed = target.reject_challenger(version, replacement=replacement, **sender.keywords)
    print_committed(committed, as_json=as_json)


def rollback(
    tenant: Tenant,
    workflow: WorkflowId,
    to_generation: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Go back to the version that was current then.",
            show_default="the previous current version",
        ),
    ] = None,
    drop: Annotated[
        list[str] | None,
        typer.Option(
            metavar="VERSION", help="A live challenger to take out; repeatable.", show_default=False
        ),
    ] = None,
    max_challengers: MaxChallengers = 1,
    store: StoreUrl = STORE,
    expected_generation: Expected = None,
    command_id: CommandId = None,
    reason: Reason = "",
    actor: Actor = None,
    as_json: AsJson = False,
) -> None:
    """Make an earlier current version current again.

    Live challengers must be named with --drop.
    """
    sender = Sender(expected_generation, command_id, reason, actor)
    with opened(store, max_challengers=max_challengers) as allocations:
        target = allocations.workflow(tenant, workflow)
        committed = target.roll_back(
            to_generation=to_generation, drop=drop or (), **sender.keywords
        )
    print_committed(committed, as_json=as_json)
