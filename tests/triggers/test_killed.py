"""Four workers, two hundred rejections, kill -9 at random: each is answered, and once."""

from alloc_es import ChallengerRegistered, connect
from tests.support.raw import Raw, raw
from tests.triggers import handlers
from tests.triggers.handlers import CONSUMER, Crew
from tests.triggers.workers import reject

REJECTIONS = 200
SEED = 4


def test_each_trigger_is_acknowledged_once_and_answered_at_most_once(durable_url: str) -> None:
    """Each workflow rejected twice: the first of the two triggers is late, whoever handles it.

    Red when a dead worker keeps what it held, or what is late or doubled is registered too.
    """
    with connect(durable_url, timeout=60) as allocations, raw(durable_url) as store:
        answered = {
            f"generate/{reject(allocations, 'v2', 'v3', workflow=f'w{number}')[-1]}"
            for number in range(REJECTIONS // 2)
        }
        crew = Crew(handlers.register, durable_url, store, SEED)
        crew.work_until(REJECTIONS)
        registered = [
            each.event.command_id
            for each in allocations.decisions()
            if isinstance(each.event, ChallengerRegistered) and each.actor == "generator"
        ]
        check_deliveries(store, crew)
    assert len(registered) == REJECTIONS // 2
    assert set(registered) == answered


def test_effects_in_the_same_database_are_exactly_once(postgres_url: str) -> None:
    """Red when the acknowledgement is not made on the caller's connection."""
    with connect(postgres_url, timeout=60) as allocations, raw(postgres_url) as store:
        expected = reject(allocations, *(f"c{number}" for number in range(REJECTIONS)))
        store.execute("CREATE TABLE effects (position bigint NOT NULL)")
        crew = Crew(handlers.record, postgres_url, store, SEED)
        crew.work_until(REJECTIONS)
        rows = store.execute("SELECT position FROM effects ORDER BY position")
        check_deliveries(store, crew)
    assert [position for (position,) in rows] == expected


def check_deliveries(store: Raw, crew: Crew) -> None:
    """All are acknowledged, and the kills hit workers that held some, which came again."""
    rows = store.execute(
        "SELECT attempts, acknowledged_at IS NOT NULL FROM trigger_deliveries WHERE consumer = ?",
        CONSUMER,
    )
    assert [bool(done) for _, done in rows] == [True] * REJECTIONS
    assert crew.kills > 0
    assert crew.killed_with_triggers > 0
    assert sum(attempts for attempts, _ in rows) > REJECTIONS
