"""Behind a pooler of transactions: nothing of a session is relied on, and nothing is heard."""

import uuid
from collections.abc import Iterator

import psycopg
import pytest

from alloc_es import Allocations, InvalidSetting, SpawnRequest, StoreUnavailable, connect

pytestmark = pytest.mark.postgresql

RUNS = 200
SETTINGS = ("statement_timeout = '10s'", "idle_in_transaction_session_timeout = '10s'")


@pytest.fixture
def role(postgres_url: str) -> Iterator[str]:
    """The name of a role that may do everything and has no settings of its own."""
    name = f"pooled_{uuid.uuid4().hex}"
    with psycopg.connect(postgres_url.partition("&schema")[0], autocommit=True) as admin:
        admin.execute(f"CREATE ROLE {name} LOGIN SUPERUSER".encode())
    yield name
    with psycopg.connect(postgres_url.partition("&schema")[0], autocommit=True) as admin:
        admin.execute(f"DROP OWNED BY {name} CASCADE".encode())
        admin.execute(f"DROP ROLE {name}".encode())


def test_a_role_without_the_settings_is_refused_with_the_orders_that_give_it_them(
    postgres_url: str, role: str
) -> None:
    """Red when a role behind a pooler is not looked at."""
    with pytest.raises(StoreUnavailable) as refused:
        connect(pooled(postgres_url, role))
    assert not refused.value.retryable
    orders = str(refused.value).partition("run: ")[2].split("; ")
    assert orders == [
        f"ALTER ROLE {role} SET search_path = {schema_of(postgres_url)}",
        *(f"ALTER ROLE {role} SET {setting}" for setting in SETTINGS),
    ]
    with psycopg.connect(postgres_url.partition("&schema")[0], autocommit=True) as admin:
        for order in orders:
            admin.execute(order.encode())
    with connect(pooled(postgres_url, role)) as allocations:
        assert allocations.list() == []


def test_nothing_is_left_in_a_session(postgres_url: str, role: str) -> None:
    """Red when statements are prepared, or a session's settings are set, behind a pooler."""
    configure(postgres_url, role)
    with connect(pooled(postgres_url, role)) as allocations:
        work(allocations)
        with allocations._store.desk.reading() as session:
            assert session.rows("SELECT name FROM pg_prepared_statements") == []
            # Those of a transaction end with it, whatever is said of their source.
            changed = (
                "SELECT name FROM pg_settings"
                " WHERE source = 'session' AND NOT starts_with(name, 'transaction_')"
            )
            assert session.rows(changed) == []


def test_another_word_for_the_pooler_is_refused(postgres_url: str) -> None:
    """Red when any word is taken for no pooler."""
    with pytest.raises(InvalidSetting) as refused:
        connect(f"{postgres_url}&pooler=statement")
    assert refused.value.setting == "pooler"


def work(allocations: Allocations) -> None:
    """Decide, spawn, follow without a word of new events, rebuild, and take a trigger."""
    projections = allocations.projections()
    workflow = allocations.workflow("acme", "triage")
    with projections.follow(poll=0.01), allocations.triggers("generate-loop") as triggers:
        workflow.start("v1")
        for attempt in range(5):
            workflow.register_challenger(f"c{attempt}")
            allocations.spawn_runs(
                SpawnRequest("acme", "triage", f"run-{attempt}-{n}") for n in range(RUNS // 5)
            )
            workflow.reject_challenger(f"c{attempt}")
        for attempt in range(5):
            trigger = next(triggers)
            assert trigger.version == f"c{attempt}"
            triggers.acknowledge(trigger)
        for name in projections.known:
            projections.wait_for(name, timeout=60)
        projections.rebuild("run_ledger")
        for name in projections.known:
            assert projections.verify(name).difference is None


def configure(url: str, role: str) -> None:
    """Give a role the settings that a session would have."""
    with psycopg.connect(url.partition("&schema")[0], autocommit=True) as admin:
        for setting in (f"search_path = {schema_of(url)}", *SETTINGS):
            admin.execute(f"ALTER ROLE {role} SET {setting}".encode())


def pooled(url: str, role: str) -> str:
    """A store's URL for a role behind a pooler of transactions."""
    return f"{url.replace('user=postgres', f'user={role}')}&pooler=transaction"


def schema_of(url: str) -> str:
    """The schema that a store's URL names."""
    return url.rpartition("schema=")[2]
