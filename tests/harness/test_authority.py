"""Who may ask a participant for what."""

import pickle
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from alloc_es import (
    InvalidIdentifier,
    InvalidSetting,
    SpawnRequest,
    WorkflowKey,
    connect,
)
from alloc_es.harness import (
    Decide,
    Done,
    Launcher,
    NotAuthorised,
    Pass,
    Read,
    Refused,
    Request,
    Spawn,
    UnknownParticipant,
    UnreadableRequest,
)
from alloc_es.harness.protocol import Answer, Ask, Reply, unpacked
from alloc_es.harness.worker import Worker
from alloc_es.proposals import Reshare
from tests.harness.policies import hold
from tests.harness.scripted import READ, SECONDS, opening, prompt, scripted

ROLES = ("scheduler", "spawner", "observer")


def requests(tenant: str) -> dict[str, Request]:
    """One of each kind, for a tenant."""
    key = WorkflowKey.parse(tenant, "triage")
    return {
        "decide": Decide(key, Reshare({"v2": 7})),
        "pass": Pass((key,), hold),
        "spawn": Spawn((SpawnRequest(tenant, "triage", "run-1"),)),
        "read": Read(key),
    }


MAY = {
    "scheduler": {"decide", "pass", "read"},
    "spawner": {"spawn", "read"},
    "observer": {"read"},
}
FORBIDDEN = [
    (role, tenant, kind)
    for role in ROLES
    for tenant in ("acme", "beta")
    for kind in requests("acme")
    if tenant == "beta" or kind not in MAY[role]
]


@pytest.mark.parametrize(("role", "tenant", "kind"), FORBIDDEN)
def test_what_was_not_granted_is_refused_before_anything_is_sent(
    role: str, tenant: str, kind: str
) -> None:
    """Red when a request is routed first, or a right or a tenant is not looked at."""
    with scripted(prompt, role=role) as made:
        with pytest.raises(NotAuthorised) as refused:
            made.participant.send(requests(tenant)[kind])
        assert (refused.value.name, refused.value.role) == ("s1", role)
        assert tenant in refused.value.asked
        assert "acme" in refused.value.may
        made.participant.call(READ, request_id="allowed", probe_after=SECONDS)
        assert made.hears() == Ask("allowed", pickle.dumps(READ))


@pytest.mark.parametrize(("role", "tenant", "kind"), FORBIDDEN)
def test_a_participant_that_is_asked_past_its_launcher_refuses_itself(
    role: str, tenant: str, kind: str, sqlite_url: str
) -> None:
    """Red when only the launcher looks."""
    with connect(sqlite_url) as allocations:
        allocations.workflow(tenant, "triage").start("v1")
        before = allocations.position()
        (refused,) = asked_directly(sqlite_url, role, [requests(tenant)[kind]])
        assert isinstance(refused, Refused)
        assert isinstance(refused.error, NotAuthorised)
        assert allocations.position() == before
        assert list(allocations.runs()) == []


@pytest.mark.parametrize("role", ROLES)
def test_what_was_granted_is_let_through(role: str, sqlite_url: str) -> None:
    """Red when a role may less than it was given."""
    with connect(sqlite_url) as allocations:
        workflow = allocations.workflow("acme", "triage")
        workflow.start("v1")
        workflow.register_challenger("v2")
        allowed = [asked for kind, asked in requests("acme").items() if kind in MAY[role]]
        outcomes = asked_directly(sqlite_url, role, allowed)
        assert {type(outcome) for outcome in outcomes} == {Done}


def asked_directly(url: str, role: str, asked: Iterable[Request]) -> list[Done | Refused]:
    """What a worker answers that no launcher guards."""
    with connect(url) as allocations:
        incarnation = allocations.new_incarnation("s1")
    replies: list[Reply] = []
    opened = replace(
        opening(role), incarnation=incarnation, url=url, opener="alloc_es.store:open_store"
    )
    worker = Worker(opened, replies.append)
    for number, request in enumerate(asked):
        worker.take(Ask(str(number), pickle.dumps(request)))
    worker.end()
    return [unpacked("s1", reply)[0] for reply in replies if isinstance(reply, Answer)]


