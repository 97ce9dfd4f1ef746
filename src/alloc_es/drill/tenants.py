"""The tenants of drills, whose names tell them from all others."""

import re
from collections.abc import Mapping

from alloc_es.errors import AllocationError, StoreUnavailable
from alloc_es.projections import Projections

_DRILLS = re.compile("drill-[0-9a-f]{12}")


def drills_tenant(unique_id: str) -> str:
    """The name of a drill's tenant, from the beginning of a unique id."""
    return f"drill-{unique_id[:12]}"


def is_drills(tenant_id: str) -> bool:
    """Whether a tenant is named as those of drills are."""
    return _DRILLS.fullmatch(tenant_id) is not None


def leave_out(projections: Projections, tenant: str, left_in: dict[str, str]) -> None:
    """Let the named read models leave a tenant out; who has done so is taken out of them.

    Those that can't are left, each with the reason.
    """
    for name in list(left_in):
        try:
            projections.purge(name, tenant)
        except StoreUnavailable as error:
            left_in[name] = error.problem
            if error.retryable:
                # The others would wait for the store as long, one after the other.
                left_in.update(dict.fromkeys(left_in, error.problem))
                return
        except AllocationError as error:
            left_in[name] = str(error)
        else:
            del left_in[name]


def what_remains(tenant: str, left_in: Mapping[str, str]) -> str:
    """What to do about a drill's tenant, whose name is to be told."""
    if not left_in:
        return f"the drill's tenant is {tenant}, which the read models leave out"
    reasons = ", ".join(f"{name} ({why})" for name, why in left_in.items())
    return (
        f"the drill's tenant is {tenant}, and not told to leave it out were {reasons}; once they "
        f"can be, run on each `alloc-es projections purge NAME {tenant}`"
    )
