"""By which URL the participants of a drill connect."""

import pytest

from alloc_es import InvalidSetting
from alloc_es.drill.network import network_of, participants_url
from alloc_es.drill.settings import Settings
from alloc_es.store.postgres_url import PostgresUrl

URL = "postgresql://db.example.com/allocations"


@pytest.mark.parametrize(
    ("url", "connections"),
    [(URL, 4), (f"{URL}?schema=mine", 4), (f"{URL}?connections=7&schema=mine", 7)],
)
def test_a_crowd_of_64_has_four_connections_unless_the_url_says_how_many(
    url: str, connections: int
) -> None:
    """Red when a crowd has a connection for each, or the user's number is not kept."""
    parsed = PostgresUrl.parse(participants_url(url, "drill-1"))
    assert parsed.connections == connections
    assert parsed.parameters["application_name"] == "drill-1"
    assert parsed.schema == PostgresUrl.parse(url).schema


def test_an_application_s_name_is_the_drill_s_own() -> None:
    """Red when the drill ends connections that are not its own."""
    with pytest.raises(InvalidSetting, match="leave application_name out"):
        participants_url(f"{URL}?application_name=mine", "drill-1")


def test_a_file_is_opened_as_it_is_named() -> None:
    """Red when a store that has no server gets options of one."""
    with network_of(Settings(url="sqlite:///alloc.db"), "drill-1") as (network, url):
        assert (url, network.cut()) == ("sqlite:///alloc.db", 0)
