"""Read models by one SQL statement from the event table, as one would write it by hand."""

from collections.abc import Sequence

from alloc_es.tables import Column, Kind, Table

_OBJECT = "convert_from(state, 'UTF8')::jsonb"
_CASTS: dict[Kind, str] = {"text": "", "integer": "::bigint", "time": "::timestamptz"}
_TYPES: dict[Kind, str] = {"text": "text", "integer": "bigint", "time": "timestamptz"}


def once_a_row(table: Table, name: str) -> str:
    """The rows of runs by operators; OFFSET keeps each row's JSON from being parsed again."""
    columns = ", ".join(_by_operator(column, "run.fields") for column in table.columns)
    return (
        f"INSERT INTO {name} ({', '.join(table.names)}) SELECT {columns} FROM"
        f" (SELECT notification_id, {_OBJECT} AS fields FROM run_events OFFSET 0) AS run"
    )


def as_a_record(table: Table, name: str) -> str:
    """The rows of runs, each taken apart by one call of `json_to_record`."""
    stored = [column for column in table.columns if column.name != "position"]
    columns = ", ".join(
        "notification_id" if column.name == "position" else f"run.{column.name}"
        for column in table.columns
    )
    return (
        f"INSERT INTO {name} ({', '.join(table.names)}) SELECT {columns} FROM run_events,"
        f" json_to_record(convert_from(state, 'UTF8')::json) AS run ({_record(stored)})"
    )


def once_a_column(table: Table, name: str, runs: int) -> str:
    """The rows of the first runs; the JSON of each is parsed anew for each column."""
    columns = ", ".join(_by_operator(column, f"({_OBJECT})") for column in table.columns)
    return (
        f"INSERT INTO {name} ({', '.join(table.names)}) SELECT {columns} FROM run_events"
        f" WHERE notification_id <= {runs}"
    )


def counts_once_a_row(table: Table, name: str) -> str:
    """The counts by operators; OFFSET keeps each row's JSON from being parsed again."""
    keys = [column for column in table.columns if column.name in table.key]
    columns = ", ".join(_by_operator(column, "run.fields") for column in keys)
    return (
        f"INSERT INTO {name} ({', '.join(table.names)}) SELECT {columns}, count(*) FROM"
        f" (SELECT {_OBJECT} AS fields FROM run_events OFFSET 0) AS run"
        f" GROUP BY {', '.join(str(place) for place in range(1, len(keys) + 1))}"
    )


def counts_as_a_record(table: Table, name: str) -> str:
    """The counts; what they are by is taken out of each run by one call of `json_to_record`."""
    keys = [column for column in table.columns if column.name in table.key]
    return (
        f"INSERT INTO {name} ({', '.join(table.names)})"
        f" SELECT {', '.join(table.key)}, count(*) FROM run_events,"
        f" json_to_record(convert_from(state, 'UTF8')::json) AS run ({_record(keys)})"
        f" GROUP BY {', '.join(table.key)}"
    )


def _by_operator(column: Column, fields: str) -> str:
    if column.name == "position":
        return "notification_id"
    return f"({fields} ->> '{column.name}'){_CASTS[column.kind]}"


def _record(columns: Sequence[Column]) -> str:
    return ", ".join(f"{column.name} {_TYPES[column.kind]}" for column in columns)
