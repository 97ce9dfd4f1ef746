"""3. 1,000 spawns at 95/5: the share, and each run's version from its stored event alone."""

from hashlib import sha256
from itertools import count
from math import sqrt
from typing import Any

from alloc_es import Allocations, connect
from tests.support.raw import RUNS, raw

RUNS_SPAWNED = 1_000
SHARE = 500 / 10_000

# A unit's bucket is as good as drawn at random, so the challenger's runs are binomial with
# n = 1,000 and p = 0.05: 50 on average, standard deviation 6.9. Four of those (27.6) let
# through all but 1 in 16,000 salts; the salt here is fixed, so the outcome is, too.
TOLERANCE = 4 * sqrt(RUNS_SPAWNED * SHARE * (1 - SHARE))


def test_1000_runs_at_95_to_5_are_shared_and_each_names_what_its_bucket_gives(
    store_url: str,
) -> None:
    """Red when `bucket_of` leaves out the salt, `route` looks at anything but the bucket, or
    the event names another version than the one that was routed to.
    """
    ids = (f"id-{number}" for number in count())
    with connect(store_url, new_id=lambda: next(ids)) as allocations:
        workflow = allocations.workflow("acme", "triage")
        workflow.start("v1")
        workflow.register_challenger("v2", share_bps=500)
        answers = [workflow.spawn_run(f"run-{number}") for number in range(RUNS_SPAWNED)]
        stored = fields_of_runs(store_url, allocations)
        owners = {arm.version: arm.slots for arm in workflow.allocation().arms}
    assert [fields["run_id"] for fields in stored] == [answer.run_id for answer in answers]
    assert [fields["version"] for fields in stored] == [answer.version for answer in answers]
    for fields in stored:
        assert fields["bucket"] == recomputed_bucket(fields)
        first, end = fields["slot"]
        assert first <= fields["bucket"] < end
        assert (first, end) in owners[fields["version"]]
        assert fields["arm"] == {"v1": "control", "v2": "challenger"}[fields["version"]]
    challenged = sum(fields["version"] == "v2" for fields in stored)
    assert abs(challenged - RUNS_SPAWNED * SHARE) <= TOLERANCE


def recomputed_bucket(fields: dict[str, Any]) -> int:
    """The bucket by the published rule, with nothing of alloc-es: see `bucket_of`."""
    texts = [str(fields["hash_version"]), fields["salt"], fields["unit"]]
    encoded = [text.encode() for text in texts]
    digest = sha256(b"".join(len(each).to_bytes(4, "big") + each for each in encoded)).digest()
    return int.from_bytes(digest[:8], "big") % 10_000


def fields_of_runs(url: str, allocations: Allocations) -> list[dict[str, Any]]:
    """The stored JSON of each run; a store in memory has no other access than the API."""
    if url.startswith("memory"):
        return [each.event.model_dump(mode="json") for each in allocations.runs()]
    with raw(url) as database:
        return database.fields(RUNS)
