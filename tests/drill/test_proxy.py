"""The proxy: what it makes of a URL, and what it does to messages, beside `tests/faults`."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from urllib.parse import parse_qs, urlsplit

import pytest

from alloc_es import Allocations, StoreUnavailable, connect
from alloc_es.drill.proxy import RECORD_RUNS, Proxy
from tests.support.raw import raw, until

PATIENCE_SECONDS = 60

pytestmark = pytest.mark.postgresql


@pytest.fixture
def witness(postgres_url: str) -> Iterator[Allocations]:
    """A client past the proxy, with a workflow that was started."""
    with connect(postgres_url) as allocations:
        allocations.workflow("acme", "triage").start("v1")
        yield allocations


@pytest.fixture
def slept() -> list[float]:
    """How long the proxy was to sleep, each time."""
    return []


@pytest.fixture
def proxy(postgres_url: str, slept: list[float]) -> Iterator[Proxy]:
    with Proxy(postgres_url, sleep=slept.append) as made:
        yield made


@pytest.fixture
def client(postgres_url: str, proxy: Proxy, witness: Allocations) -> Iterator[Allocations]:
    """A client behind the proxy, more patient than any fault here is long."""
    assert witness.position() == 1
    with connect(proxy.url_of(postgres_url), timeout=PATIENCE_SECONDS) as allocations:
        yield allocations


def test_a_url_keeps_its_options_and_leads_to_the_proxy_in_plain_text(
    postgres_url: str, proxy: Proxy
) -> None:
    """Red when an option of ours is given to libpq, or one is kept that asks for TLS."""
    options = "pooler=transaction&sslmode=require&channel_binding=require&options=-c%20geqo%3Doff"
    made = urlsplit(proxy.url_of(f"{postgres_url}&{options}&application_name=a+drill"))
    assert (made.scheme, made.hostname, made.port) == ("postgresql", "127.0.0.1", proxy.port)
    (schema,) = parse_qs(urlsplit(postgres_url).query)["schema"]
    said = {name: value for name, (value,) in parse_qs(made.query).items()}
    assert said.pop("user")
    said.pop("password", None)
    assert said == {
        "application_name": "a+drill",
        "dbname": said["dbname"],
        "gssencmode": "disable",
        "options": "-c geqo=off",
        "pooler": "transaction",
        "schema": schema,
        "sslmode": "disable",
    }


def test_a_server_that_can_t_be_reached_is_reported(postgres_url: str, proxy: Proxy) -> None:
    """Red when the driver's error comes through."""
    proxy.refuse()
    with pytest.raises(StoreUnavailable, match="the proxy can't reach the server"):
        Proxy(proxy.url_of(postgres_url))


def test_a_delayed_reply_comes_when_it_is_let_go(
    proxy: Proxy, client: Allocations, witness: Allocations
) -> None:
    """Red when the reply is let through at once, or the request is held back with it."""
    goes_on = Event()
    proxy.lose("delay", meanwhile=lambda: goes_on.wait(PATIENCE_SECONDS))
    with ThreadPoolExecutor(1) as pool:
        decided = pool.submit(client.workflow("acme", "triage").register_challenger, "v2")
        try:
            until(lambda: witness.position() == 2, "the decision is recorded")
            # Time enough for a reply that is not held; one that is never comes.
            with pytest.raises(TimeoutError):
                decided.result(timeout=0.5)
        finally:
            goes_on.set()
        assert decided.result().attempts == 1
    assert proxy.lost == {"delay": 1}


def test_a_delay_sleeps_as_long_as_it_was_told_and_leaves_the_connection(
    proxy: Proxy, postgres_url: str, slept: list[float]
) -> None:
    """Red when the proxy sleeps by a clock that nobody gave it, or cuts the connection then."""
    with raw(proxy.url_of(postgres_url)) as database:
        proxy.lose("delay", of="SELECT 1", seconds=2.5)
        answers = [database.execute("SELECT 1"), database.execute("SELECT 2")]
    assert (answers, slept) == ([[(1,)], [(2,)]], [2.5])


def test_a_connection_can_be_cut_while_its_reply_is_held(
    proxy: Proxy, client: Allocations, witness: Allocations
) -> None:
    """Red when a link waits out a delay that nobody waits for, or the proxy ends with it."""
    workflow = client.workflow("acme", "triage")
    proxy.lose("delay", meanwhile=proxy.cut)
    assert workflow.register_challenger("v2").generation == 2
    assert workflow.promote_challenger("v2").generation == 3
    assert [each.generation for each in witness.decisions()] == [1, 2, 3]


def test_losses_are_counted_by_their_kind(proxy: Proxy, client: Allocations) -> None:
    """Red when all kinds are one number, or an order is kept that has been carried out."""
    workflow = client.workflow("acme", "triage")
    proxy.lose("reply", of=RECORD_RUNS, times=2)
    proxy.lose("request", of=RECORD_RUNS)
    for number in range(4):
        workflow.spawn_run(f"run-{number}")
    assert proxy.lost == {"reply": 2, "request": 1}
    assert [each.event.run_id for each in client.runs()] == ["run-0", "run-1", "run-2", "run-3"]
