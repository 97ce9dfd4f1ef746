"""The tenants of drills: their names, and what is left to do about them."""

from typing import cast

import pytest

from alloc_es import AllocationError, ProjectionOutdated, Projections, StoreUnavailable
from alloc_es.drill.tenants import drills_tenant, is_drills, leave_out, what_remains

TENANT = "drill-0123456789ab"
OUTDATED = ProjectionOutdated("arms", built=1, known=2)


class Purged:
    """Read models of which some can't be purged."""

    def __init__(self, **errors: AllocationError) -> None:
        self.errors = errors
        self.asked: list[str] = []

    def purge(self, name: str, tenant_id: str) -> int:
        assert tenant_id == TENANT
        self.asked.append(name)
        if error := self.errors.get(name):
            raise error
        return 1


def left_in_by(purged: Purged) -> dict[str, str]:
    left_in = dict.fromkeys(("arms", "runs", "split"), "it was not asked to")
    leave_out(cast(Projections, purged), TENANT, left_in)
    return left_in


@pytest.mark.parametrize(
    ("tenant", "drills"),
    [
        (drills_tenant("ffffffffffffffff"), True),
        (TENANT, True),
        ("drill-sergeants", False),
        ("drill-0123456789abc", False),
        ("a-drill-0123456789ab", False),
    ],
)
def test_a_drill_s_tenant_is_told_by_its_name(tenant: str, drills: bool) -> None:
    """Red when a user's own tenant is taken for a drill's."""
    assert is_drills(tenant) is drills


def test_read_models_that_can_t_leave_a_tenant_out_are_named_with_the_reason() -> None:
    """Red when one keeps the others from it, or nobody is told why it can't."""
    denied = StoreUnavailable("permission denied for table split__1", retryable=False)
    left_in = left_in_by(Purged(arms=OUTDATED, split=denied))
    assert left_in == {"arms": str(OUTDATED), "split": "permission denied for table split__1"}
    said = what_remains(TENANT, left_in)
    assert f"run on each `alloc-es projections purge NAME {TENANT}`" in said
    assert "split (permission denied for table split__1)" in said


def test_a_store_that_is_away_is_waited_for_once() -> None:
    """Red when the end of a drill waits for it as often as there are read models."""
    purged = Purged(runs=StoreUnavailable("connection refused"))
    assert left_in_by(purged) == dict.fromkeys(("runs", "split"), "connection refused")
    assert purged.asked == ["arms", "runs"]