def test_a_participant_acts_under_its_own_name_only() -> None:
    """Red when a spawner may record runs in somebody else's name."""
    runs = (SpawnRequest("acme", "triage", "r-1", actor="ops"),)
    own = (SpawnRequest("acme", "triage", "r-1", actor="s1"),)
    with scripted(prompt, role="spawner") as made:
        with pytest.raises(NotAuthorised, match="asked to spawn runs for acme as ops"):
            made.participant.send(Spawn(runs))
        assert made.participant.call(Spawn(own), probe_after=SECONDS) == Done("done")


def test_an_unknown_participant_is_refused_naming_the_known(sqlite_url: str) -> None:
    """Red when a request to nobody is queued, or fails without a name."""
    with Launcher(sqlite_url, threads=1) as launcher:
        launcher.start("s1", "observer", ["acme"], mode="thread")
        with pytest.raises(UnknownParticipant) as refused:
            launcher.call("s2", READ)
        assert (refused.value.name, refused.value.known) == ("s2", ("s1",))


KEY = WorkflowKey.parse("acme", "triage")
# The types are wrong on purpose: callers need not check theirs.
NO_REQUESTS: list[tuple[Any, type[Exception]]] = [
    (None, InvalidSetting),
    ("decide", InvalidSetting),
    (Decide(None, Reshare({"v2": 7})), InvalidSetting),  # type: ignore[arg-type]
    (Decide(("acme", " "), Reshare({"v2": 7})), InvalidIdentifier),  # type: ignore[arg-type]
    (Pass("acme", hold), InvalidSetting),  # type: ignore[arg-type]
    (Pass((7,), hold), InvalidSetting),  # type: ignore[arg-type]
    (Pass((KEY,), lambda _: None), UnreadableRequest),
    (Spawn(None), InvalidSetting),  # type: ignore[arg-type]
    (Spawn(("run",)), InvalidSetting),  # type: ignore[arg-type]
    (Spawn((SpawnRequest([], "triage", "r"),)), InvalidIdentifier),  # type: ignore[arg-type]
    (Spawn((SpawnRequest("acme", "triage", "r"),), callers=0), InvalidSetting),
    (Spawn((SpawnRequest("acme", "triage", "r", actor=7),)), InvalidIdentifier),  # type: ignore[arg-type]
]


@pytest.mark.parametrize(("request_", "error"), NO_REQUESTS, ids=map(str, range(len(NO_REQUESTS))))
def test_what_is_no_request_is_refused_by_name_and_nothing_is_sent(
    request_: Any, error: type[Exception]
) -> None:
    """Red when a wrong type comes out as whatever Python makes of it, or leaves a request open."""
    for role in ("scheduler", "spawner"):
        with scripted(prompt, role=role) as made:
            with pytest.raises((error, NotAuthorised)) as refused:
                made.participant.send(request_)
            assert isinstance(refused.value, error) or role != _role_for(request_)
            assert made.participant.health(0).under_way == 0
            made.participant.call(READ, request_id="allowed", probe_after=SECONDS)


def _role_for(request: object) -> str:
    return "spawner" if isinstance(request, Spawn) else "scheduler"


@pytest.mark.parametrize("request_id", ["", 7, "r\n"])
def test_a_request_id_is_an_identifier(request_id: Any) -> None:
    """Red when what can't be a command id is sent, and refused for some kinds of requests only."""
    with scripted(prompt) as made, pytest.raises(InvalidIdentifier):
        made.participant.send(READ, request_id=request_id)


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("s1", "king", ["acme"]), InvalidSetting),
        (("s1", "scheduler", "acme"), InvalidSetting),
        (("s1", "scheduler", []), InvalidSetting),
        (("s1", "scheduler", None), InvalidSetting),
        (("", "scheduler", ["acme"]), InvalidIdentifier),
        (("s1", "scheduler", [7]), InvalidIdentifier),
    ],
)
def test_who_is_no_participant_is_not_started(
    arguments: tuple[Any, Any, Any], error: type[Exception], sqlite_url: str
) -> None:
    """Red when a wrong role or tenant is found out at the first request."""
    with Launcher(sqlite_url, threads=1) as launcher:
        with pytest.raises(error):
            launcher.start(*arguments, mode="thread")
        with pytest.raises(InvalidSetting):
            launcher.start("s1", "scheduler", ["acme"], mode="fiber")  # type: ignore[arg-type]
        assert launcher.budget.given == {}
        assert launcher.allocations.newest_incarnation("s1") is None
