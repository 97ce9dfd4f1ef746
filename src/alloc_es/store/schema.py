"""The schema version that this release works with, and what to do about another."""

from alloc_es.errors import SchemaTooNew, StoreNotInitialised

SCHEMA_VERSION = 1


def check_version(found: int, where: str, *, migrate: bool) -> bool:
    """Whether a database at schema version `found` (0: no tables) is to be migrated.

    Raises `SchemaTooNew` for a version from the future, and `StoreNotInitialised` when a
    migration is needed and not wanted.
    """
    if found > SCHEMA_VERSION:
        raise SchemaTooNew(where, found=found, known=SCHEMA_VERSION)
    if found < SCHEMA_VERSION and not migrate:
        raise StoreNotInitialised(where, found=found, wanted=SCHEMA_VERSION)
    return found < SCHEMA_VERSION
