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
from alloc_es.identity import WorkflowKey, parse_identifier
from alloc_es.split import Share


def init(store: StoreUrl = STORE, as_json: AsJson = False) -> None:
    """Make the tables of a store, or bring those of an older release up to date."""
    with opened(store, migrate=True) as allocations:
        if as_json:
            print_document({"store": allocations.store, "ready": True})
        else:
            say(f"{allocations.store} is ready")


def start(
    tenant: Tenant,
    workflow: WorkflowId,
    version: VersionId,
    store: StoreUrl = STORE,
    expected_generation: Expected = None,
    command_id: CommandId = None,
    reason: Reason = "",
    actor: Actor = None,
    as_json: AsJson = False,
) -> None:
    """Give a workflow its first current version; makes the store if there is none."""
    sender = Sender(expected_generation, command_id, reason, actor)
    WorkflowKey.parse(tenant, workflow)
    parse_identifier("version", version)
    with opened(store, migrate=True) as allocations:
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
    """Let a version compete with the current one for a share of the traffic."""
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
    store: StoreUrl = STORE,
    expected_generation: Expected = None,
    command_id: CommandId = None,
    reason: Reason = "",
    actor: Actor = None,
    as_json: AsJson = False,
) -> None:
    """Set the shares of live challengers; the current version gets the rest."""
    sender = Sender(expected_generation, command_id, reason, actor)
    wish = parse_shares(shares)
    with opened(store) as allocations:
        target = allocations.workflow(tenant, workflow)
        committed = target.commit_allocation(wish, **sender.keywords)
    print_committed(committed, as_json=as_json)


def promote(
    tenant: Tenant,
    workflow: WorkflowId,
    version: VersionId,
    store: StoreUrl = STORE,
    expected_generation: Expected = None,
    command_id: CommandId = None,
    reason: Reason = "",
    actor: Actor = None,
    as_json: AsJson = False,
) -> None:
    """Make a live challenger the current version."""
    sender = Sender(expected_generation, command_id, reason, actor)
    with opened(store) as allocations:
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
    store: StoreUrl = STORE,
    expected_generation: Expected = None,
    command_id: CommandId = None,
    reason: Reason = "",
    actor: Actor = None,
    as_json: AsJson = False,
) -> None:
    """Take a live challenger out; without a replacement this is the generate trigger."""
    sender = Sender(expected_generation, command_id, reason, actor)
    with opened(store) as allocations:
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
    store: StoreUrl = STORE,
    expected_generation: Expected = None,
    command_id: CommandId = None,
    reason: Reason = "",
    actor: Actor = None,
    as_json: AsJson = False,
) -> None:
    """Make an earlier current version current again."""
    sender = Sender(expected_generation, command_id, reason, actor)
    with opened(store) as allocations:
        target = allocations.workflow(tenant, workflow)
        committed = target.roll_back(
            to_generation=to_generation, drop=drop or (), **sender.keywords
        )
    print_committed(committed, as_json=as_json)


COMMANDS = (init, start, register, commit, promote, reject, rollback)
