"""The query in `docs/reference/bucketing.md` gives every golden bucket on PostgreSQL."""

import psycopg
import pytest

from tests.core.test_routing import VECTORS
from tests.docs.documents import ROOT, blocks
from tests.support.postgres import ExistingServer, PostgresServer

DOCUMENT = ROOT / "docs" / "reference" / "bucketing.md"
LITERALS = "'1' AS hash_version, 's-1' AS salt, 'customer-17' AS unit"
PARAMETERS = "%s::text AS hash_version, %s::text AS salt, %s::text AS unit"


@pytest.mark.postgresql
def test_the_documented_query_computes_every_golden_bucket(
    postgres_server: PostgresServer | ExistingServer,
) -> None:
    """Red when the query counts characters for bytes, or reads a signed number."""
    (query,) = [block.text for block in blocks(DOCUMENT) if block.language == "sql"]
    assert query.count(LITERALS) == 1
    query = query.replace(LITERALS, PARAMETERS)
    with psycopg.connect(postgres_server.url) as connection:
        for vector in VECTORS:
            asked = (str(vector["hash_version"]), vector["salt"], vector["unit"])
            (row,) = connection.execute(query, asked).fetchall()
            assert row == (vector["bucket"],), vector["note"]
