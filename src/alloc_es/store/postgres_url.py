"""What a URL of a PostgreSQL store says."""

import re
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, quote, urlencode

from psycopg import ProgrammingError
from psycopg.conninfo import conninfo_to_dict

from alloc_es.errors import InvalidSetting

_DEFAULT_SCHEMA = "alloc_es"
_DEFAULT_CONNECTIONS = 10
_MOST_CONNECTIONS = 1_000
# With ".decision_events" it names a channel, which PostgreSQL takes up to 63 characters of.
_SCHEMA_NAME = re.compile(r"[a-z_][a-z0-9_]{0,46}")


class PostgresUrl(NamedTuple):
    """libpq's parameters, and what is ours: see `docs/reference/stores.md`."""

    parameters: dict[str, Any]
    schema: str
    pooled: bool
    connections: int

    @classmethod
    def parse(cls, url: str) -> "PostgresUrl":
        """Read a URL as given by a caller; raises `InvalidSetting`."""
        base, _, query = url.partition("?")
        if base.count("@") > 1:
            raise InvalidSetting("store", "the URL has two @; write one in a password as %40")
        options = dict(parse_qsl(query.replace("+", "%2B"), keep_blank_values=True))
        schema = options.pop("schema", _DEFAULT_SCHEMA)
        if not _SCHEMA_NAME.fullmatch(schema):
            raise InvalidSetting("schema", f"{schema!r} can't be one; use a-z, 0-9 and _, up to 47")
        pooler = options.pop("pooler", "session")
        if pooler not in ("session", "transaction"):
            raise InvalidSetting("pooler", f"{pooler!r} is neither 'session' nor 'transaction'")
        connections = _parse_connections(options.pop("connections", str(_DEFAULT_CONNECTIONS)))
        try:
            # libpq reads %20 as a blank and + as itself.
            parameters = conninfo_to_dict(f"{base}?{urlencode(options, quote_via=quote)}")
        except ProgrammingError as error:
            secret = "@" in url or "password" in url
            reason = (
                "it is not shown, as it holds a password"
                if secret
                else " ".join(str(error).split())
            )
            raise InvalidSetting("store", f"libpq can't read the URL: {reason}") from None
        return cls(parameters, schema, pooler == "transaction", connections)


def _parse_connections(text: str) -> int:
    if text.isascii() and text.isdigit() and 1 <= int(text) <= _MOST_CONNECTIONS:
        return int(text)
    problem = f"{text!r} is no number of connections from 1 to {_MOST_CONNECTIONS:,}"
    raise InvalidSetting("connections", problem)
